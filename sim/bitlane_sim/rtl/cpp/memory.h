// The memory behind one port of the design.
//
// The memory port has the width of the design: a beat is 8, 16, 32 or 64 bytes. All lengths count beats.
//
//   read        If an address is accepted in cycle t, its first beat is offered in cycle t + read_latency at the
//               earliest (at port k `skew` k cycles later), then one beat in every cycle in which the accelerator
//               accepts it. Bursts are answered in the order of their addresses, without a bubble between two bursts
//               that are both due.
//   read rate   At most `read_rate` / 65536 beats a cycle on average: a bucket holds one beat and fills by the rate
//               each cycle. 65536 means no limit.
//   dram        With the settings of a DRAM, a read beat is due when the DRAM has moved it, and the read latency later. A
//               response to a write is due when the DRAM has moved the burst, and the write latency later. The DRAMs of several
//               memories refresh evenly apart.
//   interleave  If it is on, each beat is the next one of an ID chosen at random among those that have a beat due. Only
//               bursts of the same ID keep their order.
//   write       Data may arrive before its address. A beat is in the memory one cycle after both its data and its
//               address are accepted. The response is offered write_latency cycles after the last data beat or the
//               address, whichever is accepted later. Responses keep the order of the addresses.
//   write order AWREADY or WREADY may wait for valid signals of the other channel: see WriteOrder.
//   reset       The memory forgets its bursts, or `outlives` the reset of the design: then it still expects the data of
//               its write bursts, and still answers. Data with WSTRB = 0 completes a burst and changes nothing.
//   queues      ARREADY is low while `outstanding` read bursts wait; AWREADY likewise for write bursts. WREADY is low
//               while BURST_BEATS beats wait for their address.
//   stalls      In every cycle AR, AW and W are not ready with their probability. A response or read beat that is due
//               is delayed by a cycle with the probability of B or R; that of R may depend on whether the cycle before
//               had a stall, so that stalls last longer. Once offered, it stays. A stall of the register
//               port keeps one valid or ready signal of the master low for a cycle.
//   slots       Cycles in which neither a stall nor the rate delays a read beat that is due: the beats that the port
//               could carry.
//   errors      A beat outside the memory is answered with DECERR, a selected burst or beat with `error_response`. A
//               failed read returns POISON, a failed write stores nothing. The numbers of bursts and beats start at 0
//               with each `configure`, for each port separately.
//   several     With MEMORIES above 1, port k reaches the k-th part of the bytes, at the addresses of that part, and
//               nothing else. With `alone` only one of the ports has stalls, a lower read rate and errors.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "abi.h"
#include "axi.h"
#include "bus.h"
#include "dram.h"
#include "ports.h"
#include "random.h"

namespace {

constexpr unsigned FULL_RATE = 1u << 16;
constexpr uint32_t EVERY_PORT = ~uint32_t{0};
constexpr uint32_t HALF = 1u << 31;  // a probability
constexpr uint64_t POISON = 0xBAD0BAD0BAD0BAD0;  // in every word of a beat that failed

struct ReadBurst {
    Address at;
    uint64_t number, due;  // when the first beat is due, in ticks
    unsigned done;         // beats sent
};

struct WriteBurst {
    Address at;
    uint64_t number, due;
    unsigned done;
    unsigned response;
    bool complete;
};

// One memory port of the design and the memory behind it.
class Memory {
  public:
    Memory(const MemoryPort& port, unsigned number, uint8_t* memory, Bus& bus)
        : port_(port), number_(number), bytes_(memory), bus_(bus) {
        for (unsigned i = 0; i < BEAT_BYTES; i += sizeof POISON) std::memcpy(&poison_[i], &POISON, sizeof POISON);
    }

    void configure(const Settings& settings) {
        settings_ = settings;
        settings_.size /= MEMORIES;
        const uint64_t part = MEMORIES > 1 ? number_ * settings_.size : 0;
        settings_.base += part;
        memory_ = bytes_ + part;
        if (settings_.alone != EVERY_PORT && settings_.alone % PORTS != number_) calm();
        const uint64_t seed = number_ ? mix(settings.seed + number_) : settings.seed;
        for (unsigned channel = 0; channel < LITE; ++channel) random_[channel].seed(seed * CHANNELS + channel);
        read_number_ = beat_number_ = write_number_ = 0;
        stalled_ = false;
        dram_.configure(settings.dram, number_ % MEMORIES, MEMORIES);
    }

    // The design is in reset: the memory is too, unless it outlives it.
    void begin_reset(bool failed) {
        if (!settings_.outlives || failed) forget();
        forget_offers();
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

    bool outlives() const { return settings_.outlives; }
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
    void calm() {
        for (uint32_t& stall : settings_.stall) stall = 0;
        settings_.stall_goes_on = 0;
        settings_.read_rate = FULL_RATE;
        settings_.read_error_burst = settings_.read_error_beat = settings_.write_error_burst = ~uint64_t{0};
    }

    bool accepts() const { return !bus_.resetting || settings_.outlives; }
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
        port_.arready = accepts() && reads_.size() < settings_.outstanding && !stalls(AR);
        if (tokens_ < FULL_RATE) tokens_ += settings_.read_rate;
        const bool due = !read_offered_ && !reads_.empty() && is_due(reads_.front());
        stalled_ = random_[R].below(stalled_ ? settings_.stall_goes_on : settings_.stall[R]);
        if (due && tokens_ >= FULL_RATE && !stalled_) {
            choose_read();
            offer_beat(reads_[current_]);
        }
        port_.rvalid = read_offered_;
        bus_.counters.read_slots += !due || read_offered_;
        bus_.monitor.stalls[R] += due && !read_offered_;
    }

    bool is_due(const ReadBurst& burst) const { return burst.due + burst.done * dram_.beat() <= bus_.counters.cycles * TICKS; }

    // Chooses the burst whose beat is next: the first one, or the first one of an ID chosen at random.
    void choose_read() {
        current_ = 0;
        if (!settings_.interleave || !random_[R].below(HALF)) return;
        for (size_t i = 1; i < reads_.size() && is_due(reads_[i]); ++i)
            if (reads_[i].at.id != reads_.front().at.id) {
                current_ = i;
                return;
            }
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
            if (++reads_[current_].done == reads_[current_].at.length) reads_.erase(reads_.begin() + current_);
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
        const uint64_t latency = settings_.read_latency + number_ * settings_.skew;
        reads_.push_back({request, read_number_++, moved(request, false) + latency * TICKS, 0});
    }

    // --- writes
    void drive_writes() {
        const bool takes_address = writes_.size() < settings_.outstanding && address_in_order();
        const bool takes_data = early_.size() < BURST_BEATS && data_in_order();
        port_.awready = accepts() && takes_address && !stalls(AW);
        port_.wready = accepts() && takes_data && !stalls(W);
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

    // Whether the write order lets the next address, or the next beat, be accepted now.
    bool address_in_order() const {
        if (settings_.write_order == TOGETHER) return offered_aw_.waiting && (offered_w_.waiting || !early_.empty());
        if (settings_.write_order != DATA_FIRST) return true;
        for (const Data& beat : early_)
            if (beat.last) return true;
        return false;
    }

    bool data_in_order() const {
        const bool addressed = !writes_.empty() && !writes_.back().complete;
        if (settings_.write_order == TOGETHER) return addressed || (offered_aw_.waiting && offered_w_.waiting);
        return settings_.write_order != ADDRESS_FIRST || addressed;
    }

    void observe_writes(const std::vector<Memory>& memories) {
        const Address request{port_.awaddr, port_.awid,    port_.awlen + 1u,
                              port_.awsize, port_.awburst, write_attributes(port_)};
        Data beat{{}, port_.wstrb, static_cast<bool>(port_.wlast), write_id(port_)};
        if (beat.strobe) std::memcpy(beat.data.data(), &port_.wdata, BEAT_BYTES);
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
        if (port_.wvalid && beat.strobe != ALL_BYTES && !(settings_.outlives && beat.strobe == 0))
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
        address_age_ = port_.awvalid && !port_.awready && !port_.wvalid && early_.empty() ? address_age_ + 1 : 0;
        if (address_age_ > WRITE_TIMEOUT)
            bus_.fail("W_WAITS", "an address has been offered for %u cycles without data, which must not wait for AWREADY",
                      WRITE_TIMEOUT);
    }

    // Assigns accepted data to accepted addresses, in order.
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
        early_age_ = early_.empty() || port_.awvalid ? 0 : early_age_ + 1;
        if (early_age_ > WRITE_TIMEOUT)
            bus_.fail("W_ADDRESS", "write data has waited %u cycles for an address", WRITE_TIMEOUT);
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
        else if (burst.response == OKAY && beat.strobe)
            std::memcpy(memory_ + (address - settings_.base), beat.data.data(), BEAT_BYTES);
        if (last) {
            burst.complete = true;
            const uint64_t moves = moved(burst.at, true) + (burst.at.length - 1) * dram_.beat();
            burst.due = (moves + TICKS - 1) / TICKS + settings_.write_latency;
        }
    }

    // When the first beat of a burst that arrives now is in or out of the memory, in ticks.
    uint64_t moved(const Address& burst, bool writes) {
        const uint64_t now = bus_.counters.cycles * TICKS;
        if (!dram_.present()) return now;
        return dram_.begin(now, burst.address - settings_.base, burst.length, writes) + dram_.beat();
    }

    bool inside(uint64_t address) const {  // a complete beat, without overflow
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
    uint8_t* bytes_;   // of all memories
    uint8_t* memory_;  // of this one
    Bus& bus_;
    Beat poison_;
    Settings settings_{};
    Dram dram_;
    Random random_[LITE];
    std::deque<ReadBurst> reads_;
    std::deque<WriteBurst> writes_;
    std::deque<Data> early_;  // write data that waits for its address
    unsigned early_age_ = 0, address_age_ = 0;
    uint64_t read_number_ = 0, beat_number_ = 0, write_number_ = 0;
    uint32_t tokens_ = FULL_RATE;
    size_t current_ = 0;  // the read burst of the beat that is offered
    bool read_offered_ = false, answer_offered_ = false, stalled_ = false;
    Offer<Address> offered_ar_, offered_aw_;
    Offer<Data> offered_w_;
};

}  // namespace
