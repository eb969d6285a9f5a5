// The structures of the C ABI. harness.py has the same fields in the same order: `_Settings`, `_Counters`, `_Monitor`.
#pragma once
#include <cstdint>

#include "axi.h"

namespace {

struct DramSettings {  // times in 1 / 1024 of a cycle; see dram.h
    uint32_t banks;      // 0: no DRAM
    uint32_t row_bytes;  // of a bank, at least those of the longest burst
    uint32_t beat;       // time of a beat on the bus of the channel
    uint32_t column;     // from the column of an open row to its data
    uint32_t activate, precharge, row_cycle;  // to open and to close a row; from one opening of a bank to the next
    uint32_t turnaround;              // of the bus, from reads to writes or back
    uint32_t refresh_every, refresh;  // the period of refreshes, and the time of one
};

struct Settings {
    uint64_t base, size;        // the memory's first address and its bytes
    uint64_t seed;
    uint64_t read_error_burst;  // number of the burst (or beat) that fails, from 0; ~0 for no failure
    uint64_t read_error_beat;
    uint64_t write_error_burst;
    uint32_t error_response;    // the response to it
    uint32_t read_latency, write_latency;  // cycles, at least 1
    uint32_t read_rate;         // in 1 / 65536 of a beat per cycle
    uint32_t outstanding;       // bursts accepted and not answered, for each direction
    uint32_t skew;              // read latency of a port minus that of the port before it
    uint32_t write_order;       // a WriteOrder
    uint32_t interleave;        // 1: read beats of different IDs in any order
    uint32_t outlives;          // 1: the memory goes on while the design is in reset
    uint32_t alone;             // the only port with stalls, a lower rate and errors, modulo their number; ~0 for all
    uint32_t stall[CHANNELS];   // probabilities in 2**-32
    uint32_t stall_goes_on;     // the probability of a stall of R in the cycle after one; that of R for single draws
    DramSettings dram;
};

struct Counters {
    uint64_t cycles, read_bursts, read_beats, read_slots, write_bursts, write_beats, error_responses;
};

struct Moment {  // the progress of the bus
    uint64_t sending;       // address of the write burst that is offered or incomplete; ~0 for none
    uint64_t base_beats;    // read beats with ID 0 accepted since the simulator was made
    uint64_t write_bursts;  // write addresses accepted since then
};

struct Monitor {  // events since the simulator was made
    uint64_t read_lengths[BURST_BEATS + 1], write_lengths[BURST_BEATS + 1];  // accepted bursts of each length
    uint64_t read_page_ends, write_page_ends;  // those of them that end at a multiple of 4096
    uint64_t stalls[CHANNELS];  // cycles in which the memory delayed a request or a response, or the host a signal
    Moment error;    // the first error response accepted since `configure`
    Moment written;  // the last register write accepted
    Moment reset;    // the last reset
};

}  // namespace
