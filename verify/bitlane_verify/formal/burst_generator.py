"""Proofs of the burst generator and of its cursors: which bursts are requested, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Mux, ValueLike
from amaranth.lib import data

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.memory.burst_generator import BurstGenerator, StreamCursor

from .harness import Inside, ProofHarness, implies
from .proof import CONFIG, FAIR, Proof
from .protocol import stable, taken


def valid_regions(harness: ProofHarness, regions: Sequence[data.View], sets: ValueLike) -> None:
    """Assume constant, non-empty regions whose addresses are multiples of a beat."""
    harness.hold(sets, *regions)
    harness.assume(sets != 0)
    for region in regions:
        harness.assume(region.beats != 0, *(aligned(address, CONFIG) for address in (region.address, region.stride)))


def aligned(address: ValueLike, config: AcceleratorConfig) -> Any:
    """Return 1 if an address is a multiple of a beat."""
    return address[: config.beat_bytes.bit_length() - 1] == 0


def offset_in_line(address: ValueLike, config: AcceleratorConfig) -> Any:
    """Return the index of the beat at an address among the 16 beats of its line."""
    return address[config.beat_bytes.bit_length() - 1 :][: BURST_BEATS.bit_length() - 1]


def cursor(harness: ProofHarness) -> None:
    """Bursts follow one another without gap or overlap; a new set starts where one ends."""
    block, inside, m = harness.block, harness.inside, harness.m
    region, first = block.region, block.first
    valid_regions(harness, [region], block.draw_sets)
    harness.hold(first)
    harness.assume(aligned(first.address, CONFIG))
    loaded = harness.ever(block.load)
    harness.assume(implies(block.advance, loaded & ~block.load))
    remaining = cursor_in_range(harness, inside, block.draw_sets, loaded)
    harness.always(
        implies(loaded, (block.beats != 0) & (block.beats <= BURST_BEATS) & aligned(block.address, CONFIG)),
        implies(loaded, offset_in_line(block.address, CONFIG) + block.beats <= BURST_BEATS),
    )

    # State that an observer of `advance` can track: start and index of the current set, and the beats done.
    start = harness.ghost(CONFIG.address_bits, "start")
    index = harness.ghost(32, "index")
    before_sets = harness.ghost(1, "before_sets")  # the region before set 0 is in progress
    done = harness.ghost(region.beats.shape(), "done")
    size = Mux(before_sets, first.beats, region.beats)
    ends = done + block.beats == size
    with m.If(block.load):
        has_first = first.beats != 0
        m.d.sync += [
            done.eq(0),
            index.eq(0),
            before_sets.eq(has_first),
            start.eq(Mux(has_first, first.address, region.address)),
        ]
    with m.Elif(block.advance):
        m.d.sync += done.eq(done + block.beats)
        with m.If(ends):
            last = index == block.draw_sets - 1
            again = before_sets | last
            m.d.sync += [
                done.eq(0),
                before_sets.eq(0),
                index.eq(Mux(again, 0, index + 1)),
                start.eq(Mux(again, region.address, start + region.stride)),
            ]
    following_index = Mux(before_sets | (index == block.draw_sets - 1), 0, index + 1)
    following = Mux(before_sets | (index == block.draw_sets - 1), region.address, start + region.stride)
    harness.always(
        implies(loaded, block.address == (start + done * CONFIG.beat_bytes)[: CONFIG.address_bits]),
        implies(loaded, done + block.beats <= size),
        implies(loaded & ~ends, offset_in_line(block.address, CONFIG) + block.beats == BURST_BEATS),
        # invariants
        implies(loaded, (done + remaining == size) & (done < size)),
        implies(loaded, inside["next_address"] == following[: CONFIG.address_bits]),
        implies(loaded, inside["sets_left"] + following_index + 2 == block.draw_sets),
        implies(loaded, (index < block.draw_sets) & aligned(start, CONFIG)),
    )
    harness.cover(loaded & (index == 2) & block.advance & ~ends)
    harness.cover(
        loaded & ~before_sets & (index == 0) & (block.draw_sets == 2) & harness.ever(index == 1) & (done != 0)
    )


def cursor_in_range(harness: ProofHarness, inside: Inside, sets: ValueLike, loaded: ValueLike) -> Any:
    """Assert the invariants of a cursor; return the beats left in its set."""
    block, m = inside.component, harness.m
    region, first = block.region, block.first
    has_first = first.beats != 0
    address = Mux(has_first, first.address, region.address)
    stays = has_first | (sets == 1)
    for name, value in {
        "all_sets": sets - 2,
        "load_has_first": has_first,
        "load_beats": first.beats,
        "load_address": address,
        "load_line_offset": offset_in_line(address, CONFIG) - (BURST_BEATS + 1),
        "load_next_address": Mux(stays, region.address, region.address + region.stride)[: CONFIG.address_bits],
        "load_sets_left": Mux(stays, sets - 2, sets - 3),
    }.items():
        harness.settled(inside[name], value)
    offset = offset_in_line(block.address, CONFIG)
    remaining = harness.ghost(block.region.beats.shape(), "remaining")
    with m.If(block.load):
        m.d.sync += remaining.eq(Mux(block.first.beats != 0, block.first.beats, block.region.beats))
    with m.Elif(block.advance):
        m.d.sync += remaining.eq(Mux(remaining == block.beats, block.region.beats, remaining - block.beats))
    harness.always(
        implies(loaded, inside["to_boundary"] + offset == BURST_BEATS),
        implies(loaded, inside["to_end"] == remaining[: len(inside["to_end"])]),
        implies(loaded, inside["lines_left"] == (remaining + offset - (BURST_BEATS + 1)) // BURST_BEATS),
        implies(loaded, remaining != 0),
    )
    return remaining


@dataclass(frozen=True)
class Requests:
    """Requests of a burst generator.

    Attributes
    ----------
    outstanding : list
        For each stream, the beats that were requested and have not left their FIFO.
    named : list
        For each stream, those of them that a token has named.
    waits : Value
        1 if a token is not taken.
    """

    outstanding: list[Any]
    named: list[Any]
    waits: Any


def requests(harness: ProofHarness, inside: Inside) -> Requests:
    """Apply the rules of a burst generator: it requests what is needed, in order, if there is room.

    Returns
    -------
    Requests
        Its requests.
    """
    block = inside.component
    tokens, bursts = block.tokens, block.bursts
    valid_regions(harness, list(block.regions), block.draw_sets)
    harness.assume(aligned(block.model, CONFIG), (block.chunks != 0) & (block.chunks <= CONFIG.max_chunks))
    loaded = harness.ever(block.load)
    harness.assume(implies(block.enable, loaded & ~block.load))

    draw = tokens.payload.kind == Kind.DRAW
    outstanding, named = [], []
    for i, name in enumerate(("base", "draw")):
        selected = draw == i
        asks = taken(tokens) & selected & (inside[f"covered_{i}"] == 0)
        cursor = inside[name]
        beats = cursor.component.beats
        cursor_in_range(harness, cursor, block.draw_sets, loaded)
        outstanding.append(harness.count(Mux(asks, beats, 0), block.returned[i]))
        named.append(harness.count(taken(tokens) & selected, block.returned[i]))
        harness.always(
            inside[f"credits_{i}"] + inside[f"returned_before_{i}"] == CONFIG.fifo_beats - BURST_BEATS - outstanding[i],
            inside[f"returned_before_{i}"] == harness.past(block.returned[i]),
            outstanding[i] <= CONFIG.fifo_beats,
            (inside[f"covered_{i}"] + named[i])[:16] == outstanding[i],
            implies(loaded, aligned(cursor.component.address, CONFIG)),
            implies(loaded, aligned(cursor["next_address"], CONFIG)),
            # The first beat of a burst that is needed requests the burst of the cursor.
            implies(
                harness.past(asks),
                bursts.valid
                & (bursts.payload.stream == i)
                & (bursts.payload.address == harness.past(cursor.component.address))
                & (bursts.payload.beats == harness.past(beats)),
            ),
        )
    payload = bursts.payload
    harness.always(
        stable(harness, bursts),
        implies(bursts.valid, (payload.beats != 0) & (payload.beats <= BURST_BEATS) & aligned(payload.address, CONFIG)),
        implies(bursts.valid, offset_in_line(payload.address, CONFIG) + payload.beats <= BURST_BEATS),
        implies(harness.past(~block.enable) & ~harness.past(bursts.valid), ~bursts.valid),
        implies(bursts.valid, loaded),
    )
    return Requests(outstanding, named, tokens.valid & block.enable & ~tokens.ready)


def isolated_burst_generator(harness: ProofHarness) -> Requests:
    """Apply the rules with arbitrary tokens; a beat that leaves a FIFO was named by a token."""
    block = harness.block
    harness.hold(block.model, block.chunks)
    harness.assume(stable(harness, block.tokens))
    state = requests(harness, harness.inside)
    harness.assume(*(implies(block.returned[i], state.named[i] != 0) for i in (0, 1)))
    harness.always(*(named <= CONFIG.fifo_beats for named in state.named))
    return state


def burst_generator(harness: ProofHarness) -> None:
    """Bursts are requested when they are needed and when there is room."""
    state = isolated_burst_generator(harness)
    bursts = harness.block.bursts
    harness.cover(state.waits & (state.outstanding[0] > BURST_BEATS))
    harness.cover(bursts.valid & (bursts.payload.stream == 1) & (state.outstanding[0] != 0))


def burst_generator_full(harness: ProofHarness) -> None:
    """A consumer that takes nothing stops the burst generator, but only when the FIFO is full."""
    state = isolated_burst_generator(harness)
    block = harness.block
    harness.assume(
        block.bursts.ready, block.tokens.valid, block.tokens.payload.kind == Kind.BASE, ~Cat(block.returned).any()
    )
    harness.assume(
        block.model == 0, block.chunks == CONFIG.max_chunks, block.load == ~harness.past(1), block.enable == ~block.load
    )
    harness.cover(state.waits & (state.outstanding[0] > CONFIG.fifo_beats - BURST_BEATS))


def burst_generator_live(harness: ProofHarness) -> None:
    """No token waits for ever.

    Assumed: a burst is taken within FAIR cycles; while a beat that was named is in a FIFO, one beat leaves every FAIR
    cycles.
    """
    state = isolated_burst_generator(harness)
    waits = state.waits
    bursts, returned = harness.block.bursts, harness.block.returned
    left = state.named[0] + state.named[1]
    refused = bursts.valid & ~bursts.ready
    refused_for = harness.within(refused, FAIR)
    idle_for = harness.within((left != 0) & ~returned[0] & ~returned[1], FAIR)
    waited = harness.waiting(waits)
    most = 2 * CONFIG.fifo_beats
    harness.always(
        implies(waits, waited < (most + 1) * FAIR),
        # invariants: while the token waits, one beat leaves every FAIR cycles
        implies(waits & (left != 0), waited <= (most - left) * FAIR + idle_for),
        implies(waits & (left == 0), refused & (waited <= most * FAIR + refused_for)),
    )
    harness.cover(waited == FAIR - 1)


PROOFS = (
    Proof(
        "cursor",
        "bursts of 1 to 16 beats within 16-beat lines, without gap or overlap, set after set",
        lambda: StreamCursor(CONFIG),
        cursor,
        covers=12,
    ),
    Proof(
        "burst_generator",
        "bursts are stable; credits are exact and never negative; counts of covered beats are exact",
        lambda: BurstGenerator(CONFIG),
        burst_generator,
        covers=8,
    ),
    Proof(
        "burst_generator_full",
        "the block stops when there is no more room",
        lambda: BurstGenerator(CONFIG),
        burst_generator_full,
        covers=70,
    ),
    Proof(
        "burst_generator_live",
        "with a fair consumer no token waits for ever",
        lambda: BurstGenerator(CONFIG),
        burst_generator_live,
        covers=10,
    ),
)
