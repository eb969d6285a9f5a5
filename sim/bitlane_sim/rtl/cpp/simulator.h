// The accelerator with a master on its register port and a memory on each memory port, cycle by cycle.
//
// One cycle (`Simulator::step`):
//   1. The clock falls, and every input of the accelerator gets its value for this cycle.
//   2. The outputs that depend on these inputs settle. Handshakes are read, and every rule is checked.
//   3. The clock rises. Requests accepted in step 2 enter the queues of the memory.
// An input therefore depends on earlier cycles only, like the output of a register.
#pragma once
#include <cstdint>
#include <vector>

#include "Vtop.h"
#include "abi.h"
#include "bus.h"
#include "memory.h"
#include "ports.h"
#include "random.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#endif

namespace {

struct Lite {  // the payload of the register port's R or B
    uint32_t data, response, id;
    bool last;
    bool operator!=(const Lite& o) const {
        return data != o.data || response != o.response || id != o.id || last != o.last;
    }
};

class Simulator;
thread_local Simulator* current = nullptr;  // the simulator whose RTL runs, for its assertions

class Simulator {
  public:
    // Writes waves to the file `waves`, if that is not null and the simulator was built to.
    Simulator(uint8_t* memory, const Settings& settings, const char* waves) {
        context_.randReset(2);  // registers without an initial value start at random
        context_.randSeed(static_cast<int>(mix(settings.seed) & 0x7FFFFFFF));
        top_ = new Vtop{&context_};
        const std::vector<MemoryPort> ports = memory_ports(*top_);
        for (unsigned i = 0; i < ports.size(); ++i) memories_.emplace_back(ports[i], i, memory, bus_);
        configure(settings);
#if VM_TRACE
        if (waves) {
            context_.traceEverOn(true);
            top_->trace(&waves_, 99);
            waves_.open(waves);
        }
#endif
        reset(4);
    }
    ~Simulator() {
        top_->final();
#if VM_TRACE
        waves_.close();
#endif
        delete top_;
    }
    Simulator(const Simulator&) = delete;
    Simulator& operator=(const Simulator&) = delete;

    void configure(const Settings& settings) {
        host_stall_ = settings.stall[LITE];
        random_.seed(settings.seed * CHANNELS + LITE);
        bus_.error_seen = false;
        for (Memory& memory : memories_) memory.configure(settings);
    }

    // Holds rst for `cycles`. The memory keeps its contents; it drops the pending requests, unless it outlives the reset.
    void reset(unsigned cycles) {
        bus_.monitor.reset = memories_.front().moment();
        lite_ = {};
        forget_offers();
        for (Memory& memory : memories_) memory.begin_reset(bus_.failed);
        bus_.failed = false;
        bus_.resetting = true;
        for (unsigned i = 0; i < cycles && !bus_.failed; ++i) {
            reset_seen_ = i > 0;  // a synchronous reset changes nothing before its first edge
            step();
        }
        bus_.resetting = false;
        forget_offers();
        for (Memory& memory : memories_) memory.forget_offers();
    }

    // Runs until irq is high, at most `cycles`. Returns the cycles run: 0 if irq is high already.
    uint64_t run(uint64_t cycles) {
        const uint64_t start = bus_.counters.cycles;
        while (bus_.counters.cycles - start < cycles && !top_->irq && !bus_.failed) step();
        return bus_.counters.cycles - start;
    }

    // Runs `cycles`, regardless of irq.
    uint64_t idle(uint64_t cycles) {
        const uint64_t start = bus_.counters.cycles;
        while (bus_.counters.cycles - start < cycles && !bus_.failed) step();
        return bus_.counters.cycles - start;
    }

    bool write(uint32_t offset, uint32_t value) {
        lite_ = {};
        lite_.address = offset;
        lite_.data = value;
        bool address_done = false, data_done = false;
        for (unsigned i = 0; i < LITE_TIMEOUT && !bus_.failed; ++i) {
            // Valid stays high until it is accepted; ready may change.
            lite_.awvalid = !address_done && (lite_.awvalid || !host_stalls());
            lite_.wvalid = !data_done && (lite_.wvalid || !host_stalls());
            lite_.bready = !host_stalls();
            step();
            address_done |= lite_.aw;
            data_done |= lite_.w;
            if (lite_.b) return end_access("LITE_B_RESPONSE", lite_.response, offset);
        }
        return bus_.fail("LITE_TIMEOUT", "a write of register 0x%03x was not answered in %u cycles", offset, LITE_TIMEOUT);
    }

    bool read(uint32_t offset, uint32_t* value) {
        lite_ = {};
        lite_.address = offset;
        bool address_done = false;
        for (unsigned i = 0; i < LITE_TIMEOUT && !bus_.failed; ++i) {
            lite_.arvalid = !address_done && (lite_.arvalid || !host_stalls());
            lite_.rready = !host_stalls();
            step();
            address_done |= lite_.ar;
            *value = lite_.data;
            if (lite_.r) return end_access("LITE_R_RESPONSE", lite_.response, offset);
        }
        return bus_.fail("LITE_TIMEOUT", "a read of register 0x%03x was not answered in %u cycles", offset, LITE_TIMEOUT);
    }

    bool irq() const { return top_->irq; }
    Bus& bus() { return bus_; }

    // Writes Verilator's coverage counts. Returns false if the simulator was built without them.
    bool write_coverage(const char* path) {
#if VM_COVERAGE
        context_.coveragep()->write(path);
#endif
        return VM_COVERAGE;
    }

  private:
    // --- one cycle
    void step() {
        current = this;
        for (Memory& memory : memories_) memory.drive();
        drive_registers();
        top_->rst = bus_.resetting;
        top_->clk = 0;
        evaluate(0);
        const bool irq_rises = top_->irq && !irq_before_;
        irq_before_ = top_->irq;
        if (bus_.resetting) {
            check_reset();
            for (Memory& memory : memories_)
                if (memory.outlives()) memory.forget_offers(), memory.observe(memories_);
        } else {
            observe_registers();
            for (Memory& memory : memories_) memory.observe(memories_);
            if (irq_rises) check_idle();
        }
        top_->clk = 1;
        evaluate(HALF_PERIOD);
        ++bus_.counters.cycles;
    }

    void evaluate(uint64_t offset) {
        top_->eval();
#if VM_TRACE
        if (waves_.isOpen()) waves_.dump(2 * HALF_PERIOD * bus_.counters.cycles + offset);
#endif
    }

    bool host_stalls() {
        const bool stalled = random_.below(host_stall_);
        bus_.monitor.stalls[LITE] += stalled;
        return stalled;
    }

    // --- registers
    void drive_registers() {
        top_->OF_REGISTERS(awaddr) = top_->OF_REGISTERS(araddr) = lite_.address;
        top_->OF_REGISTERS(awprot) = top_->OF_REGISTERS(arprot) = 0;
        top_->OF_REGISTERS(awvalid) = lite_.awvalid;
        top_->OF_REGISTERS(wdata) = lite_.data;
        top_->OF_REGISTERS(wstrb) = 0xF;
        top_->OF_REGISTERS(wvalid) = lite_.wvalid;
        top_->OF_REGISTERS(bready) = lite_.bready;
        top_->OF_REGISTERS(arvalid) = lite_.arvalid;
        top_->OF_REGISTERS(rready) = lite_.rready;
#if HP_PORTS  // a burst of one word
        top_->gp0_awid = top_->gp0_arid = top_->gp0_wid = accesses_ & GP_IDS;
        top_->gp0_awlen = top_->gp0_arlen = 0;
        top_->gp0_awsize = top_->gp0_arsize = 2;
        top_->gp0_awburst = top_->gp0_arburst = INCREMENTING;
        top_->gp0_awlock = top_->gp0_arlock = top_->gp0_awcache = top_->gp0_arcache = 0;
        top_->gp0_awqos = top_->gp0_arqos = 0;
        top_->gp0_wlast = 1;
#endif
    }

    void observe_registers() {
#if HP_PORTS
        const Lite answer{0, top_->gp0_bresp, top_->gp0_bid, true};
        const Lite value{top_->gp0_rdata, top_->gp0_rresp, top_->gp0_rid, static_cast<bool>(top_->gp0_rlast)};
#else
        const Lite answer{0, top_->s_axi_bresp, accesses_ & GP_IDS, true};
        const Lite value{top_->s_axi_rdata, top_->s_axi_rresp, accesses_ & GP_IDS, true};
#endif
        check_offer(bus_, "LITE_B", offered_b_, answer, top_->OF_REGISTERS(bvalid), lite_.bready);
        check_offer(bus_, "LITE_R", offered_r_, value, top_->OF_REGISTERS(rvalid), lite_.rready);
        if (top_->OF_REGISTERS(bvalid) && !(lite_.aw_seen && lite_.w_seen))
            bus_.fail("LITE_B_EARLY", "BVALID before both the address and the data of a write were accepted");
        if (top_->OF_REGISTERS(rvalid) && !lite_.ar_seen)
            bus_.fail("LITE_R_EARLY", "RVALID before the address of a read was accepted");
        lite_.aw = lite_.awvalid && top_->OF_REGISTERS(awready);
        lite_.w = lite_.wvalid && top_->OF_REGISTERS(wready);
        lite_.ar = lite_.arvalid && top_->OF_REGISTERS(arready);
        if (lite_.w) bus_.monitor.written = memories_.front().moment();
        lite_.b = lite_.bready && top_->OF_REGISTERS(bvalid);
        lite_.r = lite_.rready && top_->OF_REGISTERS(rvalid);
        lite_.aw_seen |= lite_.aw;
        lite_.w_seen |= lite_.w;
        lite_.ar_seen |= lite_.ar;
        if (lite_.b) take(answer);
        if (lite_.r) take(value), lite_.data = value.data;
    }

    void take(const Lite& answer) {
        lite_.response = answer.response;
        if (answer.id != (accesses_ & GP_IDS))
            bus_.fail("GP_ID", "an answer has ID 0x%03x, its address had 0x%03x", answer.id, accesses_ & GP_IDS);
        if (!answer.last) bus_.fail("GP_LAST", "RLAST is low in the only beat of a burst");
    }

    bool end_access(const char* rule, unsigned response, uint32_t offset) {
        lite_ = {};
        ++accesses_;
        if (response != OKAY) return bus_.fail(rule, "register 0x%03x answered with response %u", offset, response);
        return !bus_.failed;
    }

    // --- rules
    void check_reset() {
        if (!reset_seen_) return;
        bool valid = top_->OF_REGISTERS(bvalid) || top_->OF_REGISTERS(rvalid);
        for (const Memory& memory : memories_) valid |= memory.offers();
        if (valid) bus_.fail("RESET_VALID", "a valid signal is high in reset");
    }

    void check_idle() {  // at the end of a run no request may be pending
        for (const Memory& memory : memories_)
            if (memory.busy())
                bus_.fail("IRQ_EARLY", "irq rose with %zu reads and %zu writes under way", memory.reads(), memory.writes());
    }

    void forget_offers() {
        offered_r_.waiting = offered_b_.waiting = false;
    }

    struct Access {  // one register access: driven signals, handshakes of this cycle, handshakes so far
        uint32_t address = 0, data = 0, response = 0;
        bool awvalid = false, wvalid = false, bready = false, arvalid = false, rready = false;
        bool aw = false, w = false, b = false, ar = false, r = false;
        bool aw_seen = false, w_seen = false, ar_seen = false;
    };

    static constexpr uint64_t HALF_PERIOD = 5000;  // ps, in the waves

    VerilatedContext context_;
#if VM_TRACE
    Waves waves_;
#endif
    Vtop* top_ = nullptr;
    Bus bus_;
    std::vector<Memory> memories_;  // one for each port
    Random random_;                 // for the stalls of the host
    uint32_t host_stall_ = 0;
    bool reset_seen_ = false, irq_before_ = false;
    Access lite_;
    uint32_t accesses_ = 0;
    Offer<Lite> offered_b_, offered_r_;
};

}  // namespace
