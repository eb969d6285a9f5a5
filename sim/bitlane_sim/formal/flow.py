"""From the reader's streams to the lanes, and again to the updates: the sequencer and the gradient pass."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Mux

from bitlane.contract.formats import LABEL
from bitlane.contract.latencies import ROW_GAP
from bitlane.contract.layout import LABELS_PER_WORD, MAX_DIGITS, WORD_BITS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.table_pass import TablePass
from bitlane_hw.memory.burst_generator import BASE, DRAW

from .bench import ProofHarness, implies, same
from .order import pass_settled, valid_run, walker_in_range
from .proof import CONFIG, FAIR, TABLE, Proof
from .rules import stable, taken


def _sequencer(bench: ProofHarness) -> Any:
    """Where each beat goes, and what it waits for; returns 1 where a token waits."""
    block, inside = bench.block, bench.inside
    settings, digits = block.settings, block.digits.payload
    tokens = inside["walker"].component.tokens
    token = tokens.payload
    valid_run(bench, settings)
    walker_in_range(bench, inside["walker"], settings)
    bench.assume(*(stable(bench, beats) for beats in block.beats))

    # Each beat that is taken is the token's, and goes to one place, as it is.
    is_draw, is_label = token.kind == Kind.DRAW, token.kind == Kind.LABEL
    is_digit = is_draw | (token.kind == Kind.BASE)
    base, draw = (taken(block.beats[i]) for i in (BASE, DRAW))
    words = Mux(is_draw, block.beats[DRAW].payload, block.beats[BASE].payload)
    bench.always(
        *(implies(beats.ready, beats.valid & block.enable & tokens.valid) for beats in block.beats),
        (base | draw) == taken(tokens),
        draw == (block.digits.valid & digits.draw),
        base == (block.model.valid | (block.digits.valid & ~digits.draw) | (taken(tokens) & is_label)),
        implies(taken(tokens), is_draw == draw),
        block.model.valid == (taken(tokens) & (token.kind == Kind.MODEL)),
        block.digits.valid == (taken(tokens) & is_digit),
        implies(block.model.valid, same(block.model.payload.words, words)),
        implies(block.digits.valid, same(digits.words, words) & (digits.chunk == token.chunk)),
    )
    output = bench.constant(range(CONFIG.outputs), "output")
    bench.assume(output < CONFIG.outputs)
    labels = bench.ghost(CONFIG.width, "labels")
    with bench.m.If(taken(tokens) & is_label & (token.output == output)):
        bench.m.d.sync += labels.eq(block.beats[BASE].payload)
    for i in range(CONFIG.outputs):
        label = labels.word_select(token.phase, WORD_BITS // LABELS_PER_WORD)[: LABEL.bits]
        bench.always(implies(output == i, same(digits.rows[i][0].label, label) & same(inside[f"labels_{i}"], labels)))

    # What digits wait for, as it is seen from outside.
    group_ends = block.digits.valid & digits.row_last
    batch_ends = group_ends & digits.end.batch_last
    unpublished = bench.count(batch_ends, block.published, bits=4)
    bench.assume(implies(block.published, unpublished != 0))
    epoch_open = bench.ghost(1, "epoch_open", init=1)
    with bench.m.If(batch_ends):
        bench.m.d.sync += epoch_open.eq(~digits.end.epoch_last)
    with bench.m.Elif(block.epoch_go):
        bench.m.d.sync += epoch_open.eq(1)
    longest = MAX_DIGITS + ROW_GAP
    since = bench.ghost(range(longest + 1), "since", init=longest)  # the last beat of a group; at most `longest`
    bench.m.d.sync += since.eq(Mux(group_ends, 1, Mux(since == longest, longest, since + 1)))
    distance = settings.base_digits + settings.draws + ROW_GAP
    loaded = bench.ever(block.loaded)
    bench.always(
        implies(block.digits.valid, loaded & epoch_open & (unpublished <= settings.staleness)),
        implies(group_ends, since >= distance),
        # invariants
        inside["load_wait"] == ~loaded,
        inside["unpublished"] == unpublished,
        unpublished <= settings.staleness + 1,
        inside["epoch_wait"] == ~epoch_open,
        inside["gap"] == Mux(since < distance, distance - since, 0),
        (since != 0) & (since <= longest),
    )
    waits = block.enable & tokens.valid & ~taken(tokens)
    bench.always((block.stall_model | block.stall_memory) == waits, ~(block.stall_model & block.stall_memory))
    return waits


def sequencer(bench: ProofHarness) -> None:
    """Every beat in the walker's order to its place, no digit before what it needs."""
    _sequencer(bench)
    block = bench.block
    bench.cover(block.model.valid & (block.model.payload.part == 3))


def sequencer_digits(bench: ProofHarness) -> None:
    """The same for a run whose models are small, as far as its digits."""
    _sequencer(bench)
    block, settings = bench.block, bench.block.settings
    bench.assume(settings.chunks == 1, settings.base_digits == 1, settings.draws == 1, settings.batch_groups == 1)
    bench.assume(block.enable, *(beats.valid for beats in block.beats), settings.groups == 2, settings.staleness == 0)
    bench.cover(bench.ever(block.digits.valid & block.digits.payload.row_last) & block.digits.valid)
    bench.cover(block.digits.payload.end.epoch_last & block.digits.valid & bench.ever(block.stall_model))


def sequencer_live(bench: ProofHarness) -> None:
    """No beat waits for ever.

    Assumed: a beat that is waited for comes within FAIR cycles, and so does what the digits wait for: the models are
    loaded, a batch is published, the epoch's results are safe.
    """
    waits = _sequencer(bench)
    block, inside = bench.block, bench.inside
    waited = bench.waiting(waits)
    kinds = (inside["load_wait"], inside["unpublished"] > block.settings.staleness, inside["epoch_wait"])
    held = block.stall_model
    for wait in kinds:
        for_ = bench.within(held & wait, FAIR)
        bench.always(implies(held & wait, waited == for_))
    absent_for = bench.within(block.stall_memory, FAIR)
    most = MAX_DIGITS + ROW_GAP
    bench.always(
        implies(waits, waited < most + FAIR),
        implies(held, waited + inside["gap"] < most),
        implies(block.stall_memory, waited <= most + absent_for),
    )
    bench.cover(block.model.valid & (bench.past(waited) == FAIR - 1))


def gradient(bench: ProofHarness) -> None:
    """A group's beats once each, without a gap, from `start` on, each with its place and the group's end."""
    block, inside = bench.block, bench.inside
    settings, out, beats = block.settings, block.passes.payload, block.beats
    valid_run(bench, settings)
    pass_settled(bench, inside, settings)
    digits = settings.base_digits + settings.draws
    going = bench.ghost(1, "going")  # the first beat is gone, the last not
    step = block.start | going
    digit = bench.ghost(5, "digit")
    chunk = bench.ghost(range(CONFIG.max_chunks), "chunk")
    last = digit == digits - 1
    tail = chunk == settings.chunks - 1
    with bench.m.If(step):
        bench.m.d.sync += [going.eq(~(last & tail)), digit.eq(Mux(last, 0, digit + 1))]
        with bench.m.If(last):
            bench.m.d.sync += chunk.eq(Mux(tail, 0, chunk + 1))
    bench.assume(implies(block.start, ~going))  # a group begins when the one before has ended
    end = bench.ghost(block.end.shape(), "end")
    prox = bench.ghost(block.prox.shape(), "prox")
    with bench.m.If(block.start):
        bench.m.d.sync += [end.eq(block.end), prox.eq(block.prox)]
    came = bench.past(step)
    bench.always(
        beats.ready == step,
        block.passes.valid == came,
        implies(came, Cat(out.rows[i].word for i in range(CONFIG.rows_per_beat)) == bench.past(beats.payload)),
        implies(came, (out.chunk == bench.past(chunk)) & (out.first == (bench.past(digit) == 0))),
        implies(came, (out.last == bench.past(last)) & (out.tail == bench.past(tail))),
        implies(came, same(out.end, end) & same(out.prox, prox)),
        # invariants
        (inside["busy"] == going) & (inside["digit"] == digit) & (inside["chunk"] == chunk),
        (digit < digits) & (chunk < settings.chunks),
        going == Cat(digit, chunk).any(),
    )
    bench.cover(block.passes.valid & out.tail & out.last & (out.chunk == 1) & (settings.base_digits == 2))
    bench.cover(block.start & bench.past(step) & bench.ever(block.passes.valid & out.tail))


def table_pass(bench: ProofHarness) -> None:
    """A group's beats once each from `start` on, a cycle between draws; the terms of each draw in their cycles."""
    block, inside = bench.block, bench.inside
    settings, out = block.settings, block.passes.payload
    valid_run(bench, settings, TABLE)
    has_base = settings.base_digits == 1
    bench.assume(settings.draws, settings.base_digits <= 1, has_base | settings.half)
    bench.settled(inside["last_chunk"], settings.chunks - 1)
    going = bench.ghost(1, "going")  # the first beat is gone, the last not
    word = bench.ghost(2, "word")  # of its chunk
    chunk = bench.ghost(range(TABLE.max_chunks), "chunk")
    starts_pair = settings.half & ~chunk[0]
    is_draw = word == starts_pair + has_base
    tail = chunk == settings.chunks - 1
    drew = bench.ghost(1, "drew")  # a cycle ago
    step = (block.start | going) & ~(is_draw & drew)
    draws = step & is_draw
    bench.m.d.sync += drew.eq(draws)
    with bench.m.If(step):
        bench.m.d.sync += [going.eq(~(is_draw & tail)), word.eq(Mux(is_draw, 0, word + 1))]
        with bench.m.If(is_draw):
            bench.m.d.sync += chunk.eq(Mux(tail, 0, chunk + 1))
    begun = bench.ever(Const(1))
    bench.assume(implies(block.start, begun & ~going))  # a group begins when the one before has ended
    end = bench.ghost(block.end.shape(), "end")
    with bench.m.If(block.start):
        bench.m.d.sync += end.eq(block.end)
    place = Cat(chunk, tail, end.as_value())
    drawn = [(draws, place)]  # in this cycle, a cycle ago, ...
    for _ in range(TablePass.latency + 1):
        drawn.append(tuple(bench.past(value) for value in drawn[-1]))
    (first, first_place), (second, second_place) = drawn[-2:]
    found = Cat(out.chunk, out.tail, out.end.as_value())
    bench.always(
        block.beats.ready == step,
        block.passes.valid == (first | second),
        (out.first == first) & (out.last == second),
        implies(first, same(found, first_place)),
        implies(second, same(found, second_place)),
        # invariants
        (inside["busy"] == going) & (inside["chunk"] == chunk) & (inside["draw_before_1"] == drew),
        implies(begun, inside["half"] == (starts_pair & (word == 0))),
        implies(begun, inside["base"] == (has_base & ~is_draw)),
        same(inside["end"], end),
        (word <= starts_pair + has_base) & (chunk < settings.chunks),
        going == Cat(word, chunk).any(),
    )
    bench.cover(block.passes.valid & out.tail & out.last & (out.chunk == 1) & ~has_base)
    bench.cover(block.start & bench.past(draws) & bench.ever(out.tail & out.last))


PROOFS = (
    Proof(
        "sequencer",
        "each beat in order to its one place; no digit before what it needs",
        lambda: Sequencer(CONFIG),
        sequencer,
        8,
    ),
    Proof(
        "sequencer_run",
        "the same, with a run that reaches its last digits",
        lambda: Sequencer(CONFIG),
        sequencer_digits,
        60,
    ),
    Proof(
        "sequencer_live",
        "no beat waits longer than memory and lanes make it",
        lambda: Sequencer(CONFIG),
        sequencer_live,
        10,
    ),
    Proof("gradient", "each beat of a group once, in order, without a gap", lambda: GradientPass(CONFIG), gradient, 10),
    Proof(
        "table_pass",
        "each beat of a group once, in order, a cycle between draws; each chunk's terms in their cycles",
        lambda: TablePass(TABLE),
        table_pass,
        14,
        depth=TablePass.latency + 3,
    ),
)
