"""Proofs of the writer and of the storer, and of the loader of the models."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import model_layout
from bitlane_hw.memory.loader import Loader
from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer

from .harness import ProofHarness, implies, same
from .proof import CONFIG, FAIR, Proof
from .protocol import inside_page, stable, taken, write_master

MOST_UNANSWERED = (1 << 16) - 2  # bursts that the writer can count


def _writer(harness: ProofHarness) -> tuple[Any, Any]:
    """Apply the rules of a writer: legal AXI bursts that transfer what was requested.

    Returns
    -------
    tuple
        Transfers left of the current burst: its address and its beats; bursts that are not answered.
    """
    block, inside = harness.block, harness.inside
    axi, requests, beats = block.axi, block.requests, block.beats
    request = requests.payload
    harness.assume(
        stable(harness, requests),
        implies(
            requests.valid,
            (request.beats != 0)
            & (request.beats <= BURST_BEATS)
            & (request.address[: CONFIG.beat_bytes.bit_length() - 1] == 0)
            & inside_page(request.address, request.beats - 1, CONFIG.beat_bytes),
        ),
        same(beats.payload, harness.past(beats.payload)) | harness.past(beats.ready) | (inside["left"] == 0),
    )
    port = write_master(harness, axi, CONFIG.width)
    begun = taken(requests)
    left = inside["left"]
    open_bursts = port.complete + ((left != 0) | axi.awvalid)  # not answered
    harness.assume(open_bursts <= MOST_UNANSWERED)
    harness.always(
        taken(beats) == (axi.wvalid & axi.wready),
        implies(axi.wvalid, same(axi.wdata, beats.payload)),
        implies(
            harness.past(begun),
            axi.awvalid
            & axi.wvalid
            & (axi.awaddr == harness.past(request.address))
            & (axi.awlen + 1 == harness.past(request.beats)),
        ),
        axi.wvalid == (left != 0),  # whatever the memory does with the address
        harness.past(begun) | ~axi.awvalid | harness.past(axi.awvalid),
        block.idle == (~axi.awvalid & (open_bursts == 0)),
        # invariants
        port.ahead == Mux(axi.awvalid, Mux(left == 0, -1, 0), left != 0),
        port.balance == (left - Mux(axi.awvalid, axi.awlen + 1, 0))[:8],
        left <= BURST_BEATS,
        implies(axi.awvalid, left <= axi.awlen + 1),
        inside["sending"] == (left != 0),
        implies(inside["sending"], axi.wlast == (left == 1)),
        inside["outstanding"] == open_bursts,
    )
    response = harness.past(axi.bvalid & (axi.bresp != 0))
    harness.always(block.response == Mux(response, harness.past(axi.bresp), harness.past(block.response)))
    return left + axi.awvalid, open_bursts


def writer(harness: ProofHarness) -> None:
    """Bursts are legal and those that were requested; the last error response is reported."""
    _, open_bursts = _writer(harness)
    axi = harness.block.axi
    harness.cover(axi.wvalid & axi.wready & axi.wlast & (open_bursts == 2))
    harness.cover(axi.awvalid & axi.awready & ~axi.wvalid & (axi.awlen == 2))  # all beats before the address
    harness.cover(axi.wvalid & axi.wlast & ~axi.awvalid & (axi.awlen == 2))
    harness.cover(harness.ever(axi.bvalid) & harness.block.idle & (harness.block.response != 0))


def writer_live(harness: ProofHarness) -> None:
    """A request waits for at most one burst.

    Assumed: while an address or a beat is offered, the memory takes one of both every FAIR cycles. It may take the
    address after the beats, or the beats after the address.
    """
    work, _ = _writer(harness)
    axi, requests = harness.block.axi, harness.block.requests
    offers, takes = axi.awvalid | axi.wvalid, (axi.awvalid & axi.awready) | (axi.wvalid & axi.wready)
    refused_for = harness.within(offers & ~takes, FAIR)
    waits = requests.valid & ~requests.ready
    waited = harness.waiting(waits)
    most = BURST_BEATS + 1  # address and beats of the previous burst
    harness.always(
        implies(waits, waited < most * FAIR),
        implies(waits, (work != 0) & (waited <= (most - work) * FAIR + refused_for)),
    )
    harness.cover(waited == 3 * FAIR)


def storer(harness: ProofHarness) -> None:
    """Beat i after `begin` is part i of the chunk or of the record; it stays until it is taken."""
    block = harness.block
    beats = block.beats
    source = Cat(block.trace, block.masters, block.stamp, *block.losses)
    begun = harness.past(block.begin)
    harness.assume(begun | same(source, harness.past(source)))  # it may change before the first beat only
    sent = harness.count(taken(beats), bits=5, clear=block.begin)
    most = Mux(block.trace, CONFIG.record_beats, CONFIG.chunk_beats)
    harness.assume(implies(taken(beats), ~block.begin & (sent < most)))
    chunk = [block.masters[i * CONFIG.width :][: CONFIG.width] for i in range(CONFIG.chunk_beats)]
    record = Cat(block.stamp, *block.losses)
    for i in range(CONFIG.chunk_beats):
        harness.always(implies((sent == i) & ~block.trace, same(beats.payload, chunk[i])))
    for i in range(CONFIG.record_beats):
        part = record[i * CONFIG.width :][: CONFIG.width]
        harness.always(implies((sent == i) & block.trace, same(beats.payload, part)))
    offered_before = ~harness.past(beats.ready, init=1) & ~begun & ~harness.past(block.begin)
    harness.always(implies(offered_before, same(beats.payload, harness.past(beats.payload))))
    harness.always(harness.inside["count"] == sent[:4])  # invariant
    harness.cover((sent == CONFIG.chunk_beats - 1) & ~block.trace & taken(beats))
    harness.cover((sent == CONFIG.record_beats - 1) & block.trace & taken(beats))


def loader(harness: ProofHarness) -> None:
    """A chunk is loaded once, two cycles after its last beat, and consists of its beats in order."""
    block, inside = harness.block, harness.inside
    given = block.beats.payload
    # The registers in front of the block: a cycle later than the port.
    valid, beat = inside["beat_valid_1"], model_layout(CONFIG, CONFIG.shard_width)(inside["beat"])
    last = valid & (beat.part == CONFIG.chunk_beats - 1)
    harness.assume(implies(block.beats.valid, given.output < CONFIG.outputs))
    part = harness.constant(range(CONFIG.chunk_beats), "part")
    words = harness.ghost(CONFIG.width, "words")
    next_part = harness.count(valid, bits=4)
    harness.assume(implies(block.beats.valid, given.part == (next_part + valid)[:4]))
    with harness.m.If(valid & (beat.part == part)):
        harness.m.d.sync += words.eq(beat.words)
    since = (next_part - part - 1)[:4]  # beats after the expected one
    index = (CONFIG.chunk_beats - 1 - since)[:4]
    loads = block.load.any()
    harness.always(
        valid == harness.past(block.beats.valid),
        implies(valid, same(beat, harness.past(given))),
        *(block.load[i] == harness.past(last & (beat.output == i)) for i in range(CONFIG.outputs)),
        implies(loads, block.chunk == harness.past(beat.chunk)),
        implies(loads, same(block.masters.word_select(part, CONFIG.width), words)),
        # invariants
        implies(valid, (beat.part == next_part) & (beat.output < CONFIG.outputs)),
        implies(loads, next_part == 0),
        implies(next_part > part, same(block.masters.word_select(index, CONFIG.width), words)),
    )
    harness.cover(block.load[1] & (part == 3))


PROOFS = (
    Proof(
        "writer",
        "AXI4 writes: within 4 KiB, 1 to 16 beats, wlast, stable; responses are reported",
        lambda: Writer(CONFIG),
        writer,
        12,
    ),
    Proof("writer_live", "no request waits longer than one burst", lambda: Writer(CONFIG), writer_live, 24),
    Proof("storer", "beats of a chunk or of a record in order, stable until taken", lambda: Storer(CONFIG), storer, 24),
    Proof("loader", "each chunk is loaded once, with its beats in order", lambda: Loader(CONFIG), loader, 40),
)
