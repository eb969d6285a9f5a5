// Numbers of AXI, and the limits that the harness checks.
#pragma once
#include <cstdint>

namespace {

constexpr unsigned BURST_BEATS = 16;          // the longest burst that both Zynq families accept
constexpr unsigned PAGE_BYTES = 4096;         // no burst crosses a multiple of it
constexpr unsigned INCREMENTING = 1;          // AxBURST
constexpr uint32_t GP_IDS = 0xFFF;            // the IDs of an AXI3 master of registers
constexpr unsigned LITE_TIMEOUT = 10'000;     // cycles for one register access
constexpr unsigned ADDRESS_TIMEOUT = 10'000;  // cycles that write data may wait for their address
enum Response : unsigned { OKAY = 0, SLAVE_ERROR = 2, DECODE_ERROR = 3 };
// Which ready signals of a write wait: none; both until address and data are offered; AWREADY until the last beat of its
// burst is accepted; WREADY until the address is.
enum WriteOrder : unsigned { ANY, TOGETHER, DATA_FIRST, ADDRESS_FIRST };
enum Channel { AR, R, AW, W, B, LITE, CHANNELS };

}  // namespace
