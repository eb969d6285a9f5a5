"""What goes to memory and what models come from it as: the writer, the storer and the loader."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.memory.loader import Loader
from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer

from .bench import ProofHarness, implies, same
from .proof import CONFIG, FAIR, Proof
from .rules import inside_page, stable, taken, write_master

MOST_UNANSWERED = (1 << 16) - 2  # bursts: what the writer can count


def _writer(bench: ProofHarness) -> tuple[Any, Any]:
    """AXI legality, and what was asked for is what is written; what is left of a burst, and what is unanswered."""
    block, inside = bench.block, bench.inside
    axi, requests, beats = block.axi, block.requests, block.beats
    request = requests.payload
    bench.assume(
        stable(bench, requests),
        implies(
            requests.valid,
            (request.beats != 0)
            & (request.beats <= BURST_BEATS)
            & (request.address[: CONFIG.beat_bytes.bit_length() - 1] == 0)
            & inside_page(request.address, request.beats - 1, CONFIG.beat_bytes),
        ),
        same(beats.payload, bench.past(beats.payload)) | bench.past(beats.ready) | (inside["left"] == 0),
    )
    port = write_master(bench, axi, CONFIG.width)
    begun = taken(requests)
    open_bursts = port.complete + (inside["left"] != 0)  # not answered yet
    bench.assume(open_bursts <= MOST_UNANSWERED)
    bench.always(
        taken(beats) == (axi.wvalid & axi.wready),
        implies(axi.wvalid, same(axi.wdata, beats.payload)),
        implies(
            bench.past(begun),
            axi.awvalid & (axi.awaddr == bench.past(request.address)) & (axi.awlen + 1 == bench.past(request.beats)),
        ),
        bench.past(begun) | ~axi.awvalid | bench.past(axi.awvalid),
        block.idle == (~axi.awvalid & (open_bursts == 0)),
        # invariants
        inside["left"] == Mux(axi.awvalid, axi.awlen + 1, port.left),
        inside["sending"] == (inside["left"] != 0),
        implies(inside["sending"], axi.wlast == (inside["left"] == 1)),
        inside["outstanding"] == open_bursts,
    )
    response = bench.past(axi.bvalid & (axi.bresp != 0))
    bench.always(block.response == Mux(response, bench.past(axi.bresp), bench.past(block.response)))
    return inside["left"] + axi.awvalid, open_bursts


def writer(bench: ProofHarness) -> None:
    """Legal bursts, those that were asked for, and the last answer that was an error."""
    _, open_bursts = _writer(bench)
    axi = bench.block.axi
    bench.cover(axi.wvalid & axi.wready & axi.wlast & (open_bursts == 2))
    bench.cover(bench.ever(axi.bvalid) & bench.block.idle & (bench.block.response != 0))


def writer_live(bench: ProofHarness) -> None:
    """A request waits for one burst at most. Assumed: the memory takes what is offered within FAIR cycles."""
    work, _ = _writer(bench)
    axi, requests = bench.block.axi, bench.block.requests
    refused_for = bench.within((axi.awvalid & ~axi.awready) | (axi.wvalid & ~axi.wready), FAIR)
    waits = requests.valid & ~requests.ready
    waited = bench.waiting(waits)
    most = BURST_BEATS + 1  # the address and the beats of the burst before
    bench.always(
        implies(waits, waited < most * FAIR),
        implies(waits, (work != 0) & (waited <= (most - work) * FAIR + refused_for)),
    )
    bench.cover(waited == 3 * FAIR)


def storer(bench: ProofHarness) -> None:
    """Beat i since `begin` is part i of the chunk or of the record, and stays until it is taken."""
    block = bench.block
    beats = block.beats
    source = Cat(block.trace, block.masters, block.stamp, *block.losses)
    begun = bench.past(block.begin)
    bench.assume(begun | same(source, bench.past(source)))  # it changes before the first beat at most
    sent = bench.count(taken(beats), bits=5, clear=block.begin)
    most = Mux(block.trace, CONFIG.record_beats, CONFIG.chunk_beats)
    bench.assume(implies(taken(beats), ~block.begin & (sent < most)))
    chunk = [block.masters[i * CONFIG.width :][: CONFIG.width] for i in range(CONFIG.chunk_beats)]
    record = Cat(block.stamp, *block.losses)
    for i in range(CONFIG.chunk_beats):
        bench.always(implies((sent == i) & ~block.trace, same(beats.payload, chunk[i])))
    for i in range(CONFIG.record_beats):
        part = record[i * CONFIG.width :][: CONFIG.width]
        bench.always(implies((sent == i) & block.trace, same(beats.payload, part)))
    offered_before = ~bench.past(beats.ready, init=1) & ~begun & ~bench.past(block.begin)
    bench.always(implies(offered_before, same(beats.payload, bench.past(beats.payload))))
    bench.always(bench.inside["count"] == sent[:4])  # invariant
    bench.cover((sent == CONFIG.chunk_beats - 1) & ~block.trace & taken(beats))
    bench.cover((sent == CONFIG.record_beats - 1) & block.trace & taken(beats))


def loader(bench: ProofHarness) -> None:
    """A chunk is loaded once, with its last beat; its weights are the beats that came last, in their order."""
    block = bench.block
    beat = block.beats.payload
    last = block.beats.valid & (beat.part == CONFIG.chunk_beats - 1)
    bench.assume(implies(block.beats.valid, beat.output < CONFIG.outputs))
    place = bench.constant(range(CONFIG.chunk_beats), "place")
    kept = bench.ghost(CONFIG.width, "kept")
    expected = bench.count(block.beats.valid, bits=4)
    bench.assume(implies(block.beats.valid, beat.part == expected))
    with bench.m.If(block.beats.valid & (beat.part == place)):
        bench.m.d.sync += kept.eq(beat.words)
    since = (expected - place - 1)[:4]  # beats that came after the one that is kept
    where = (CONFIG.chunk_beats - 1 - since)[:4]
    loads = block.load.any()
    bench.always(
        *(block.load[i] == bench.past(last & (beat.output == i)) for i in range(CONFIG.outputs)),
        implies(loads, block.chunk == bench.past(beat.chunk)),
        implies(loads, same(block.masters.word_select(place, CONFIG.width), kept)),
        # invariants
        implies(loads, expected == 0),
        implies(expected > place, same(block.masters.word_select(where, CONFIG.width), kept)),
    )
    bench.cover(block.load[1] & (place == 3))


PROOFS = (
    Proof(
        "writer",
        "AXI4 writes: within 4 KiB, 1 to 16 beats, wlast, stable; responses",
        lambda: Writer(CONFIG),
        writer,
        12,
    ),
    Proof("writer_live", "no request waits longer than one burst takes", lambda: Writer(CONFIG), writer_live, 24),
    Proof("storer", "the beats of a chunk or record in order, stable until taken", lambda: Storer(CONFIG), storer, 24),
    Proof("loader", "each chunk once, its beats in order", lambda: Loader(CONFIG), loader, 40),
)
