"""The registers behind AXI3: the Zynq-7000's GP0."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Mux

from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.memory.axi import INCR
from bitlane_hw.zynq.axi3 import FIXED, WRAP
from bitlane_hw.zynq.register_port import RegisterPort

from .bench import ProofHarness, implies, same
from .proof import FAIR, Proof
from .rules import channel, offered


def _address(bench: ProofHarness, gp: Any, prefix: str, busy: Any) -> tuple[Any, dict[str, Any]]:
    """Assumed: a legal burst that stays until it is taken. Returns 1 where it is, and what it said, from then on.

    busy: 1 while a burst is under way.
    """
    names = ("id", "addr", "len", "size", "burst")
    bench.assume(offered(bench, *channel(gp, prefix, *names)))
    values = {name: getattr(gp, prefix + name) for name in names}
    valid = getattr(gp, f"{prefix}valid")
    begun = valid & getattr(gp, f"{prefix}ready")
    bench.assume(implies(valid, _legal(values)))
    kept = {name: bench.ghost(value.shape(), name) for name, value in values.items()}
    with bench.m.If(begun):
        bench.m.d.sync += [kept[name].eq(value) for name, value in values.items()]
    seen = bench.ever(begun)
    bench.always(implies(seen, _legal(kept)), implies(busy, seen))  # invariants
    return begun, kept


def _legal(burst: dict[str, Any]) -> Any:
    """1 where a burst's beats are not wider than the port, and one that wraps has an aligned power of two of them."""
    size, kind, length = burst["size"], burst["burst"], burst["len"]
    power = (length != 0) & ((length & (length + 1)) == 0)
    aligned = (burst["addr"] & ((1 << size) - 1)) == 0
    known = (kind == FIXED) | (kind == INCR) | (kind == WRAP)
    return (size <= 2) & known & implies(kind == WRAP, power & aligned)


def _place(burst: dict[str, Any], number: Any) -> Any:
    """Where beat `number` begins (Arm IHI 0022, section A3.4.1), but that it is not aligned."""
    start = burst["addr"][:ADDRESS_BITS]
    distance = (number << burst["size"])[:ADDRESS_BITS]
    container = (Const(0, ADDRESS_BITS) | (((burst["len"] + 1) << burst["size"]) - 1))[:ADDRESS_BITS]
    wrapped = (start & ~container) | ((start + distance) & container)
    increased = (start + distance)[:ADDRESS_BITS]
    return Mux(burst["burst"] == FIXED, start, Mux(burst["burst"] == INCR, increased, wrapped))[:ADDRESS_BITS]


def _word(burst: dict[str, Any], number: Any) -> Any:
    """The address of the word in which a beat, which is no wider, lies: the same for aligned beats."""
    start, size = burst["addr"][:ADDRESS_BITS], burst["size"]
    aligned = (((start >> size) << size) + (number << size))[:ADDRESS_BITS]
    place = Mux((burst["burst"] == INCR) & (number != 0), aligned, _place(burst, number))
    return Cat(Const(0, 2), place[2:ADDRESS_BITS])


def _reads(bench: ProofHarness) -> tuple[Any, Any]:
    """Reads beat by beat; returns the beats owed to the master, and 1 where the slave owes one."""
    block, inside = bench.block, bench.inside
    gp, lite = block.gp, block.lite
    begun, burst = _address(bench, gp, "ar", ~inside.state("IDLE", "reads"))
    given = gp.rvalid & gp.rready
    left = bench.count(Mux(begun, gp.arlen + 1, 0), given, bits=5)
    number = (burst["len"] + 1 - left)[:4]
    asked, answered = lite.arvalid & lite.arready, lite.rvalid & lite.rready
    owed = bench.count(asked, answered, bits=2)
    bench.assume(implies(lite.rvalid, owed != 0), offered(bench, *channel(lite, "r", "data", "resp")))
    bench.always(
        implies(begun, left == 0),
        gp.arready == (left == 0),
        implies(gp.rvalid, (left != 0) & (gp.rid == burst["id"]) & (gp.rlast == (left == 1))),
        offered(bench, *channel(gp, "r", "id", "data", "resp", "last")),
        offered(bench, *channel(lite, "ar", "addr")),
        implies(asked, lite.araddr == _word(burst, number)),
        implies(bench.past(answered), gp.rvalid & same(gp.rdata, bench.past(lite.rdata))),
        implies(bench.past(answered), same(gp.rresp, bench.past(lite.rresp))),
        implies(gp.rvalid & ~bench.past(gp.rvalid), bench.past(answered)),
        # invariants
        inside.state("IDLE", "reads") == (left == 0),
        inside.state("WAIT", "reads") == (owed == 1),
        owed <= 1,
        left <= burst["len"] + 1,
        implies(left != 0, _walks(inside["read_beat"], burst, number, left) & (gp.rid == burst["id"])),
    )
    return left, owed


def _walks(inside: Any, burst: dict[str, Any], number: Any, left: Any) -> Any:
    """1 where the walker of addresses stands where the burst does."""
    size, kind = burst["size"], burst["burst"]
    moving = Mux(kind == FIXED, 0, Mux(kind == INCR, (1 << ADDRESS_BITS) - 1, burst["len"] << size))
    return (
        (inside["place"] == _place(burst, number))
        & (inside["left"] == left - 1)
        & (inside["beat_bytes"] == 1 << size)
        & (inside["moving"] == moving[:ADDRESS_BITS])
    )


def _writes(bench: ProofHarness) -> tuple[Any, Any, Any]:
    """Writes beat by beat; returns the beats that the master owes, and 1 where the slave and we owe an answer."""
    block, inside = bench.block, bench.inside
    gp, lite = block.gp, block.lite
    begun, burst = _address(bench, gp, "aw", ~inside.state("IDLE", "writes"))
    sent = gp.wvalid & gp.wready
    left = bench.count(Mux(begun, gp.awlen + 1, 0), sent, bits=5)
    answer = bench.count(begun, gp.bvalid & gp.bready, bits=2)
    bench.assume(
        offered(bench, *channel(gp, "w", "id", "data", "strb", "last")),
        implies(gp.wvalid & (left != 0), (gp.wlast == (left == 1)) & (gp.wid == burst["id"])),
    )
    addressed, written = lite.awvalid & lite.awready, lite.wvalid & lite.wready
    answered = lite.bvalid & lite.bready
    addresses, words = bench.count(addressed, answered, bits=2), bench.count(written, answered, bits=2)
    bench.assume(
        implies(lite.bvalid, (addresses != 0) & (words != 0)),
        offered(bench, *channel(lite, "b", "resp")),
    )
    worst = bench.ghost(2, "worst")
    with bench.m.If(begun):
        bench.m.d.sync += worst.eq(0)
    with bench.m.Elif(answered & (lite.bresp > worst)):
        bench.m.d.sync += worst.eq(lite.bresp)
    waits = inside.state("WAIT", "writes")
    number = (burst["len"] + 1 - left - waits)[:4]
    bench.always(
        implies(begun, (left == 0) & (answer == 0)),
        gp.awready == (answer == 0),
        implies(gp.wready, left != 0),
        implies(gp.bvalid, (left == 0) & (answer == 1) & (gp.bid == burst["id"]) & (gp.bresp == worst)),
        offered(bench, *channel(gp, "b", "id", "resp")),
        offered(bench, *channel(lite, "aw", "addr")),
        offered(bench, *channel(lite, "w", "data", "strb")),
        lite.awvalid + addresses == waits,
        lite.wvalid + words == waits,
        implies(lite.awvalid, lite.awaddr == _word(burst, number)),
        implies(bench.past(sent), lite.wvalid & same(lite.wdata, bench.past(gp.wdata))),
        implies(bench.past(sent), lite.awvalid & same(lite.wstrb, bench.past(gp.wstrb))),
        # invariants
        inside.state("IDLE", "writes") == (answer == 0),
        inside.state("TAKE", "writes") == ((left != 0) & ~waits),
        answer <= 1,
        left + waits <= burst["len"] + 1,
        implies(left != 0, answer == 1),
        implies(answer != 0, (gp.bid == burst["id"]) & (gp.bresp == worst)),
        implies((left != 0) | waits, _walks(inside["write_beat"], burst, number, left + waits)),
    )
    return left, waits, answer


def gp_reads(bench: ProofHarness) -> None:
    """Each burst its beats, each beat its register."""
    left, _ = _reads(bench)
    gp = bench.block.gp
    bench.cover(gp.rvalid & gp.rready & gp.rlast & bench.ever(left == 3) & (gp.rid == 0xABC))


def gp_writes(bench: ProofHarness) -> None:
    """Each burst one answer, after its last beat, each beat its register."""
    left, _, _ = _writes(bench)
    gp = bench.block.gp
    bench.cover(gp.bvalid & gp.bready & bench.ever(left == 3) & (gp.bresp == 0b10))


def gp_live(bench: ProofHarness) -> None:
    """Every transfer ends. Assumed: the slave and the master do what they must within FAIR cycles."""
    gp, lite = bench.block.gp, bench.block.lite
    left, owed = _reads(bench)
    unasked = bench.within(lite.arvalid & ~lite.arready, FAIR)
    unanswered = bench.within((owed != 0) & ~lite.rvalid, FAIR)
    waited = bench.waiting((left != 0) & ~gp.rvalid)
    bench.always(
        waited <= 2 * FAIR,
        implies(lite.arvalid, waited <= unasked),
        implies(owed != 0, waited <= FAIR + unanswered),
    )
    to_write, waits, answer = _writes(bench)
    slow = [bench.within(getattr(lite, f"{c}valid") & ~getattr(lite, f"{c}ready"), FAIR) for c in ("aw", "w")]
    writing = bench.waiting(waits)
    taken = waits & ~lite.awvalid & ~lite.wvalid
    silent = bench.within(taken & ~lite.bvalid, FAIR)
    bench.always(
        implies(waits, writing < 2 * FAIR),
        implies(lite.awvalid, writing <= slow[0]),
        implies(lite.wvalid, writing <= slow[1]),
        implies(taken, writing <= FAIR + silent),
        implies((to_write != 0) & ~waits, gp.wready),
        implies((answer != 0) & (to_write == 0) & ~waits, gp.bvalid),
    )
    bench.cover(gp.rvalid & gp.rlast & (bench.past(waited) == FAIR))
    bench.cover(gp.bvalid & (bench.past(writing) == FAIR))


PROOFS = (
    Proof("gp_reads", "AXI3 reads: each beat its register, IDs, last; AXI4-Lite obeyed", RegisterPort, gp_reads, 20),
    Proof("gp_writes", "AXI3 writes: each beat its register, one answer, the worst", RegisterPort, gp_writes, 20),
    Proof("gp_live", "no AXI3 access of a register waits longer than its neighbours do", RegisterPort, gp_live, 24),
)
