"""The register slave."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Const, Mux

from bitlane.contract.registers import REGISTERS
from bitlane_hw.control.registers import Registers

from .bench import ProofHarness, implies, same
from .proof import FAIR, Proof
from .rules import lite_slave

WORD_BYTES = 4


def _words(block: Any) -> dict[int, tuple[str, Any]]:
    """The name and the value of the register at each word offset."""
    words = {}
    for name, register in REGISTERS.items():
        for word in range(register.words):
            bits = min(32, register.bits)
            words[register.offset // WORD_BYTES + word] = (name, getattr(block, name)[32 * word :][:bits])
    return words


def _slave(bench: ProofHarness, bus: Any) -> None:
    """The rules, and one response at a time that is there the cycle after its transfer."""
    writes, reads = lite_slave(bench, bus)
    bench.always(*(owed == bus.bvalid for owed in writes), reads == bus.rvalid)


def registers(bench: ProofHarness) -> None:
    """Every response is owed and given once; what is written is what was sent, what is read what is there."""
    block = bench.block
    bus = block.bus
    _slave(bench, bus)
    write = bus.awvalid & bus.awready
    wrote = bench.past(write)
    place, data, strobes = (bench.past(value) for value in (bus.awaddr[2:], bus.wdata, bus.wstrb))
    locked = bench.past(block.locked)
    read, asked = bench.past(bus.arvalid & bus.arready), bench.past(bus.araddr[2:])
    bench.always(write == (bus.wvalid & bus.wready))
    unknown = Const(1)
    for offset, (name, value) in _words(block).items():
        unknown = unknown & (asked != offset)
        seen = 0 if name == "control" else bench.past(value)
        bench.always(implies(read & (asked == offset), bus.rdata == seen))
        if not REGISTERS[name].writable:
            continue
        mine = wrote & (place == offset) & (~locked | (name in block.ALWAYS_WRITABLE))
        kept = Const(0, len(value)) if name == "control" else bench.past(value)
        for low in range(0, len(value), 8):
            written = mine & strobes[low // 8]
            part = slice(low, low + 8)
            bench.always(same(value[part], Mux(written, data[part][: len(value[part])], kept[part])))
    bench.always(implies(read & unknown, bus.rdata == 0))
    bench.cover(bus.bvalid & bus.bready & bench.ever(wrote & locked))
    bench.cover(bus.rvalid & (bus.rdata == 0x12345678) & bench.ever(wrote))


def registers_live(bench: ProofHarness) -> None:
    """Every transfer ends. Assumed: the master takes a response, and sends the other half of a write, within FAIR."""
    block = bench.block
    bus = block.bus
    _slave(bench, bus)
    half = (bus.awvalid ^ bus.wvalid) & ~bus.bvalid
    half_for = bench.within(half, FAIR)
    refused_for = bench.within(bus.bvalid & ~bus.bready, FAIR)
    unread_for = bench.within(bus.rvalid & ~bus.rready, FAIR)
    for valid, ready in ((bus.awvalid, bus.awready), (bus.wvalid, bus.wready)):
        waited = bench.waiting(valid & ~ready)
        bench.always(
            waited < 2 * FAIR,
            implies(valid & bus.bvalid, waited <= refused_for),
            implies(valid & ~bus.bvalid, waited <= FAIR + half_for),
        )
    bench.always(bench.waiting(bus.arvalid & ~bus.arready) <= unread_for)
    bench.cover(bench.ever(bus.bvalid) & bus.bvalid & bus.rvalid)


ALL = partial(Registers, table_lanes=True, random_rounding=True)

PROOFS = (
    Proof("registers", "AXI4-Lite; each write's bytes and no others, each read's value", ALL, registers, 8),
    Proof("registers_live", "no transfer waits longer than a fair master makes it", ALL, registers_live, 8),
)
