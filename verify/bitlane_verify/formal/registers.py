"""Proofs of the register slave."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Const, Mux
from amaranth.lib import wiring

from bitlane.contract.registers import REGISTERS, absent_registers
from bitlane_hw.control.registers import READ_LATENCY, Registers

from .harness import ProofHarness, implies, same
from .proof import FAIR, Proof
from .protocol import lite_slave

WORD_BYTES = 4
PORTS = 2  # further ports have registers like those of the second
ABSENT = absent_registers(True, True, 8, 2, PORTS)


def _words(block: wiring.Component) -> dict[int, tuple[str, Any]]:
    """Return the name and the value of the register at each word offset."""
    words = {}
    for name, register in REGISTERS.items():
        if name in ABSENT:
            continue
        for word in range(register.words):
            bits = min(32, register.bits)
            words[register.offset // WORD_BYTES + word] = (name, getattr(block, name)[32 * word :][:bits])
    return words


def _slave(harness: ProofHarness, bus: wiring.PureInterface) -> None:
    """Apply the rules of AXI4-Lite; responses come on time, one at a time in each direction.

    Both halves of a write are taken together, and not before the response to the previous one.
    """
    writes, reads = lite_slave(harness, bus)
    reading = [harness.inside[f"reading_{step}"] for step in range(1, READ_LATENCY)]
    harness.always(*(pending == bus.bvalid for pending in writes), reads == sum((*reading, bus.rvalid)))
    harness.always(sum((*reading, bus.rvalid)) <= 1)
    harness.always(bus.awready == bus.wready, implies(bus.awready, bus.awvalid & bus.wvalid & ~bus.bvalid))


def registers(harness: ProofHarness) -> None:
    """Each transfer has one response. Writes change exactly the selected bytes, and reads return the register."""
    block = harness.block
    bus = block.bus
    _slave(harness, bus)
    write = bus.awvalid & bus.awready
    wrote = harness.past(write)
    address, data, strobes = (harness.past(value) for value in (bus.awaddr[2:], bus.wdata, bus.wstrb))
    locked = harness.past(block.locked)
    read, read_address = bus.arvalid & bus.arready, bus.araddr[2:]
    for _ in range(READ_LATENCY):
        read, read_address = harness.past(read), harness.past(read_address)
    unknown = Const(1)
    for offset, (name, value) in _words(block).items():
        unknown = unknown & (read_address != offset)
        seen = 0 if name == "control" else harness.past(harness.past(value))
        harness.always(implies(read & (read_address == offset), bus.rvalid & (bus.rdata == seen)))
        if not REGISTERS[name].writable:
            continue
        selected = wrote & (address == offset) & (~locked | (name in block.ALWAYS_WRITABLE))
        stored = Const(0, len(value)) if name == "control" else harness.past(value)
        for low in range(0, len(value), 8):
            written = selected & strobes[low // 8]
            byte = slice(low, low + 8)
            harness.always(same(value[byte], Mux(written, data[byte][: len(value[byte])], stored[byte])))
    harness.always(implies(read & unknown, bus.rdata == 0))
    harness.cover(bus.bvalid & bus.bready & harness.ever(wrote & locked))
    harness.cover(bus.rvalid & (bus.rdata == 0x12345678) & harness.ever(wrote))


def registers_live(harness: ProofHarness) -> None:
    """Every transfer ends.

    Assumed: within FAIR cycles the master takes a response and sends the other half of a write.
    """
    block = harness.block
    bus = block.bus
    _slave(harness, bus)
    half = (bus.awvalid ^ bus.wvalid) & ~bus.bvalid
    half_for = harness.within(half, FAIR)
    refused_for = harness.within(bus.bvalid & ~bus.bready, FAIR)
    unread_for = harness.within(bus.rvalid & ~bus.rready, FAIR)
    for valid, ready in ((bus.awvalid, bus.awready), (bus.wvalid, bus.wready)):
        waited = harness.waiting(valid & ~ready)
        harness.always(
            waited <= 2 * FAIR,
            implies(valid & bus.bvalid, waited <= refused_for),
            implies(valid & ~bus.bvalid & ~ready, waited <= FAIR + half_for),
        )
    waited = harness.waiting(bus.arvalid & ~bus.arready)
    step = [harness.inside[f"reading_{step}"] for step in range(1, READ_LATENCY)]
    harness.always(
        waited < FAIR + READ_LATENCY,
        *(implies(here, waited <= passed) for passed, here in enumerate(step)),
        implies(bus.rvalid, waited <= len(step) + unread_for),
    )
    harness.cover(harness.ever(bus.bvalid) & bus.bvalid & bus.rvalid)


ALL = partial(Registers, table_lanes=True, random_rounding=True, encoder=8, shards=2, ports=PORTS)

PROOFS = (
    Proof("registers", "AXI4-Lite: a write changes exactly its bytes, a read gives the register", ALL, registers, 8, 5),
    Proof("registers_live", "with a fair master every transfer ends", ALL, registers_live, 8),
)
