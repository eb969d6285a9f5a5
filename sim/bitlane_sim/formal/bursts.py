"""The requester and its cursors: which bursts are asked for, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.memory.burst_generator import BurstGenerator, StreamCursor

from .bench import ProofHarness, implies
from .proof import CONFIG, FAIR, Proof
from .rules import stable, taken


def valid_regions(bench: ProofHarness, regions: Any, sets: Any) -> None:
    """The regions are constant, none is empty, and all addresses are whole beats."""
    bench.hold(sets, *regions)
    bench.assume(sets != 0)
    for region in regions:
        bench.assume(region.beats != 0, *(aligned(address, CONFIG) for address in (region.address, region.stride)))


def aligned(address: Any, config: Any) -> Any:
    """1 where an address is a multiple of a beat."""
    return address[: config.beat_bytes.bit_length() - 1] == 0


def place_in_burst(address: Any, config: Any) -> Any:
    """Which of the 16 beats between two multiples of 16 beats an address is."""
    return address[config.beat_bytes.bit_length() - 1 :][: BURST_BEATS.bit_length() - 1]


def cursor(bench: ProofHarness) -> None:
    """Bursts that follow one another without a gap or overlap, and begin a new set where one ends."""
    block, inside, m = bench.block, bench.inside, bench.m
    region, first = block.region, block.first
    valid_regions(bench, [region], block.draw_sets)
    bench.hold(first)
    bench.assume(aligned(first.address, CONFIG))
    loaded = bench.ever(block.load)
    bench.assume(implies(block.advance, loaded & ~block.load))
    remaining = cursor_in_range(bench, inside, block.draw_sets, loaded)
    bench.always(
        implies(loaded, (block.beats != 0) & (block.beats <= BURST_BEATS) & aligned(block.address, CONFIG)),
        implies(loaded, place_in_burst(block.address, CONFIG) + block.beats <= BURST_BEATS),
    )

    # What an observer of `advance` knows: where the set began that is under way, its number, how far it has come.
    start = bench.ghost(CONFIG.address_bits, "start")
    index = bench.ghost(32, "index")
    before_sets = bench.ghost(1, "before_sets")  # what comes before set 0 is under way
    gone = bench.ghost(region.beats.shape(), "gone")
    size = Mux(before_sets, first.beats, region.beats)
    ends = gone + block.beats == size
    with m.If(block.load):
        has_first = first.beats != 0
        m.d.sync += [
            gone.eq(0),
            index.eq(0),
            before_sets.eq(has_first),
            start.eq(Mux(has_first, first.address, region.address)),
        ]
    with m.Elif(block.advance):
        m.d.sync += gone.eq(gone + block.beats)
        with m.If(ends):
            last = index == block.draw_sets - 1
            again = before_sets | last
            m.d.sync += [
                gone.eq(0),
                before_sets.eq(0),
                index.eq(Mux(again, 0, index + 1)),
                start.eq(Mux(again, region.address, start + region.stride)),
            ]
    following_index = Mux(before_sets | (index == block.draw_sets - 1), 0, index + 1)
    following = Mux(before_sets | (index == block.draw_sets - 1), region.address, start + region.stride)
    bench.always(
        implies(loaded, block.address == (start + gone * CONFIG.beat_bytes)[: CONFIG.address_bits]),
        implies(loaded, gone + block.beats <= size),
        implies(loaded & ~ends, place_in_burst(block.address, CONFIG) + block.beats == BURST_BEATS),
        # invariants
        implies(loaded, (gone + remaining == size) & (gone < size)),
        implies(loaded, inside["next_address"] == following[: CONFIG.address_bits]),
        implies(loaded, inside["sets_left"] + following_index + 2 == block.draw_sets),
        implies(loaded, (index < block.draw_sets) & aligned(start, CONFIG)),
    )
    bench.cover(loaded & (index == 2) & block.advance & ~ends)
    bench.cover(loaded & ~before_sets & (index == 0) & (block.draw_sets == 2) & bench.ever(index == 1) & (gone != 0))


def cursor_in_range(bench: ProofHarness, inside: Any, sets: Any, loaded: Any) -> Any:
    """What holds of a cursor in every cycle; returns the beats that its set still has."""
    block, m = inside.component, bench.m
    bench.settled(inside["all_sets"], sets - 2)
    place = place_in_burst(block.address, CONFIG)
    remaining = bench.ghost(block.region.beats.shape(), "remaining")
    with m.If(block.load):
        m.d.sync += remaining.eq(Mux(block.first.beats != 0, block.first.beats, block.region.beats))
    with m.Elif(block.advance):
        m.d.sync += remaining.eq(Mux(remaining == block.beats, block.region.beats, remaining - block.beats))
    bench.always(
        implies(loaded, inside["to_boundary"] + place == BURST_BEATS),
        implies(loaded, inside["to_end"] == remaining[: len(inside["to_end"])]),
        implies(loaded, inside["lines_left"] == (remaining + place - (BURST_BEATS + 1)) // BURST_BEATS),
        implies(loaded, remaining != 0),
    )
    return remaining


@dataclass(frozen=True)
class Requested:
    """What a requester has asked for.

    Attributes
    ----------
    owed: for each stream, the beats that were asked for and have not left their FIFO.
    ahead: those of them that were named by a token.
    waits: 1 where a token is not taken.
    """

    owed: list[Any]
    ahead: list[Any]
    waits: Any


def requests(bench: ProofHarness, inside: Any) -> Requested:
    """Bursts for what is needed, in its order, and no more than there is room for; from a requester's inside."""
    block = inside.component
    tokens, bursts = block.tokens, block.bursts
    valid_regions(bench, list(block.regions), block.draw_sets)
    bench.assume(aligned(block.model, CONFIG), (block.chunks != 0) & (block.chunks <= CONFIG.max_chunks))
    loaded = bench.ever(block.load)
    bench.assume(implies(block.enable, loaded & ~block.load))

    draw = tokens.payload.kind == Kind.DRAW
    owed, ahead = [], []
    for i, name in enumerate(("base", "draw")):
        mine = draw == i
        asks = taken(tokens) & mine & (inside[f"covered_{i}"] == 0)
        cursor = inside[name]
        beats = cursor.component.beats
        cursor_in_range(bench, cursor, block.draw_sets, loaded)
        owed.append(bench.count(Mux(asks, beats, 0), block.returned[i]))
        ahead.append(bench.count(taken(tokens) & mine, block.returned[i]))
        bench.always(
            inside[f"room_{i}"] == CONFIG.fifo_beats - BURST_BEATS - owed[i],
            owed[i] <= CONFIG.fifo_beats,
            (inside[f"covered_{i}"] + ahead[i])[:16] == owed[i],
            implies(loaded, aligned(cursor.component.address, CONFIG)),
            implies(loaded, aligned(cursor["next_address"], CONFIG)),
            # A burst is asked for with the first beat of it that is needed, and is the cursor's.
            implies(
                bench.past(asks),
                bursts.valid
                & (bursts.payload.stream == i)
                & (bursts.payload.address == bench.past(cursor.component.address))
                & (bursts.payload.beats == bench.past(beats)),
            ),
        )
    payload = bursts.payload
    bench.always(
        stable(bench, bursts),
        implies(bursts.valid, (payload.beats != 0) & (payload.beats <= BURST_BEATS) & aligned(payload.address, CONFIG)),
        implies(bursts.valid, place_in_burst(payload.address, CONFIG) + payload.beats <= BURST_BEATS),
        implies(bench.past(~block.enable) & ~bench.past(bursts.valid), ~bursts.valid),
        implies(bursts.valid, loaded),
    )
    return Requested(owed, ahead, tokens.valid & block.enable & ~tokens.ready)


def lone_requester(bench: ProofHarness) -> Requested:
    """A requester whose tokens come from anywhere; a beat that leaves a FIFO was named by one of them."""
    block = bench.block
    bench.hold(block.model, block.chunks)
    bench.assume(stable(bench, block.tokens))
    requested = requests(bench, bench.inside)
    bench.assume(*(implies(block.returned[i], requested.ahead[i] != 0) for i in (0, 1)))
    bench.always(*(ahead <= CONFIG.fifo_beats for ahead in requested.ahead))
    return requested


def requester(bench: ProofHarness) -> None:
    """Bursts for what is needed, when it is, and no more than there is room for."""
    requested = lone_requester(bench)
    bursts = bench.block.bursts
    bench.cover(requested.waits & (requested.owed[0] > BURST_BEATS))
    bench.cover(bursts.valid & (bursts.payload.stream == 1) & (requested.owed[0] != 0))


def requester_full(bench: ProofHarness) -> None:
    """A consumer that takes nothing stops the requester, and not too late."""
    requested = lone_requester(bench)
    block = bench.block
    bench.assume(
        block.bursts.ready, block.tokens.valid, block.tokens.payload.kind == Kind.BASE, ~Cat(block.returned).any()
    )
    bench.assume(
        block.model == 0, block.chunks == CONFIG.max_chunks, block.load == ~bench.past(1), block.enable == ~block.load
    )
    bench.cover(requested.waits & (requested.owed[0] > CONFIG.fifo_beats - BURST_BEATS))


def requester_live(bench: ProofHarness) -> None:
    """No token waits for ever.

    Assumed: the burst port and the consumer are fair: a burst is taken within FAIR cycles, and while beats that were
    named have not left their FIFOs, one leaves every FAIR cycles.
    """
    requested = lone_requester(bench)
    waits = requested.waits
    bursts, returned = bench.block.bursts, bench.block.returned
    left = requested.ahead[0] + requested.ahead[1]
    refused = bursts.valid & ~bursts.ready
    refused_for = bench.within(refused, FAIR)
    idle_for = bench.within((left != 0) & ~returned[0] & ~returned[1], FAIR)
    waited = bench.waiting(waits)
    most = 2 * CONFIG.fifo_beats
    bench.always(
        implies(waits, waited < (most + 1) * FAIR),
        # invariants: while the token waits, every FAIR cycles there is a beat less
        implies(waits & (left != 0), waited <= (most - left) * FAIR + idle_for),
        implies(waits & (left == 0), refused & (waited <= most * FAIR + refused_for)),
    )
    bench.cover(waited == FAIR - 1)


PROOFS = (
    Proof(
        "cursor",
        "bursts of 1 to 16 beats within 16-beat bounds, no gap or overlap, set after set",
        lambda: StreamCursor(CONFIG),
        cursor,
        covers=12,
    ),
    Proof(
        "requester",
        "stable bursts; credits exact, never negative; covered counts exact",
        lambda: BurstGenerator(CONFIG),
        requester,
        covers=8,
    ),
    Proof(
        "requester_full",
        "it stops where there is no more room",
        lambda: BurstGenerator(CONFIG),
        requester_full,
        covers=70,
    ),
    Proof(
        "requester_live",
        "no token waits longer than a fair consumer makes it",
        lambda: BurstGenerator(CONFIG),
        requester_live,
        covers=10,
    ),
)
