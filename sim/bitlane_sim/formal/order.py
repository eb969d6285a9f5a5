"""Proofs of what decides the order of the beats: the walker, the cursors and the requester."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane_hw.contract import BURST_BEATS, MAX_DIGITS
from bitlane_hw.payloads import Kind
from bitlane_hw.requester import Requester, StreamCursor
from bitlane_hw.walker import Walker

from .bench import Bench, implies
from .proof import CONFIG, Proof
from .rules import stable, taken


def valid_run(bench: Bench, settings: Any) -> None:
    """The settings are constant, and such that `Control` lets a run start."""
    digits = settings.base_digits + settings.draws
    bench.hold(settings)
    bench.assume(
        (settings.chunks != 0) & (settings.chunks <= CONFIG.max_chunks),
        (digits != 0) & (digits <= MAX_DIGITS),
        settings.groups != 0,
        settings.batch_groups != 0,
        settings.epochs != 0,
        implies(settings.staleness, settings.chunks <= CONFIG.max_chunks // 2),
    )


def walker_in_range(bench: Bench, inside: Any, settings: Any) -> None:
    """What holds of a walker's counters in every cycle."""
    digits = settings.base_digits + settings.draws
    bench.always(
        inside["chunk"] < settings.chunks,
        inside["digit"] < digits,
        inside["output"] < CONFIG.outputs,
        inside["group"] < settings.groups,
        inside["batch_group"] < settings.batch_groups,
        inside["batch_group"] <= inside["group"],
        inside["epoch"] <= settings.epochs,
        implies(inside["loading"], inside["label_due"] & (inside["epoch"] == 0)),
        implies(inside["loading"] | inside["label_due"], inside["digit"] == 0),
        implies(~inside["loading"], inside["part"] == 0),
        implies(~inside["loading"] & inside["label_due"], inside["chunk"] == 0),
        implies(~inside["loading"] & ~inside["label_due"], inside["output"] == 0),
        implies(inside["label_due"], inside["group"][:2] == 0),
        implies(inside["loading"], inside["group"] == 0),
        implies(inside["epoch"] == settings.epochs, inside["label_due"] & (inside["group"] == 0)),
    )


def walker() -> Bench:
    """Each token is the one that the layout puts after the last; the end comes, and is the end."""
    bench = Bench(Walker(CONFIG))
    settings, tokens, inside = bench.block.settings, bench.block.tokens, bench.inside
    token = tokens.payload
    valid_run(bench, settings)
    walker_in_range(bench, inside, settings)
    bench.always(stable(bench, tokens))

    step = taken(tokens)
    before = bench.ghost(token.shape(), "before")
    with bench.m.If(step):
        bench.m.d.sync += before.eq(token)
    begun = bench.ever(step)
    is_digit = token.kind.as_value()[1]
    was_digit = before.kind.as_value()[1]
    is_label, was_label = token.kind == Kind.LABEL, before.kind == Kind.LABEL
    is_model, was_model = token.kind == Kind.MODEL, before.kind == Kind.MODEL
    last_part = before.part == CONFIG.chunk_beats - 1
    last_chunk = before.chunk == settings.chunks - 1
    last_output = before.output == CONFIG.outputs - 1

    def after(condition: Any, *facts: Any) -> None:
        """These hold of a token that follows one of which the condition holds."""
        for fact in facts:
            bench.always(implies(begun & tokens.valid & condition, fact))

    bench.always(implies(~begun, tokens.valid & is_model & (Cat(token.chunk, token.output, token.part) == 0)))
    same_output, next_output = token.output == before.output, token.output == before.output + 1
    same_chunk, next_chunk = token.chunk == before.chunk, token.chunk == before.chunk + 1
    after(was_model & ~last_part, is_model, same_output, same_chunk, token.part == before.part + 1)
    after(was_model & last_part & ~last_chunk, is_model, same_output, next_chunk, token.part == 0)
    after(was_model & last_part & last_chunk & ~last_output, is_model, next_output, token.chunk == 0, token.part == 0)
    after(was_model & last_part & last_chunk & last_output, is_label, token.output == 0)
    after(was_label & ~last_output, is_label, next_output)
    begins = is_digit & token.first & (token.chunk == 0)
    after(was_label & last_output, begins, token.phase == 0)
    after(was_digit & ~before.last, is_digit, ~token.first, same_chunk, token.phase == before.phase)
    after(was_digit & before.last & ~before.row_last, is_digit, token.first, next_chunk, token.phase == before.phase)
    labels_again = before.epoch_last | (before.phase == 3)
    after(was_digit & before.row_last & labels_again, is_label, token.output == 0)
    after(was_digit & before.row_last & ~labels_again, begins, token.phase == before.phase + 1)

    # Places counted from what was taken, whatever the walker's own counters say.
    digit_taken = step & is_digit
    digit = bench.count(digit_taken, bits=5, clear=digit_taken & token.last)
    row_taken = digit_taken & token.row_last
    group = bench.count(row_taken, bits=24, clear=row_taken & token.epoch_last)
    batch_group = bench.count(row_taken, bits=24, clear=row_taken & token.batch_last)
    epoch = bench.count(row_taken & token.epoch_last, bits=17)
    counted = (("digit", digit), ("group", group), ("batch_group", batch_group), ("epoch", epoch))
    bench.always(*(inside[name] == value for name, value in counted))
    digits = settings.base_digits + settings.draws
    for flag, wanted in (
        (token.first, digit == 0),
        (token.last, digit == digits - 1),
        (token.last_base, (digit == settings.base_digits - 1) & (settings.base_digits != 0)),
        (token.kind == Kind.DRAW, settings.draws & (digit == digits - 1)),
        (token.row_last, (digit == digits - 1) & (token.chunk == settings.chunks - 1)),
        (token.epoch_last, group == settings.groups - 1),
        (token.batch_last, (group == settings.groups - 1) | (batch_group == settings.batch_groups - 1)),
        (token.phase, group[:2]),
    ):
        bench.always(implies(tokens.valid & is_digit, flag == wanted))

    # No deadlock: there is a token until the last epoch has ended, and each one that is taken comes nearer to that.
    names = ("part", "digit", "chunk", "output")
    place = Cat(*(inside[n] for n in names), ~inside["label_due"], inside["group"], inside["epoch"], ~inside["loading"])
    bench.always(
        tokens.valid == (inside["loading"] | (epoch != settings.epochs)),
        Mux(bench.past(step), place > bench.past(place), place >= bench.past(place)),
    )
    bench.cover(bench.ever(row_taken & token.epoch_last) & row_taken & ~token.batch_last)
    bench.cover(bench.ever(step) & ~tokens.valid)
    return bench


def valid_regions(bench: Bench, regions: Any, sets: Any) -> None:
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


def cursor() -> Bench:
    """Bursts that follow one another without a gap or overlap, and begin a new set where one ends."""
    bench = Bench(StreamCursor(CONFIG))
    block, inside, m = bench.block, bench.inside, bench.m
    region, first = block.region, block.first
    valid_regions(bench, [region], block.sets)
    bench.hold(first)
    bench.assume(aligned(first.address, CONFIG))
    loaded = bench.ever(block.load)
    bench.assume(implies(block.advance, loaded & ~block.load))
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
            last = index == block.sets - 1
            again = before_sets | last
            m.d.sync += [
                gone.eq(0),
                before_sets.eq(0),
                index.eq(Mux(again, 0, index + 1)),
                start.eq(Mux(again, region.address, start + region.stride)),
            ]
    following = Mux(before_sets | (index == block.sets - 1), region.address, start + region.stride)
    bench.always(
        implies(loaded, block.address == (start + gone * CONFIG.beat_bytes)[: CONFIG.address_bits]),
        implies(loaded, gone + block.beats <= size),
        implies(loaded & ~ends, place_in_burst(block.address, CONFIG) + block.beats == BURST_BEATS),
        # invariants
        implies(loaded, (gone + inside["remaining"] == size) & (gone < size)),
        implies(loaded, inside["next_address"] == following[: CONFIG.address_bits]),
        implies(loaded, inside["next_index"] == Mux(before_sets | (index == block.sets - 1), 0, index + 1)),
        implies(loaded, (index < block.sets) & aligned(start, CONFIG)),
    )
    bench.cover(loaded & (index == 2) & block.advance & ~ends)
    bench.cover(loaded & ~before_sets & (index == 0) & (block.sets == 2) & bench.ever(index == 1) & (gone != 0))
    return bench


def _requester() -> tuple[Bench, list[Any], list[Any], Any]:
    """A requester whose tokens and room come from anywhere; what is owed to each FIFO, what was named and has not left
    its FIFO, and whether the token waits.
    """
    bench = Bench(Requester(CONFIG))
    block, inside = bench.block, bench.inside
    tokens, bursts = block.tokens, block.bursts
    valid_regions(bench, list(block.regions), block.sets)
    bench.hold(block.model, block.chunks)
    bench.assume(aligned(block.model, CONFIG), (block.chunks != 0) & (block.chunks <= CONFIG.max_chunks))
    loaded = bench.ever(block.load)
    bench.assume(implies(block.enable, loaded & ~block.load), stable(bench, tokens))

    draw = tokens.payload.kind == Kind.DRAW
    owed, ahead = [], []
    for i, name in enumerate(("base", "draw")):
        mine = draw == i
        asks = taken(tokens) & mine & (inside[f"covered_{i}"] == 0)
        cursor = inside[name]
        beats = cursor.component.beats
        requested = Mux(asks, beats, 0)
        owed_i = bench.count(requested, block.returned[i])
        ahead_i = bench.count(taken(tokens) & mine, block.returned[i])
        bench.assume(implies(block.returned[i], owed_i != 0))
        bench.always(
            inside[f"credits_{i}"] == CONFIG.fifo_beats - owed_i,
            owed_i <= CONFIG.fifo_beats,
            (inside[f"covered_{i}"] + ahead_i)[:16] == owed_i,
            implies(loaded, (cursor["remaining"] != 0) & aligned(cursor.component.address, CONFIG)),
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
        owed.append(owed_i)
        ahead.append(ahead_i)
    payload = bursts.payload
    bench.always(
        stable(bench, bursts),
        implies(bursts.valid, (payload.beats != 0) & (payload.beats <= BURST_BEATS) & aligned(payload.address, CONFIG)),
        implies(bursts.valid, place_in_burst(payload.address, CONFIG) + payload.beats <= BURST_BEATS),
        implies(bench.past(~block.enable) & ~bench.past(bursts.valid), ~bursts.valid),
        implies(bursts.valid, loaded),
    )
    return bench, owed, ahead, tokens.valid & block.enable & ~tokens.ready


def requester() -> Bench:
    """Bursts for what is needed, when it is, and no more than there is room for."""
    bench, owed, _, waits = _requester()
    bench.cover((owed[0] > CONFIG.fifo_beats - BURST_BEATS) & waits)
    bench.cover(bench.block.bursts.valid & (bench.block.bursts.payload.stream == 1) & (owed[0] != 0))
    return bench


FAIR = 4  # cycles in which whatever the environment must do once is done


def requester_live() -> Bench:
    """No token waits for ever.

    Assumed: the burst port and the consumer are fair: a burst is taken within FAIR cycles, and while beats that were
    named have not left their FIFOs, one leaves every FAIR cycles.
    """
    bench, _, ahead, waits = _requester()
    bursts, returned = bench.block.bursts, bench.block.returned
    refused = bursts.valid & ~bursts.ready
    for i in (0, 1):
        bench.assume(implies(returned[i], ahead[i] != 0))
        bench.always(ahead[i] <= CONFIG.fifo_beats)
    left = ahead[0] + ahead[1]
    idle = (left != 0) & ~returned[0] & ~returned[1]
    bench.within(refused, FAIR)
    bench.within(idle, FAIR)
    waited = bench.waiting(waits)
    most = 2 * CONFIG.fifo_beats
    bench.always(
        implies(waits, waited <= (most + 1) * FAIR),
        # invariants: while the token waits, every FAIR cycles there is a beat less
        implies(waits & (left != 0), waited <= (most - left) * FAIR + bench.waiting(idle)),
        implies(waits & (left == 0), refused & (waited <= most * FAIR + bench.waiting(refused))),
        bench.waiting(idle) <= FAIR,
        bench.waiting(refused) <= FAIR,
    )
    bench.cover(waited == 8)
    return bench


PROOFS = (
    Proof("walker", "tokens in the layout's order, complete, stable; each comes nearer to the end", walker, 2, 60),
    Proof("cursor", "bursts of 1 to 16 beats within 16-beat bounds, no gap or overlap, set after set", cursor, 2, 12),
    Proof("requester", "stable bursts; credits exact, never negative; covered counts exact", requester, 2, 24),
    Proof("requester_live", "no token waits longer than a fair consumer makes it", requester_live, 2, 40),
)
