// The Verilated accelerator behind a C ABI: an AXI4-Lite master, an AXI4 memory and the protocol's checks.
//
// HP_PORTS 0: the accelerator, whose ports are s_axi (AXI4-Lite) and m_axi (AXI4). 1 or 2: its fabric on a Zynq-7000,
// with AXI3 ports gp0 (registers) and hp0, hp1 (one memory, each with queues, rate and random choices of its own).
//
// One cycle (`Simulator::step`):
//   1. the clock falls, and every input of the accelerator takes its value for this cycle;
//   2. outputs that depend on those inputs settle; handshakes are read off, and every rule is checked;
//   3. the clock rises; what was accepted in step 2 takes effect in the queues here.
// An input therefore depends only on what happened in earlier cycles, as if it came out of a register.
//
// The memory port is as wide as the design's: a beat is 8, 16, 32 or 64 bytes, and all lengths here are beats of it.
//
// The memory
//   read        An address accepted in cycle t offers its first beat in cycle t + read_latency, not earlier (a second
//               port's, `skew` cycles later), and after
//               that one beat in every cycle in which the accelerator takes it. Bursts are answered in the order of
//               their addresses; between two bursts that are both due there is no bubble.
//   read rate   At most `read_rate` / 65536 beats a cycle in the long run: a bucket that holds one beat, and fills by
//               the rate each cycle. 65536 is no limit.
//   write       Data may come before its address. A beat is in the memory from the cycle after the one in which both
//               its data and its address had been accepted. The answer is offered write_latency cycles after the last
//               data beat (or the address, if that came later) was accepted; answers keep the order of the addresses.
//   queues      ARREADY is low while `outstanding` read bursts wait; AWREADY likewise; WREADY is low while
//               BURST_BEATS beats wait for their address.
//   stalls      In every cycle AR, AW and W are not ready with their probability; an answer or read beat that is due
//               is held back for this cycle with that of B or R. Once offered, it stays. A stall of the register port is
//               one of its valid or ready signals, kept low by the master for a cycle.
//   slots       Cycles in which no read beat that was due was held back by a stall or the rate: as many beats as the
//               port could have carried.
//   errors      A beat outside the memory answers DECERR; a chosen burst or beat answers `error_response`. A failed
//               read returns POISON, a failed write stores nothing. Numbers count from the last `configure` on, at each
//               port for itself.
//
// All of this, random choices too, is a function of the settings and of the calls made: runs repeat exactly.
// A broken rule, or an assertion in the RTL, ends the simulation: every later call but `reset` does nothing.
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#include "Vtop.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

#ifndef HP_PORTS
#define HP_PORTS 0
#endif
#define AXI4_SIGNALS(S)                                                                                               \
    S(arid) S(araddr) S(arlen) S(arsize) S(arburst) S(arvalid) S(arready)                                             \
    S(rid) S(rdata) S(rresp) S(rlast) S(rvalid) S(rready)                                                             \
    S(awid) S(awaddr) S(awlen) S(awsize) S(awburst) S(awvalid) S(awready)                                             \
    S(wdata) S(wstrb) S(wlast) S(wvalid) S(wready) S(bid) S(bresp) S(bvalid) S(bready)
#if HP_PORTS
#define MEMORY_SIGNALS(S)                                                                                             \
    AXI4_SIGNALS(S) S(arlock) S(arcache) S(arprot) S(arqos) S(awlock) S(awcache) S(awprot) S(awqos) S(wid)
#define OF_MEMORY(signal) hp0_##signal
#define OF_REGISTERS(signal) gp0_##signal
#else
#define MEMORY_SIGNALS(S) AXI4_SIGNALS(S)
#define OF_MEMORY(signal) m_axi_##signal
#define OF_REGISTERS(signal) s_axi_##signal
#endif

namespace {

constexpr unsigned BEAT_BYTES = sizeof(Vtop::OF_MEMORY(rdata));
constexpr uint64_t ALL_BYTES = ~uint64_t{0} >> (64 - BEAT_BYTES);  // WSTRB
constexpr unsigned BEAT_SIZE = __builtin_ctz(BEAT_BYTES);          // AxSIZE
constexpr unsigned BURST_BEATS = 16;   // the longest burst that both Zynq families take
constexpr unsigned PAGE_BYTES = 4096;  // no burst crosses a multiple of it
constexpr unsigned INCREMENTING = 1;   // AxBURST
static_assert(BEAT_BYTES == 8 || BEAT_BYTES == 16 || BEAT_BYTES == 32 || BEAT_BYTES == 64, "width of the memory port");
static_assert(sizeof(Vtop::OF_MEMORY(wdata)) == BEAT_BYTES && 8 * sizeof(Vtop::OF_MEMORY(wstrb)) == BEAT_BYTES,
              "both halves of the memory port are one width");
using Beat = std::array<uint8_t, BEAT_BYTES>;  // a port's value, whose bytes lie in memory in the same order
constexpr uint32_t GP_IDS = 0xFFF;          // that an AXI3 master of registers has
constexpr unsigned LITE_TIMEOUT = 10'000;     // cycles for one access of a register
constexpr unsigned ADDRESS_TIMEOUT = 10'000;  // cycles that write data may wait for their address
constexpr unsigned FULL_RATE = 1u << 16;
constexpr uint64_t POISON = 0xBAD0BAD0BAD0BAD0;  // in every word of a beat that failed
enum Response : unsigned { OKAY = 0, SLAVE_ERROR = 2, DECODE_ERROR = 3 };
enum Channel { AR, R, AW, W, B, LITE, CHANNELS };

// The same fields, in this order, are `_Settings` and `_Counters` in harness.py.
struct Settings {
    uint64_t base, size;        // the memory's first address and its bytes
    uint64_t seed;
    uint64_t read_error_burst;  // number, from 0, of the burst (or beat) that fails; ~0 for none
    uint64_t read_error_beat;
    uint64_t write_error_burst;
    uint32_t error_response;    // what it answers
    uint32_t read_latency, write_latency;  // cycles, at least 1
    uint32_t read_rate;         // in 1 / 65536 of a beat a cycle
    uint32_t outstanding;       // bursts accepted and not answered, each way
    uint32_t skew;              // read latency of a second port, less that of the first
    uint32_t stall[CHANNELS];   // probabilities in 2**-32
};

struct Counters {
    uint64_t cycles, read_bursts, read_beats, read_slots, write_bursts, write_beats, error_responses;
};

struct Moment {  // how far the bus has come
    uint64_t sending;       // address of the write burst that is offered or not complete yet, ~0 for none
    uint64_t base_beats;    // read beats with ID 0 accepted since the simulator was made
    uint64_t write_bursts;  // write addresses accepted since then
};

// What has been seen since the simulator was made; the same fields are `_Monitor` in harness.py.
struct Monitor {
    uint64_t read_lengths[BURST_BEATS + 1], write_lengths[BURST_BEATS + 1];  // accepted bursts of each length
    uint64_t read_page_ends, write_page_ends;  // of them, those that end at a multiple of 4096
    uint64_t stalls[CHANNELS];  // cycles in which the memory held back a request or an answer, the host a signal
    Moment error;    // the first error response accepted since `configure`
    Moment written;  // the last register write accepted
    Moment reset;    // the last reset
};

uint64_t mix(uint64_t x) {  // splitmix64: spreads a seed over all bits
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

class Random {  // xorshift64*
  public:
    void seed(uint64_t value) {
        state_ = mix(value);
        if (state_ == 0) state_ = 1;
    }
    bool below(uint32_t threshold) {  // true with probability threshold / 2**32; draws nothing for 0
        if (threshold == 0) return false;
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1D) >> 32) < threshold;
    }

  private:
    uint64_t state_ = 1;
};

struct MemoryPort {  // the signals of m_axi, hp0 or hp1
#define SIGNAL(name) std::remove_reference_t<decltype(Vtop::OF_MEMORY(name))>& name;
    MEMORY_SIGNALS(SIGNAL)
#undef SIGNAL
};

std::vector<MemoryPort> memory_ports(Vtop& top) {
    std::vector<MemoryPort> ports;
#define SIGNAL(name) top.OF_MEMORY(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#if HP_PORTS > 1
#define SIGNAL(name) top.hp1_##name,
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#endif
    return ports;
}

struct Address {  // the payload of AR or AW
    uint64_t address;
    uint32_t id, length, size, burst;  // length is AxLEN + 1 beats
    uint32_t attributes;               // of AXI3: AxQOS, AxPROT, AxLOCK and, in the low bits, AxCACHE; else 0
    bool operator!=(const Address& o) const {
        return address != o.address || id != o.id || length != o.length || size != o.size || burst != o.burst ||
               attributes != o.attributes;
    }
    bool overlaps(const Address& o) const {
        return address < o.address + o.length * BEAT_BYTES && o.address < address + length * BEAT_BYTES;
    }
};

struct Data {  // the payload of W
    Beat data;
    uint64_t strobe;
    bool last;
    uint32_t id;  // of AXI3; else 0, like those of all writes
    bool operator!=(const Data& o) const {
        return data != o.data || strobe != o.strobe || last != o.last || id != o.id;
    }
};

#if HP_PORTS
constexpr uint32_t ATTRIBUTES = 0b0011;  // bufferable memory, nothing else
#define ATTRIBUTES_OF(port, prefix)                                                                                   \
    (port.prefix##qos << 9u | port.prefix##prot << 6u | port.prefix##lock << 4u | port.prefix##cache)
uint32_t read_attributes(const MemoryPort& port) { return ATTRIBUTES_OF(port, ar); }
uint32_t write_attributes(const MemoryPort& port) { return ATTRIBUTES_OF(port, aw); }
uint32_t write_id(const MemoryPort& port) { return port.wid; }
#else
constexpr uint32_t ATTRIBUTES = 0;
uint32_t read_attributes(const MemoryPort&) { return ATTRIBUTES; }
uint32_t write_attributes(const MemoryPort&) { return ATTRIBUTES; }
uint32_t write_id(const MemoryPort& port) { return port.awid; }
#endif

struct Lite {  // the payload of the register port's R or B
    uint32_t data, response, id;
    bool last;
    bool operator!=(const Lite& o) const {
        return data != o.data || response != o.response || id != o.id || last != o.last;
    }
};

// What a channel offered in the last cycle without finding it taken: it has to be there again, unchanged.
template <typename Payload>
struct Offer {
    bool waiting = false;
    Payload payload{};
};

struct ReadBurst {
    Address at;
    uint64_t number, due;
    unsigned done;  // beats handed over
};

struct WriteBurst {
    Address at;
    uint64_t number, due;
    unsigned done;
    unsigned response;
    bool complete;
};

// What is seen on all ports, and the first broken rule.
struct Bus {
    Counters counters{};
    Monitor monitor{};
    uint64_t base_beats = 0;
    bool resetting = false, failed = false, error_seen = false;

    // Notes the first broken rule of a run; always false, so that a caller can return it.
    bool fail(const char* rule, const char* format, ...) __attribute__((format(printf, 3, 4))) {
        if (failed) return false;
        failed = true;
        int used = std::snprintf(message_, sizeof message_, "%s in cycle %llu: ", rule,
                                 static_cast<unsigned long long>(counters.cycles));
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(message_ + used, sizeof message_ - used, format, arguments);
        va_end(arguments);
        return false;
    }

    const char* message() const { return failed ? message_ : nullptr; }

  private:
    char message_[256] = {};
};

template <typename Payload>
void check_offer(Bus& bus, const char* channel, Offer<Payload>& offer, const Payload& payload, bool valid, bool ready) {
    char rule[32];
    if (offer.waiting && !valid) {
        std::snprintf(rule, sizeof rule, "%s_DROPPED", channel);
        bus.fail(rule, "%sVALID fell before it was accepted", channel);
    } else if (offer.waiting && payload != offer.payload) {
        std::snprintf(rule, sizeof rule, "%s_UNSTABLE", channel);
        bus.fail(rule, "a payload of %s changed before it was accepted", channel);
    }
    offer.waiting = valid && !ready;
    offer.payload = payload;
}

// One memory port of the design, and the memory behind it.
class Memory {
  public:
    Memory(const MemoryPort& port, unsigned number, uint8_t* memory, Bus& bus)
        : port_(port), number_(number), memory_(memory), bus_(bus) {
        for (unsigned i = 0; i < BEAT_BYTES; i += sizeof POISON) std::memcpy(&poison_[i], &POISON, sizeof POISON);
    }

    void configure(const Settings& settings) {
        settings_ = settings;
        const uint64_t seed = number_ ? mix(settings.seed + number_) : settings.seed;
        for (unsigned channel = 0; channel < LITE; ++channel) random_[channel].seed(seed * CHANNELS + channel);
        read_number_ = beat_number_ = write_number_ = 0;
    }

    void forget() {
        reads_.clear();
        writes_.clear();
        early_.clear();
        read_offered_ = answer_offered_ = false;
        tokens_ = FULL_RATE;
        forget_offers();
    }

    void forget_offers() { offered_ar_.waiting = offered_aw_.waiting = offered_w_.waiting = false; }

    void drive() {
        drive_reads();
        drive_writes();
    }

    void observe(const std::vector<Memory>& memories) {
        observe_reads(memories);
        observe_writes(memories);
    }

    bool offers() const { return port_.arvalid || port_.awvalid || port_.wvalid; }
    bool busy() const { return !reads_.empty() || !writes_.empty() || !early_.empty() || offers(); }
    size_t reads() const { return reads_.size(); }
    size_t writes() const { return writes_.size(); }

    Moment moment() const {
        Moment now{~uint64_t{0}, bus_.base_beats, bus_.counters.write_bursts};
        if (port_.awvalid) now.sending = port_.awaddr;
        if (!writes_.empty() && !writes_.back().complete) now.sending = writes_.back().at.address;
        return now;
    }

  private:
    bool stalls(Channel channel) { return random_[channel].below(settings_.stall[channel]); }

    void note_error(unsigned response, const std::vector<Memory>& memories) {
        if (response == OKAY || bus_.error_seen) return;
        bus_.error_seen = true;
        bus_.monitor.error = memories.front().moment();
    }

    static void note_burst(const Address& a, uint64_t* lengths, uint64_t& page_ends) {
        ++lengths[a.length <= BURST_BEATS ? a.length : 0];
        page_ends += (a.address + a.length * BEAT_BYTES) % PAGE_BYTES == 0;
    }

    // --- reads
    void drive_reads() {
        port_.arready = !bus_.resetting && reads_.size() < settings_.outstanding && !stalls(AR);
        if (tokens_ < FULL_RATE) tokens_ += settings_.read_rate;
        const bool due = !read_offered_ && !reads_.empty() && reads_.front().due <= bus_.counters.cycles;
        if (due && tokens_ >= FULL_RATE && !stalls(R)) offer_beat(reads_.front());
        port_.rvalid = read_offered_;
        bus_.counters.read_slots += !due || read_offered_;
        bus_.monitor.stalls[R] += due && !read_offered_;
    }

    void offer_beat(const ReadBurst& burst) {
        const uint64_t address = burst.at.address + burst.done * BEAT_BYTES;
        unsigned response = inside(address) ? OKAY : DECODE_ERROR;
        if (burst.number == settings_.read_error_burst || beat_number_ == settings_.read_error_beat)
            response = settings_.error_response;
        const uint8_t* source = response == OKAY ? memory_ + (address - settings_.base) : poison_.data();
        std::memcpy(&port_.rdata, source, BEAT_BYTES);
        port_.rid = burst.at.id;
        port_.rresp = response;
        port_.rlast = burst.done + 1 == burst.at.length;
        read_offered_ = true;
        tokens_ -= FULL_RATE;
        bus_.counters.error_responses += response != OKAY;
        ++beat_number_;
    }

    void observe_reads(const std::vector<Memory>& memories) {
        const Address request{port_.araddr, port_.arid,    port_.arlen + 1u,
                              port_.arsize, port_.arburst, read_attributes(port_)};
        if (read_offered_ && port_.rready) {
            ++bus_.counters.read_beats;
            bus_.base_beats += port_.rid == 0;
            note_error(port_.rresp, memories);
            read_offered_ = false;
            if (++reads_.front().done == reads_.front().at.length) reads_.pop_front();
        }
        check_offer(bus_, "AR", offered_ar_, request, port_.arvalid, port_.arready);
        if (!port_.arvalid) return;
        check_address("AR", request);
        bus_.monitor.stalls[AR] += !port_.arready;
        if (!port_.arready) return;
        for (const Memory& memory : memories)
            for (const WriteBurst& write : memory.writes_)
                if (write.at.overlaps(request))
                    bus_.fail("READ_AFTER_WRITE", "a read of 0x%llx overlaps a write whose response is not there yet",
                              static_cast<unsigned long long>(request.address));
        ++bus_.counters.read_bursts;
        note_burst(request, bus_.monitor.read_lengths, bus_.monitor.read_page_ends);
        reads_.push_back({request, read_number_++, bus_.counters.cycles + settings_.read_latency + number_ * settings_.skew, 0});
    }

    // --- writes
    void drive_writes() {
        port_.awready = !bus_.resetting && writes_.size() < settings_.outstanding && !stalls(AW);
        port_.wready = !bus_.resetting && early_.size() < BURST_BEATS && !stalls(W);
        const bool due = !answer_offered_ && !writes_.empty() && writes_.front().complete &&
                         writes_.front().due <= bus_.counters.cycles;
        if (due && !stalls(B)) {
            port_.bid = writes_.front().at.id;
            port_.bresp = writes_.front().response;
            answer_offered_ = true;
            bus_.counters.error_responses += writes_.front().response != OKAY;
        }
        port_.bvalid = answer_offered_;
        bus_.monitor.stalls[B] += due && !answer_offered_;
    }

    void observe_writes(const std::vector<Memory>& memories) {
        const Address request{port_.awaddr, port_.awid,    port_.awlen + 1u,
                              port_.awsize, port_.awburst, write_attributes(port_)};
        Data beat{{}, port_.wstrb, static_cast<bool>(port_.wlast), write_id(port_)};
        std::memcpy(beat.data.data(), &port_.wdata, BEAT_BYTES);
        if (answer_offered_ && port_.bready) {
            note_error(port_.bresp, memories);
            answer_offered_ = false;
            writes_.pop_front();
        }
        check_offer(bus_, "AW", offered_aw_, request, port_.awvalid, port_.awready);
        check_offer(bus_, "W", offered_w_, beat, port_.wvalid, port_.wready);
        if (port_.awvalid) check_address("AW", request);
        bus_.monitor.stalls[AW] += port_.awvalid && !port_.awready;
        bus_.monitor.stalls[W] += port_.wvalid && !port_.wready;
        if (port_.wvalid && beat.strobe != ALL_BYTES)
            bus_.fail("W_STROBE", "WSTRB is 0x%llx; the accelerator writes whole beats only",
                 static_cast<unsigned long long>(beat.strobe));
        if (port_.awvalid && port_.awready) {
            const bool fails = write_number_ == settings_.write_error_burst;
            writes_.push_back({request, write_number_++, 0, 0, fails ? settings_.error_response : OKAY, false});
            ++bus_.counters.write_bursts;
            note_burst(request, bus_.monitor.write_lengths, bus_.monitor.write_page_ends);
        }
        if (port_.wvalid && port_.wready) {
            early_.push_back(beat);
            ++bus_.counters.write_beats;
        }
        join_data();
    }

    // Puts accepted data under accepted addresses, in order.
    void join_data() {
        if (early_.empty()) {
            early_age_ = 0;
            return;
        }
        for (WriteBurst& burst : writes_) {
            while (!burst.complete && !early_.empty()) {
                store(burst, early_.front());
                early_.pop_front();
            }
        }
        early_age_ = early_.empty() ? 0 : early_age_ + 1;
        if (early_age_ > ADDRESS_TIMEOUT)
            bus_.fail("W_ADDRESS", "write data has waited %u cycles for an address", ADDRESS_TIMEOUT);
    }

    void store(WriteBurst& burst, const Data& beat) {
        const uint64_t address = burst.at.address + burst.done * BEAT_BYTES;
        const bool last = ++burst.done == burst.at.length;
        if (beat.id != burst.at.id)
            bus_.fail("W_ID", "WID is 0x%02x in a burst whose address had 0x%02x", beat.id, burst.at.id);
        if (beat.last != last)
            bus_.fail("W_LAST", "WLAST is %d in beat %u of %u", beat.last, burst.done, burst.at.length);
        if (!inside(address))
            burst.response = DECODE_ERROR;
        else if (burst.response == OKAY)
            std::memcpy(memory_ + (address - settings_.base), beat.data.data(), BEAT_BYTES);
        if (last) {
            burst.complete = true;
            burst.due = bus_.counters.cycles + settings_.write_latency;
        }
    }

    bool inside(uint64_t address) const {  // a whole beat, without overflow
        return address >= settings_.base && address - settings_.base < settings_.size &&
               settings_.size - (address - settings_.base) >= BEAT_BYTES;
    }

    // --- rules
    void check_address(const char* channel, const Address& a) {
        const auto shown = static_cast<unsigned long long>(a.address);
        char rule[32];
        const auto named = [&](const char* what) {
            std::snprintf(rule, sizeof rule, "%s_%s", channel, what);
            return rule;
        };
        if (a.size != BEAT_SIZE) bus_.fail(named("SIZE"), "size is %u, not %u (%u bytes)", a.size, BEAT_SIZE, BEAT_BYTES);
        if (a.burst != INCREMENTING) bus_.fail(named("BURST"), "burst type is %u, not 1 (INCR)", a.burst);
        if (a.attributes != ATTRIBUTES)
            bus_.fail(named("ATTRIBUTES"), "lock, cache, prot or qos are 0x%x, not 0x%x", a.attributes, ATTRIBUTES);
        if (a.length > BURST_BEATS) bus_.fail(named("LENGTH"), "%u beats, more than %u", a.length, BURST_BEATS);
        if (a.address % BEAT_BYTES)
            bus_.fail(named("ALIGNMENT"), "address 0x%llx is no multiple of %u", shown, BEAT_BYTES);
        if (a.address % PAGE_BYTES + a.length * BEAT_BYTES > PAGE_BYTES)
            bus_.fail(named("BOUNDARY"), "%u beats from 0x%llx cross a multiple of 4096", a.length, shown);
    }

    MemoryPort port_;
    unsigned number_;
    uint8_t* memory_;
    Bus& bus_;
    Beat poison_;
    Settings settings_{};
    Random random_[LITE];
    std::deque<ReadBurst> reads_;
    std::deque<WriteBurst> writes_;
    std::deque<Data> early_;  // write data without an address yet
    unsigned early_age_ = 0;
    uint64_t read_number_ = 0, beat_number_ = 0, write_number_ = 0;
    uint32_t tokens_ = FULL_RATE;
    bool read_offered_ = false, answer_offered_ = false;
    Offer<Address> offered_ar_, offered_aw_;
    Offer<Data> offered_w_;
};

class Simulator;
thread_local Simulator* current = nullptr;  // whom an assertion of the RTL belongs to

class Simulator {
  public:
    Simulator(uint8_t* memory, const Settings& settings) {
        context_.randReset(2);  // registers without an initial value start at random
        context_.randSeed(static_cast<int>(mix(settings.seed) & 0x7FFFFFFF));
        top_ = new Vtop{&context_};
        const std::vector<MemoryPort> ports = memory_ports(*top_);
        for (unsigned i = 0; i < ports.size(); ++i) memories_.emplace_back(ports[i], i, memory, bus_);
        configure(settings);
        reset(4);
    }
    ~Simulator() {
        top_->final();
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

    // Holds rst for `cycles`; requests under way are forgotten, the memory's contents are kept.
    void reset(unsigned cycles) {
        bus_.monitor.reset = memories_.front().moment();
        bus_.failed = false;
        lite_ = {};
        forget_offers();
        for (Memory& memory : memories_) memory.forget();
        bus_.resetting = true;
        for (unsigned i = 0; i < cycles && !bus_.failed; ++i) {
            reset_seen_ = i > 0;  // before its first edge a synchronous reset has changed nothing
            step();
        }
        bus_.resetting = false;
        forget_offers();
        for (Memory& memory : memories_) memory.forget_offers();
    }

    // Runs until irq is high, at most `cycles`; returns the cycles run (0 when irq was high already).
    uint64_t run(uint64_t cycles) {
        const uint64_t start = bus_.counters.cycles;
        while (bus_.counters.cycles - start < cycles && !top_->irq && !bus_.failed) step();
        return bus_.counters.cycles - start;
    }

    // The same without looking at irq.
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
            // Valid stays up until it is taken; ready may come and go.
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

    // Writes what Verilator's coverage has counted; false where the simulator was built without it.
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
        top_->eval();
        const bool irq_rises = top_->irq && !irq_before_;
        irq_before_ = top_->irq;
        if (bus_.resetting) {
            check_reset();
        } else {
            observe_registers();
            for (Memory& memory : memories_) memory.observe(memories_);
            if (irq_rises) check_idle();
        }
        top_->clk = 1;
        top_->eval();
        ++bus_.counters.cycles;
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

    void check_idle() {  // a run has ended: nothing that it began may still be under way
        for (const Memory& memory : memories_)
            if (memory.busy())
                bus_.fail("IRQ_EARLY", "irq rose with %zu reads and %zu writes under way", memory.reads(), memory.writes());
    }

    void forget_offers() {
        offered_r_.waiting = offered_b_.waiting = false;
    }

    struct Access {  // one access of a register: what is driven, what was accepted in this cycle and so far
        uint32_t address = 0, data = 0, response = 0;
        bool awvalid = false, wvalid = false, bready = false, arvalid = false, rready = false;
        bool aw = false, w = false, b = false, ar = false, r = false;
        bool aw_seen = false, w_seen = false, ar_seen = false;
    };

    VerilatedContext context_;
    Vtop* top_ = nullptr;
    Bus bus_;
    std::vector<Memory> memories_;  // one for each port, all of the same bytes
    Random random_;                 // of the host's stalls
    uint32_t host_stall_ = 0;
    bool reset_seen_ = false, irq_before_ = false;
    Access lite_;
    uint32_t accesses_ = 0;
    Offer<Lite> offered_b_, offered_r_;
};

}  // namespace

// Verilator calls these where generated code meets $stop or a failed assertion; the default would end the process.
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current) current->bus().fail("ASSERTION", "an assertion of the RTL failed, %s line %d", file, line);
}
void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE {
    if (current) current->bus().fail("FINISH", "the RTL called $finish, %s line %d", file, line);
}
void vl_fatal(const char* file, int line, const char*, const char* text) VL_MT_UNSAFE {
    if (current) current->bus().fail("FATAL", "%s, %s line %d", text, file, line);
}

// Names begin with bitlane_; a pointer is to one simulator, which one thread at a time may use.
extern "C" {
#define EXPORT __attribute__((visibility("default")))
EXPORT Simulator* bitlane_new(uint8_t* memory, const Settings* settings) { return new Simulator(memory, *settings); }
EXPORT void bitlane_delete(Simulator* s) { delete s; }
EXPORT void bitlane_configure(Simulator* s, const Settings* settings) { s->configure(*settings); }
EXPORT void bitlane_reset(Simulator* s, uint32_t cycles) { s->reset(cycles); }
EXPORT uint64_t bitlane_run(Simulator* s, uint64_t cycles) { return s->run(cycles); }
EXPORT uint64_t bitlane_idle(Simulator* s, uint64_t cycles) { return s->idle(cycles); }
EXPORT int bitlane_read(Simulator* s, uint32_t offset, uint32_t* value) { return s->read(offset, value); }
EXPORT int bitlane_write(Simulator* s, uint32_t offset, uint32_t value) { return s->write(offset, value); }
EXPORT int bitlane_irq(Simulator* s) { return s->irq(); }
EXPORT const char* bitlane_message(Simulator* s) { return s->bus().message(); }
EXPORT void bitlane_counters(Simulator* s, Counters* counters) { *counters = s->bus().counters; }
EXPORT void bitlane_monitor(Simulator* s, Monitor* monitor) { *monitor = s->bus().monitor; }
EXPORT int bitlane_coverage(Simulator* s, const char* path) { return s->write_coverage(path); }
}
