// The ports of the design: their signals under one name for AXI4 and AXI3, and the payloads of the memory port.
//
// HP_PORTS 0: m_axi and s_axi of the accelerator; with AXI4_PORTS 2, 4, 8 or 16, m_axi0, m_axi1 and so on instead of
// m_axi. HP_PORTS 1 or 2: hp0, hp1 and gp0 of its fabric on a Zynq-7000. MEMORIES 1: one memory behind all ports; otherwise as
// many as ports, each with a part of the bytes.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "Vtop.h"

#ifndef HP_PORTS
#define HP_PORTS 0
#endif
#ifndef AXI4_PORTS
#define AXI4_PORTS 1
#endif
#ifndef MEMORIES
#define MEMORIES 1
#endif
// S(prefix, signal) for each signal of a memory port.
#define AXI4_SIGNALS(S, P)                                                                                            \
    S(P, arid) S(P, araddr) S(P, arlen) S(P, arsize) S(P, arburst) S(P, arvalid) S(P, arready)                        \
    S(P, rid) S(P, rdata) S(P, rresp) S(P, rlast) S(P, rvalid) S(P, rready)                                           \
    S(P, awid) S(P, awaddr) S(P, awlen) S(P, awsize) S(P, awburst) S(P, awvalid) S(P, awready)                        \
    S(P, wdata) S(P, wstrb) S(P, wlast) S(P, wvalid) S(P, wready) S(P, bid) S(P, bresp) S(P, bvalid) S(P, bready)
#if HP_PORTS
#define MEMORY_SIGNALS(S, P)                                                                                          \
    AXI4_SIGNALS(S, P) S(P, arlock) S(P, arcache) S(P, arprot) S(P, arqos)                                            \
    S(P, awlock) S(P, awcache) S(P, awprot) S(P, awqos) S(P, wid)
#define OF_MEMORY(signal) hp0_##signal
#define OF_REGISTERS(signal) gp0_##signal
#else
#define MEMORY_SIGNALS(S, P) AXI4_SIGNALS(S, P)
#define OF_REGISTERS(signal) s_axi_##signal
#if AXI4_PORTS > 1
#define OF_MEMORY(signal) m_axi0_##signal
#else
#define OF_MEMORY(signal) m_axi_##signal
#endif
#endif

namespace {

constexpr unsigned PORTS = HP_PORTS ? HP_PORTS : AXI4_PORTS;
constexpr unsigned BEAT_BYTES = sizeof(Vtop::OF_MEMORY(rdata));
constexpr uint64_t ALL_BYTES = ~uint64_t{0} >> (64 - BEAT_BYTES);  // WSTRB
constexpr unsigned BEAT_SIZE = __builtin_ctz(BEAT_BYTES);          // AxSIZE
static_assert(BEAT_BYTES == 8 || BEAT_BYTES == 16 || BEAT_BYTES == 32 || BEAT_BYTES == 64, "width of the memory port");
static_assert(sizeof(Vtop::OF_MEMORY(wdata)) == BEAT_BYTES && 8 * sizeof(Vtop::OF_MEMORY(wstrb)) == BEAT_BYTES,
              "both halves of the memory port are one width");
using Beat = std::array<uint8_t, BEAT_BYTES>;  // the value of a port, its bytes in the order of the memory

struct MemoryPort {  // the signals of one memory port
#define SIGNAL(_, name) std::remove_reference_t<decltype(Vtop::OF_MEMORY(name))>& name;
    MEMORY_SIGNALS(SIGNAL, )
#undef SIGNAL
};

std::vector<MemoryPort> memory_ports(Vtop& top) {
#define SIGNAL(prefix, name) top.prefix##name,
    return {
#if HP_PORTS
        {MEMORY_SIGNALS(SIGNAL, hp0_)},
#if HP_PORTS > 1
        {MEMORY_SIGNALS(SIGNAL, hp1_)},
#endif
#elif AXI4_PORTS == 1
        {MEMORY_SIGNALS(SIGNAL, m_axi_)},
#else
        {MEMORY_SIGNALS(SIGNAL, m_axi0_)}, {MEMORY_SIGNALS(SIGNAL, m_axi1_)},
#if AXI4_PORTS > 2
        {MEMORY_SIGNALS(SIGNAL, m_axi2_)}, {MEMORY_SIGNALS(SIGNAL, m_axi3_)},
#endif
#if AXI4_PORTS > 4
        {MEMORY_SIGNALS(SIGNAL, m_axi4_)}, {MEMORY_SIGNALS(SIGNAL, m_axi5_)},
        {MEMORY_SIGNALS(SIGNAL, m_axi6_)}, {MEMORY_SIGNALS(SIGNAL, m_axi7_)},
#endif
#if AXI4_PORTS > 8
        {MEMORY_SIGNALS(SIGNAL, m_axi8_)}, {MEMORY_SIGNALS(SIGNAL, m_axi9_)},
        {MEMORY_SIGNALS(SIGNAL, m_axi10_)}, {MEMORY_SIGNALS(SIGNAL, m_axi11_)},
        {MEMORY_SIGNALS(SIGNAL, m_axi12_)}, {MEMORY_SIGNALS(SIGNAL, m_axi13_)},
        {MEMORY_SIGNALS(SIGNAL, m_axi14_)}, {MEMORY_SIGNALS(SIGNAL, m_axi15_)},
#endif
#endif
    };
#undef SIGNAL
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

}  // namespace
