"""Proofs of the address generator and of the sequencer in builds with table lanes."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, ValueLike
from amaranth.lib import data

from bitlane_hw.common.payloads import Kind
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.memory.address_generator import AddressGenerator
from bitlane_hw.memory.burst_generator import BASE, DRAW

from .address_generator import positions, valid_run
from .harness import Inside, ProofHarness, implies, same
from .proof import TABLE, Proof
from .protocol import offered, stable, taken

LANES = TABLE


def table_run(harness: ProofHarness, settings: data.View) -> Any:
    """Assume settings that the checks accept for table lanes; return the index of the last output, levels included."""
    valid_run(harness, settings, LANES)
    harness.assume(settings.draws, settings.base_digits <= 1, settings.base_digits[0] | settings.half_digit)
    return LANES.outputs + (1 << Cat(settings.half_digit, settings.base_digits[0]))


def table_counters(harness: ProofHarness, inside: Inside, settings: data.View, last_load: ValueLike) -> dict[str, Any]:
    """Assert the invariants of the counters of an address generator; return its position."""
    for name, value in (
        ("last_chunk", settings.chunks - 1),
        ("penultimate_chunk", settings.chunks - 2),
        ("all_digits", settings.base_digits + settings.draws - 1),
        ("all_groups", settings.groups - 2),
        ("all_batch_groups", settings.batch_groups - 2),
        ("last_load", last_load),
    ):
        harness.settled(inside[name], value)
    loading, label_due, half_due = inside["loading"], inside["label_due"], inside["half_digit_due"]
    position = positions(inside, settings)
    digit = position["digit"]
    harness.always(
        inside["chunk"] < settings.chunks,
        inside["output"] <= last_load,
        (digit >= 0) & (digit < settings.base_digits + settings.draws),
        (position["group"] >= 0) & (position["group"] < settings.groups),
        (position["batch_group"] >= 0) & (position["batch_group"] < settings.batch_groups),
        position["batch_group"] <= position["group"],
        (position["epoch"] >= 0) & (position["epoch"] <= settings.epochs),
        implies(
            Mux(loading, inside["part"] != 0, ~label_due),
            inside["chunk_last"] == (inside["chunk"] == settings.chunks - 1),
        ),
        inside["group"] == position["group"][:2],
        inside["running"] == (position["epoch"] != settings.epochs),
        implies(loading, label_due & inside["running"] & (inside["group"] == 0)),
        implies(label_due, (digit == 0) & (inside["group"] == 0)),
        implies(~loading, inside["part"] == 0),
        implies(~loading & label_due, (inside["chunk"] == 0) & (inside["output"] < LANES.outputs)),
        implies(~loading & ~label_due, inside["output"] == 0),
        implies(~inside["running"], label_due & (position["group"] == 0)),
        # Half digits precede the first digit of every second chunk.
        implies(~loading & half_due, settings.half_digit & ~inside["chunk"][0] & (digit == 0)),
        implies(~loading & label_due, half_due == settings.half_digit),
        implies(loading & (inside["part"] != 0), half_due == settings.half_digit),
    )
    return position


def _order(harness: ProofHarness) -> Any:
    """Each token follows the previous one: models, levels, then labels, half digits, base digits and draws."""
    settings, tokens, inside = harness.block.settings, harness.block.tokens, harness.inside
    token = tokens.payload
    last_load = table_run(harness, settings)
    position = table_counters(harness, inside, settings, last_load)
    harness.always(
        offered(harness, tokens.valid, tokens.ready, token.kind, token.chunk, token.output, token.part),
        implies(token.kind.as_value()[1], stable(harness, tokens)),
    )
    step = taken(tokens)
    before = harness.ghost(token.shape(), "before")
    with harness.m.If(step):
        harness.m.d.sync += before.eq(token)
    begun = harness.ever(step)
    kinds = {kind: (token.kind == kind, before.kind == kind) for kind in Kind}
    is_model, was_model = kinds[Kind.MODEL]
    is_label, was_label = kinds[Kind.LABEL]
    is_base, was_base = kinds[Kind.BASE]
    is_draw, was_draw = kinds[Kind.DRAW]
    is_digit = is_base | is_draw
    half = is_digit & token.half_digit
    was_half = was_base & before.half_digit
    first_digit = Mux(settings.base_digits[0], is_base, is_draw) & ~token.half_digit
    begins_chunk = Mux(settings.half_digit & ~token.chunk[0], is_base & token.half_digit, first_digit)
    last_part = before.part == LANES.chunk_beats - 1
    last_chunk = before.chunk == settings.chunks - 1
    last_output = before.output == LANES.outputs - 1
    row_ends = was_draw & before.row_last
    labels_again = before.epoch_last | (before.phase == 3)

    def after(condition: ValueLike, *facts: ValueLike) -> None:
        """Assert the facts for each token whose predecessor satisfies the condition."""
        harness.always(*(implies(begun & tokens.valid & condition, fact) for fact in facts))

    same_chunk, next_chunk = token.chunk == before.chunk, token.chunk == before.chunk + 1
    same_output, next_output = token.output == before.output, token.output == before.output + 1
    model_ends = was_model & last_part & last_chunk
    harness.always(
        implies(~begun, tokens.valid & is_model & (Cat(token.chunk, token.output, token.part) == 0)),
        implies(half, is_base & settings.half_digit & ~token.chunk[0]),
        implies(is_digit, token.row_last == (is_draw & (token.chunk == settings.chunks - 1))),
        implies(tokens.valid & is_digit, token.epoch_last == (position["group"] == settings.groups - 1)),
    )
    after(was_model & ~last_part, is_model, same_output, same_chunk, token.part == before.part + 1)
    after(was_model & last_part & ~last_chunk, is_model, same_output, next_chunk, token.part == 0)
    after(model_ends & (before.output != last_load), is_model, next_output, token.chunk == 0, token.part == 0)
    after(model_ends & (before.output == last_load), is_label, token.output == 0)
    after(was_label & ~last_output, is_label, next_output)
    after(was_label & last_output, begins_chunk, token.chunk == 0)
    after(was_half, first_digit, same_chunk, token.phase == before.phase)
    after(was_base & ~was_half, is_draw, ~token.half_digit, same_chunk, token.phase == before.phase)
    after(was_draw & ~before.row_last, begins_chunk, next_chunk, token.phase == before.phase)
    after(row_ends & labels_again, is_label, token.output == 0)
    after(row_ends & ~labels_again, begins_chunk, token.chunk == 0, token.phase == before.phase + 1)

    # Positions counted from the tokens, independently of the counters of the block.
    row_taken = step & is_draw & token.row_last
    group = harness.count(row_taken, bits=24, clear=row_taken & token.epoch_last)
    batch_group = harness.count(row_taken, bits=24, clear=row_taken & token.batch_last)
    epoch = harness.count(row_taken & token.epoch_last, bits=17)
    batch_ends = (group == settings.groups - 1) | (batch_group == settings.batch_groups - 1)
    counted = (("group", group), ("batch_group", batch_group), ("epoch", epoch))
    harness.always(
        *(position[name] == value for name, value in counted),
        implies(tokens.valid & is_digit, (token.batch_last == batch_ends) & (token.phase == group[:2])),
        tokens.valid == (epoch != settings.epochs),
        # invariants: what the last token was
        implies(begun & ~inside["loading"] & ~inside["label_due"] & (inside["chunk"][0]), was_base | was_draw),
        implies(
            begun & ~inside["loading"] & ~inside["label_due"] & settings.half_digit & ~inside["chunk"][0],
            Mux(
                position["digit"] != 0,
                was_base & ~before.half_digit & (before.chunk == inside["chunk"]),
                inside["half_digit_due"] == ~(was_half & (before.chunk == inside["chunk"])),
            ),
        ),
        implies(was_half, ~before.last),
    )
    return row_taken & harness.ever(step & half)


def table_order(harness: ProofHarness) -> None:
    """The order of the tokens, for every run."""
    _order(harness)
    token = harness.block.tokens.payload
    harness.cover((token.kind == Kind.MODEL) & (token.output == 0) & (token.part == 3))


def table_order_run(harness: ProofHarness) -> None:
    """The same properties, with a run of two chunks and half digits that reaches the end of its first group."""
    draws_last = _order(harness)
    settings = harness.block.settings
    harness.assume(settings.chunks == 2, settings.base_digits == 0, settings.half_digit, settings.groups == 2)
    harness.assume(settings.batch_groups == 1, harness.block.tokens.ready)
    harness.cover(draws_last)


def table_sequencer(harness: ProofHarness) -> None:
    """Each beat goes to its destination. Draw words are two cycles apart; digits wait for models, batches, epochs."""
    block, inside = harness.block, harness.inside
    settings, digits = block.settings, block.digits.payload
    tokens = inside["address_generator"].component.tokens
    token = tokens.payload
    last_load = table_run(harness, settings)
    table_counters(harness, inside["address_generator"], settings, last_load)
    harness.assume(*(stable(harness, beats) for beats in block.beats))
    is_draw = token.kind == Kind.DRAW
    is_digit = is_draw | (token.kind == Kind.BASE)
    base, draw = (taken(block.beats[i]) for i in (BASE, DRAW))
    words = Mux(is_draw, block.beats[DRAW].payload, block.beats[BASE].payload)
    draws = block.digits.valid & digits.draw
    batch_ends = block.digits.valid & digits.row_last & digits.end.batch_last
    unpublished = harness.count(batch_ends, block.published, bits=4)
    harness.assume(implies(block.published, unpublished != 0))
    epoch_open = harness.ghost(1, "epoch_open", init=1)
    with harness.m.If(batch_ends):
        harness.m.d.sync += epoch_open.eq(~digits.end.epoch_last)
    with harness.m.Elif(block.epoch_go):
        harness.m.d.sync += epoch_open.eq(1)
    loaded = harness.ever(block.loaded)
    waits = block.enable & tokens.valid & ~taken(tokens)
    harness.always(
        *(implies(beats.ready, beats.valid & block.enable & tokens.valid) for beats in block.beats),
        (base | draw) == taken(tokens),
        draw == draws,
        base
        == (block.model.valid | (block.digits.valid & ~digits.draw) | (taken(tokens) & (token.kind == Kind.LABEL))),
        block.model.valid == (taken(tokens) & (token.kind == Kind.MODEL)),
        block.digits.valid == (taken(tokens) & is_digit),
        implies(block.model.valid, same(block.model.payload.words, words)),
        implies(block.digits.valid, same(digits.words, words) & (digits.chunk == token.chunk)),
        implies(block.digits.valid, digits.half_digit == token.half_digit),
        implies(draws, ~harness.past(draws)),
        implies(block.digits.valid, loaded & epoch_open & (unpublished <= settings.staleness)),
        (block.stall_model | block.stall_memory) == waits,
        # invariants
        inside["load_wait"] == ~loaded,
        inside["unpublished"] == unpublished,
        unpublished <= settings.staleness + 1,
        inside["epoch_wait"] == ~epoch_open,
    )
    harness.cover(block.model.valid & (block.model.payload.part == 3))


PROOFS = (
    Proof(
        "table_order",
        "with table lanes: tokens in the order of the layout, levels and half digits included",
        lambda: AddressGenerator(LANES),
        table_order,
        covers=8,
    ),
    Proof(
        "table_order_run",
        "the same, with two chunks and half digits, up to the end of a group",
        lambda: AddressGenerator(LANES),
        table_order_run,
        covers=150,
    ),
    Proof(
        "table_sequencer",
        "with table lanes: each beat in order to one destination, draw words two cycles apart",
        lambda: Sequencer(LANES),
        table_sequencer,
        covers=8,
    ),
)
