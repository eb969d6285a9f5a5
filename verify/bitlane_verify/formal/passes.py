"""Proofs of the second pass over the beats of a group, with digit lanes and with table lanes."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux

from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.table_pass import TablePass

from .address_generator import pass_settled, valid_run
from .harness import ProofHarness, implies, same
from .proof import CONFIG, TABLE, Proof


def gradient(harness: ProofHarness) -> None:
    """The pass reads each beat of a group once, from `start` on and without a gap, and describes it correctly."""
    block, inside = harness.block, harness.inside
    settings, out, beats = block.settings, block.passes.payload, block.beats
    valid_run(harness, settings)
    pass_settled(harness, inside, settings)
    digits = settings.base_digits + settings.draws
    active = harness.ghost(1, "active")  # between the first and the last beat
    step = block.start | active
    digit = harness.ghost(5, "digit")
    chunk = harness.ghost(range(CONFIG.max_chunks), "chunk")
    last = digit == digits - 1
    is_last_chunk = chunk == settings.chunks - 1
    with harness.m.If(step):
        harness.m.d.sync += [active.eq(~(last & is_last_chunk)), digit.eq(Mux(last, 0, digit + 1))]
        with harness.m.If(last):
            harness.m.d.sync += chunk.eq(Mux(is_last_chunk, 0, chunk + 1))
    harness.assume(implies(block.start, ~active))  # a group starts after the end of the previous one
    end = harness.ghost(block.end.shape(), "end")
    prox = harness.ghost(block.prox.shape(), "prox")
    batch_begins = harness.ghost(1, "batch_begins", init=1)
    with harness.m.If(block.start):
        harness.m.d.sync += [end.eq(block.end), prox.eq(block.prox), batch_begins.eq(block.end.batch_last)]
    continues = block.start & (settings.chunks == 1) & ~batch_begins
    valid = harness.past(step)
    harness.always(
        beats.ready == step,
        block.passes.valid == valid,
        implies(valid, Cat(out.rows[i].word for i in range(CONFIG.rows_per_beat)) == harness.past(beats.payload)),
        implies(valid, (out.chunk == harness.past(chunk)) & (out.first == (harness.past(digit) == 0))),
        implies(valid, (out.last == harness.past(last)) & (out.last_chunk == harness.past(is_last_chunk))),
        implies(valid, same(out.end, end) & same(out.prox, prox)),
        implies(valid & out.first, out.continues == harness.past(continues)),
        # invariants
        (inside["batch_begins"] == batch_begins)
        & (inside["busy"] == active)
        & (inside["digit"] == digit)
        & (inside["chunk"] == chunk),
        (digit < digits) & (chunk < settings.chunks),
        active == Cat(digit, chunk).any(),
    )
    harness.cover(block.passes.valid & out.last_chunk & out.last & (out.chunk == 1) & (settings.base_digits == 2))
    harness.cover(block.start & harness.past(step) & harness.ever(block.passes.valid & out.last_chunk))


def table_pass(harness: ProofHarness) -> None:
    """The pass reads each beat of a group once, with a cycle between draws; the terms are valid in their cycles."""
    block, inside = harness.block, harness.inside
    settings, out = block.settings, block.passes.payload
    valid_run(harness, settings, TABLE)
    has_base = settings.base_digits == 1
    harness.assume(settings.draws, settings.base_digits <= 1, has_base | settings.half_digit)
    harness.settled(inside["last_chunk"], settings.chunks - 1)
    harness.settled(inside["one_chunk"], settings.chunks == 1)
    active = harness.ghost(1, "active")  # between the first and the last beat
    word = harness.ghost(2, "word")  # index in the chunk
    chunk = harness.ghost(range(TABLE.max_chunks), "chunk")
    starts_pair = settings.half_digit & ~chunk[0]
    is_draw = word == starts_pair + has_base
    is_last_chunk = chunk == settings.chunks - 1
    drew = harness.ghost(1, "drew")  # a draw word in the previous cycle
    step = (block.start | active) & ~(is_draw & drew)
    draws = step & is_draw
    harness.m.d.sync += drew.eq(draws)
    with harness.m.If(step):
        harness.m.d.sync += [active.eq(~(is_draw & is_last_chunk)), word.eq(Mux(is_draw, 0, word + 1))]
        with harness.m.If(is_draw):
            harness.m.d.sync += chunk.eq(Mux(is_last_chunk, 0, chunk + 1))
    begun = harness.ever(Const(1))
    harness.assume(implies(block.start, begun & ~active))  # a group starts after the end of the previous one
    end = harness.ghost(block.end.shape(), "end")
    batch_begins = harness.ghost(1, "batch_begins", init=1)
    continues = harness.ghost(1, "continues")
    with harness.m.If(block.start):
        harness.m.d.sync += [
            end.eq(block.end),
            batch_begins.eq(block.end.batch_last),
            continues.eq((settings.chunks == 1) & ~batch_begins),
        ]
    position = Cat(chunk, continues, is_last_chunk, end.as_value())
    drawn = [(draws, position)]  # in this cycle, in the previous one, ...
    for _ in range(TablePass.latency + 1):
        drawn.append(tuple(harness.past(value) for value in drawn[-1]))
    (first, first_position), (second, second_position) = drawn[-2:]
    result = Cat(out.chunk, out.continues, out.last_chunk, out.end.as_value())
    harness.always(
        block.beats.ready == step,
        block.passes.valid == (first | second),
        (out.first == first) & (out.last == second),
        implies(first, same(result, first_position)),
        implies(second, same(result, second_position)),
        # invariants
        (inside["busy"] == active) & (inside["chunk"] == chunk) & (inside["draw_before_1"] == drew),
        implies(begun, inside["half_digit"] == (starts_pair & (word == 0))),
        implies(begun, inside["base"] == (has_base & ~is_draw)),
        same(inside["end"], end) & (inside["batch_begins"] == batch_begins) & (inside["continues"] == continues),
        (word <= starts_pair + has_base) & (chunk < settings.chunks),
        active == Cat(word, chunk).any(),
    )
    harness.cover(block.passes.valid & out.last_chunk & out.last & (out.chunk == 1) & ~has_base)
    harness.cover(block.start & harness.past(draws) & harness.ever(out.last_chunk & out.last))


PROOFS = (
    Proof(
        "gradient",
        "each beat of a group is read once, in order, without a gap",
        lambda: GradientPass(CONFIG),
        gradient,
        10,
    ),
    Proof(
        "table_pass",
        "each beat of a group is read once, in order, with a cycle between draws; terms in their cycles",
        lambda: TablePass(TABLE),
        table_pass,
        14,
        depth=TablePass.latency + 3,
    ),
)
