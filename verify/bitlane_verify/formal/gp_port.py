"""Proofs of the registers behind AXI3: port GP0 of a Zynq-7000."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Mux, ValueLike
from amaranth.lib import wiring

from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.memory.axi import INCR
from bitlane_hw.zynq.axi3 import FIXED, WRAP
from bitlane_hw.zynq.register_port import RegisterPort

from .harness import Inside, ProofHarness, implies, same
from .proof import FAIR, Proof
from .protocol import channel, offered


def _address(
    harness: ProofHarness, gp: wiring.PureInterface, prefix: str, busy: ValueLike
) -> tuple[Any, dict[str, Any]]:
    """Apply the rules of an AXI3 address channel: legal bursts that stay until they are taken.

    Parameters
    ----------
    harness : ProofHarness
        The harness.
    gp : AXI3
        The port.
    prefix : str
        "ar" or "aw".
    busy : Value
        1 while a burst is in progress.

    Returns
    -------
    tuple
        1 if an address is taken; the signals of the last address that was taken.
    """
    names = ("id", "addr", "len", "size", "burst")
    harness.assume(offered(harness, *channel(gp, prefix, *names)))
    values = {name: getattr(gp, prefix + name) for name in names}
    valid = getattr(gp, f"{prefix}valid")
    accepted = valid & getattr(gp, f"{prefix}ready")
    harness.assume(implies(valid, _is_legal(values)))
    burst = {name: harness.ghost(value.shape(), name) for name, value in values.items()}
    with harness.m.If(accepted):
        harness.m.d.sync += [burst[name].eq(value) for name, value in values.items()]
    seen = harness.ever(accepted)
    harness.always(implies(seen, _is_legal(burst)), implies(busy, seen))  # invariants
    return accepted, burst


def _is_legal(burst: dict[str, Any]) -> Any:
    """Return 1 if the beats are not wider than the port, and a WRAP burst has an aligned power of two of them."""
    size, kind, length = burst["size"], burst["burst"], burst["len"]
    power = (length != 0) & ((length & (length + 1)) == 0)
    aligned = (burst["addr"] & ((1 << size) - 1)) == 0
    known = (kind == FIXED) | (kind == INCR) | (kind == WRAP)
    return (size <= 2) & known & implies(kind == WRAP, power & aligned)


def _beat_address(burst: dict[str, Any], number: ValueLike) -> Any:
    """Return the address of beat `number` without alignment (Arm IHI 0022, section A3.4.1)."""
    start = burst["addr"][:ADDRESS_BITS]
    distance = (number << burst["size"])[:ADDRESS_BITS]
    container = (Const(0, ADDRESS_BITS) | (((burst["len"] + 1) << burst["size"]) - 1))[:ADDRESS_BITS]
    wrapped = (start & ~container) | ((start + distance) & container)
    increased = (start + distance)[:ADDRESS_BITS]
    return Mux(burst["burst"] == FIXED, start, Mux(burst["burst"] == INCR, increased, wrapped))[:ADDRESS_BITS]


def _word_address(burst: dict[str, Any], number: ValueLike) -> Any:
    """Return the address of the word that contains a beat."""
    start, size = burst["addr"][:ADDRESS_BITS], burst["size"]
    aligned = (((start >> size) << size) + (number << size))[:ADDRESS_BITS]
    address = Mux((burst["burst"] == INCR) & (number != 0), aligned, _beat_address(burst, number))
    return Cat(Const(0, 2), address[2:ADDRESS_BITS])


def _reads(harness: ProofHarness) -> tuple[Any, Any]:
    """Assert that reads are executed beat by beat.

    Returns
    -------
    tuple
        Beats that the block must still return; 1 while a read of the slave is outstanding.
    """
    block, inside = harness.block, harness.inside
    gp, lite = block.gp, block.lite
    accepted, burst = _address(harness, gp, "ar", ~inside.state("IDLE", "reads"))
    given = gp.rvalid & gp.rready
    left = harness.count(Mux(accepted, gp.arlen + 1, 0), given, bits=5)
    number = (burst["len"] + 1 - left)[:4]
    asked, answered = lite.arvalid & lite.arready, lite.rvalid & lite.rready
    outstanding = harness.count(asked, answered, bits=2)
    harness.assume(implies(lite.rvalid, outstanding != 0), offered(harness, *channel(lite, "r", "data", "resp")))
    harness.always(
        implies(accepted, left == 0),
        gp.arready == (left == 0),
        implies(gp.rvalid, (left != 0) & (gp.rid == burst["id"]) & (gp.rlast == (left == 1))),
        offered(harness, *channel(gp, "r", "id", "data", "resp", "last")),
        offered(harness, *channel(lite, "ar", "addr")),
        implies(asked, lite.araddr == _word_address(burst, number)),
        implies(harness.past(answered), gp.rvalid & same(gp.rdata, harness.past(lite.rdata))),
        implies(harness.past(answered), same(gp.rresp, harness.past(lite.rresp))),
        implies(gp.rvalid & ~harness.past(gp.rvalid), harness.past(answered)),
        # invariants
        inside.state("IDLE", "reads") == (left == 0),
        inside.state("WAIT", "reads") == (outstanding == 1),
        outstanding <= 1,
        left <= burst["len"] + 1,
        implies(left != 0, _is_at_beat(inside["read_beat"], burst, number, left) & (gp.rid == burst["id"])),
    )
    return left, outstanding


def _is_at_beat(inside: Inside, burst: dict[str, Any], number: ValueLike, left: ValueLike) -> Any:
    """Return 1 if the address counter of the block is at a beat of the burst."""
    size, kind = burst["size"], burst["burst"]
    moving = Mux(kind == FIXED, 0, Mux(kind == INCR, (1 << ADDRESS_BITS) - 1, burst["len"] << size))
    return (
        (inside["beat_address"] == _beat_address(burst, number))
        & (inside["left"] == left - 1)
        & (inside["beat_bytes"] == 1 << size)
        & (inside["changing_bits"] == moving[:ADDRESS_BITS])
    )


def _writes(harness: ProofHarness) -> tuple[Any, Any, Any]:
    """Assert that writes are executed beat by beat.

    Returns
    -------
    tuple
        Beats that the master must still send; 1 while a write of the slave is outstanding; 1 while the burst is not
        answered.
    """
    block, inside = harness.block, harness.inside
    gp, lite = block.gp, block.lite
    accepted, burst = _address(harness, gp, "aw", ~inside.state("IDLE", "writes"))
    sent = gp.wvalid & gp.wready
    left = harness.count(Mux(accepted, gp.awlen + 1, 0), sent, bits=5)
    answer = harness.count(accepted, gp.bvalid & gp.bready, bits=2)
    harness.assume(
        offered(harness, *channel(gp, "w", "id", "data", "strb", "last")),
        implies(gp.wvalid & (left != 0), (gp.wlast == (left == 1)) & (gp.wid == burst["id"])),
    )
    addressed, written = lite.awvalid & lite.awready, lite.wvalid & lite.wready
    answered = lite.bvalid & lite.bready
    addresses, words = harness.count(addressed, answered, bits=2), harness.count(written, answered, bits=2)
    harness.assume(
        implies(lite.bvalid, (addresses != 0) & (words != 0)),
        offered(harness, *channel(lite, "b", "resp")),
    )
    worst = harness.ghost(2, "worst")
    with harness.m.If(accepted):
        harness.m.d.sync += worst.eq(0)
    with harness.m.Elif(answered & (lite.bresp > worst)):
        harness.m.d.sync += worst.eq(lite.bresp)
    waits = inside.state("WAIT", "writes")
    number = (burst["len"] + 1 - left - waits)[:4]
    harness.always(
        implies(accepted, (left == 0) & (answer == 0)),
        gp.awready == (answer == 0),
        implies(gp.wready, left != 0),
        implies(gp.bvalid, (left == 0) & (answer == 1) & (gp.bid == burst["id"]) & (gp.bresp == worst)),
        offered(harness, *channel(gp, "b", "id", "resp")),
        offered(harness, *channel(lite, "aw", "addr")),
        offered(harness, *channel(lite, "w", "data", "strb")),
        lite.awvalid + addresses == waits,
        lite.wvalid + words == waits,
        implies(lite.awvalid, lite.awaddr == _word_address(burst, number)),
        implies(harness.past(sent), lite.wvalid & same(lite.wdata, harness.past(gp.wdata))),
        implies(harness.past(sent), lite.awvalid & same(lite.wstrb, harness.past(gp.wstrb))),
        # invariants
        inside.state("IDLE", "writes") == (answer == 0),
        inside.state("DATA", "writes") == ((left != 0) & ~waits),
        answer <= 1,
        left + waits <= burst["len"] + 1,
        implies(left != 0, answer == 1),
        implies(answer != 0, (gp.bid == burst["id"]) & (gp.bresp == worst)),
        implies((left != 0) | waits, _is_at_beat(inside["write_beat"], burst, number, left + waits)),
    )
    return left, waits, answer


def gp_reads(harness: ProofHarness) -> None:
    """Each beat of a read burst reads its register."""
    left, _ = _reads(harness)
    gp = harness.block.gp
    harness.cover(gp.rvalid & gp.rready & gp.rlast & harness.ever(left == 3) & (gp.rid == 0xABC))


def gp_writes(harness: ProofHarness) -> None:
    """Each beat of a write burst writes its register; each burst has one response after its last beat."""
    left, _, _ = _writes(harness)
    gp = harness.block.gp
    harness.cover(gp.bvalid & gp.bready & harness.ever(left == 3) & (gp.bresp == 0b10))


def gp_live(harness: ProofHarness) -> None:
    """Every transfer ends. Assumed: slave and master react within FAIR cycles."""
    gp, lite = harness.block.gp, harness.block.lite
    left, outstanding = _reads(harness)
    unasked = harness.within(lite.arvalid & ~lite.arready, FAIR)
    unanswered = harness.within((outstanding != 0) & ~lite.rvalid, FAIR)
    waited = harness.waiting((left != 0) & ~gp.rvalid)
    harness.always(
        waited <= 2 * FAIR,
        implies(lite.arvalid, waited <= unasked),
        implies(outstanding != 0, waited <= FAIR + unanswered),
    )
    to_write, waits, answer = _writes(harness)
    slow = [harness.within(getattr(lite, f"{c}valid") & ~getattr(lite, f"{c}ready"), FAIR) for c in ("aw", "w")]
    writing = harness.waiting(waits)
    taken = waits & ~lite.awvalid & ~lite.wvalid
    silent = harness.within(taken & ~lite.bvalid, FAIR)
    harness.always(
        implies(waits, writing < 2 * FAIR),
        implies(lite.awvalid, writing <= slow[0]),
        implies(lite.wvalid, writing <= slow[1]),
        implies(taken, writing <= FAIR + silent),
        implies((to_write != 0) & ~waits, gp.wready),
        implies((answer != 0) & (to_write == 0) & ~waits, gp.bvalid),
    )
    harness.cover(gp.rvalid & gp.rlast & (harness.past(waited) == FAIR))
    harness.cover(gp.bvalid & (harness.past(writing) == FAIR))


PROOFS = (
    Proof("gp_reads", "AXI3 reads: each beat reads its register; IDs, last, AXI4-Lite", RegisterPort, gp_reads, 20),
    Proof("gp_writes", "AXI3 writes: each beat writes its register; one response", RegisterPort, gp_writes, 20),
    Proof("gp_live", "with a fair slave and a fair master every AXI3 access ends", RegisterPort, gp_live, 24),
)
