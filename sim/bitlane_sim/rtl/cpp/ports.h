// The ports of the design: their signals under one name for AXI4 and AXI3, and the payloads of the memory port.
//
// HP_PORTS 0: m_axi and s_axi of the accelerator; with AXI4_PORTS 2, 4 or 8, m_axi0, m_axi1 and so on instead of m_axi.
// HP_PORTS 1 or 2: hp0, hp1 and gp0 of its fabric on a Zynq-7000. MEMORIES 1: one memory behind all ports; otherwise as
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
#define AXI4_SIGNALS(S)                                                                                               \
    S(arid) S(araddr) S(arlen) S(arsize) S(arburst) S(arvalid) S(arready)                                             \
    S(rid) S(rdata) S(rresp) S(rlast) S(rvalid) S(rready)                                                             \
    S(awid) S(awaddr) S(awlen) S(awsize) S(awburst) S(awvalid) S(awready)                                             \
    S(wdata) S(wstrb) S(wlast) S(wvalid) S(wready) S(bid) S(bresp) S(bvalid) S(bready)
#if HP_PORTS
#define MEMORY_SIGNALS(S)                                                                                             \
    AXI4_SIGNALS(S) S(arlock) S(arcache) S(arprot) S(arqos) S(awlock) S(awcache) S(awprot) S(awqos) S(wid)
#define OF_MEMORY(signal) hp0_##signal
#define OF_PORT_1(signal) hp1_##signal
#define OF_REGISTERS(signal) gp0_##signal
#else
#define MEMORY_SIGNALS(S) AXI4_SIGNALS(S)
#define OF_PORT_1(signal) m_axi1_##signal
#define OF_PORT_2(signal) m_axi2_##signal
#define OF_PORT_3(signal) m_axi3_##signal
#define OF_PORT_4(signal) m_axi4_##signal
#define OF_PORT_5(signal) m_axi5_##signal
#define OF_PORT_6(signal) m_axi6_##signal
#define OF_PORT_7(signal) m_axi7_##signal
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
#define SIGNAL(name) std::remove_reference_t<decltype(Vtop::OF_MEMORY(name))>& name;
    MEMORY_SIGNALS(SIGNAL)
#undef SIGNAL
};

std::vector<MemoryPort> memory_ports(Vtop& top) {
    std::vector<MemoryPort> ports;
#define SIGNAL(name) top.OF_MEMORY(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#if HP_PORTS > 1 || AXI4_PORTS > 1
#define SIGNAL(name) top.OF_PORT_1(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#endif
#if AXI4_PORTS > 2
#define SIGNAL(name) top.OF_PORT_2(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#define SIGNAL(name) top.OF_PORT_3(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#endif
#if AXI4_PORTS > 4
#define SIGNAL(name) top.OF_PORT_4(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#define SIGNAL(name) top.OF_PORT_5(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#define SIGNAL(name) top.OF_PORT_6(name),
    ports.push_back({MEMORY_SIGNALS(SIGNAL)});
#undef SIGNAL
#define SIGNAL(name) top.OF_PORT_7(name),
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

}  // namespace
