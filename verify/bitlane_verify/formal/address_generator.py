"""Proofs of the address generator: the order of the beats."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Cat, Mux, ValueLike
from amaranth.lib import data

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import MAX_DIGITS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.memory.address_generator import AddressGenerator

from .harness import Inside, ProofHarness, implies
from .proof import CONFIG, SHARDED, Proof
from .protocol import offered, stable, taken


def valid_run(harness: ProofHarness, settings: data.View, config: AcceleratorConfig = CONFIG) -> None:
    """Assume constant settings that the checks of the registers accept."""
    digits = settings.base_digits + settings.draws
    harness.hold(settings)
    harness.assume(
        (settings.chunks != 0) & (settings.chunks <= config.max_chunks),
        (digits != 0) & (digits <= MAX_DIGITS),
        settings.groups != 0,
        settings.batch_groups != 0,
        settings.epochs != 0,
        implies(settings.staleness, settings.chunks <= config.max_chunks // 2),
    )


def pass_settled(harness: ProofHarness, inside: Inside, settings: data.View) -> None:
    """Assume that a gradient pass has registered its last digit and last chunk, and whether it is the only one."""
    harness.settled(inside["last_digit"], settings.base_digits + settings.draws - 1)
    harness.settled(inside["last_chunk"], settings.chunks - 1)
    harness.settled(inside["one_chunk"], settings.chunks == 1)


def positions(inside: Inside, settings: data.View) -> dict[str, Any]:
    """Return the position of an address generator: its digit, group, group of the batch, and epoch."""
    left = {
        "digit": (settings.base_digits + settings.draws - 1, inside["digits_left"]),
        "group": (settings.groups - 2, inside["groups_left"]),
        "batch_group": (settings.batch_groups - 2, inside["batch_left"]),
        "epoch": (settings.epochs - 2, inside["epochs_left"]),
    }
    return {name: Mux(inside["loading"], 0, most - left_over) for name, (most, left_over) in left.items()}


def counters_in_range(
    harness: ProofHarness, inside: Inside, settings: data.View, config: AcceleratorConfig = CONFIG
) -> None:
    """Assert the invariants of the counters of an address generator."""
    digits = settings.base_digits + settings.draws
    for name, value in (
        ("last_chunk", settings.chunks - 1),
        ("penultimate_chunk", settings.chunks - 2),
        ("all_digits", digits - 1),
        ("all_groups", settings.groups - 2),
        ("all_batch_groups", settings.batch_groups - 2),
    ):
        harness.settled(inside[name], value)
    position = positions(inside, settings)
    harness.always(
        inside["chunk"] < settings.chunks,
        inside["output"] < config.outputs,
        *(
            (position[name] >= 0) & (position[name] < of)
            for name, of in (("digit", digits), ("group", settings.groups))
        ),
        (position["batch_group"] >= 0) & (position["batch_group"] < settings.batch_groups),
        position["batch_group"] <= position["group"],
        (position["epoch"] >= 0) & (position["epoch"] <= settings.epochs),
        implies(
            Mux(inside["loading"], inside["part"] != 0, ~inside["label_due"]),
            inside["chunk_last"] == (inside["chunk"] == settings.chunks - 1),
        ),
        inside["first_digit"] == (position["digit"] == 0),
        inside["group"] == position["group"][: len(inside["group"])],
        inside["running"] == (position["epoch"] != settings.epochs),
        implies(inside["loading"], inside["label_due"] & inside["running"] & (inside["group"] == 0)),
        implies(inside["label_due"], position["digit"] == 0),
        implies(~inside["loading"], inside["part"] == 0),
        implies(~inside["loading"] & inside["label_due"], inside["chunk"] == 0),
        implies(~inside["loading"] & ~inside["label_due"], inside["output"] == 0),
        implies(inside["label_due"], inside["group"] == 0),
        implies(~inside["running"], inside["label_due"] & (position["group"] == 0)),
    )


def address_generator(harness: ProofHarness, config: AcceleratorConfig = CONFIG) -> None:
    """Each token is the successor of the previous one in the layout. The last token ends the stream."""
    settings, tokens, inside = harness.block.settings, harness.block.tokens, harness.inside
    token = tokens.payload
    valid_run(harness, settings, config)
    counters_in_range(harness, inside, settings, config)
    harness.always(
        offered(harness, tokens.valid, tokens.ready, token.kind, token.chunk, token.output, token.part),
        implies(token.kind.as_value()[1], stable(harness, tokens)),  # the flags describe digits only
    )

    step = taken(tokens)
    before = harness.ghost(token.shape(), "before")
    with harness.m.If(step):
        harness.m.d.sync += before.eq(token)
    begun = harness.ever(step)
    is_digit = token.kind.as_value()[1]
    was_digit = before.kind.as_value()[1]
    is_label, was_label = token.kind == Kind.LABEL, before.kind == Kind.LABEL
    is_model, was_model = token.kind == Kind.MODEL, before.kind == Kind.MODEL
    last_part = before.part == config.chunk_beats - 1
    last_chunk = before.chunk == settings.chunks - 1
    last_output = before.output == config.outputs - 1

    def after(condition: ValueLike, *facts: ValueLike) -> None:
        """Assert the facts for each token whose predecessor satisfies the condition."""
        for fact in facts:
            harness.always(implies(begun & tokens.valid & condition, fact))

    harness.always(implies(~begun, tokens.valid & is_model & (Cat(token.chunk, token.output, token.part) == 0)))
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
    labels_again = before.epoch_last | before.phase.all()
    after(was_digit & before.row_last & labels_again, is_label, token.output == 0)
    after(was_digit & before.row_last & ~labels_again, begins, token.phase == before.phase + 1)

    # Positions counted from the tokens that were taken, independently of the counters of the block.
    digit_taken = step & is_digit
    digit = harness.count(digit_taken, bits=5, clear=digit_taken & token.last)
    row_taken = digit_taken & token.row_last
    group = harness.count(row_taken, bits=24, clear=row_taken & token.epoch_last)
    batch_group = harness.count(row_taken, bits=24, clear=row_taken & token.batch_last)
    epoch = harness.count(row_taken & token.epoch_last, bits=17)
    counted = (("digit", digit), ("group", group), ("batch_group", batch_group), ("epoch", epoch))
    position = positions(inside, settings)
    harness.always(*(position[name] == value for name, value in counted))
    digits = settings.base_digits + settings.draws
    for flag, expected in (
        (token.first, digit == 0),
        (token.last, digit == digits - 1),
        (token.last_base, (digit == settings.base_digits - 1) & (settings.base_digits != 0)),
        (token.kind == Kind.DRAW, settings.draws & (digit == digits - 1)),
        (token.row_last, (digit == digits - 1) & (token.chunk == settings.chunks - 1)),
        (token.epoch_last, group == settings.groups - 1),
        (token.batch_last, (group == settings.groups - 1) | (batch_group == settings.batch_groups - 1)),
        (token.phase, group[: len(token.phase)]),
    ):
        harness.always(implies(tokens.valid & is_digit, flag == expected))

    # No deadlock: there is a token until the end of the last epoch, and each transfer makes progress towards it.
    within_group = Cat(inside["part"], position["digit"][:5], inside["chunk"], inside["output"], ~inside["label_due"])
    progress = Cat(within_group, position["group"][:24], position["epoch"][:17], ~inside["loading"])
    harness.always(
        tokens.valid == (epoch != settings.epochs),
        Mux(harness.past(step), progress > harness.past(progress), progress >= harness.past(progress)),
    )
    harness.cover(harness.ever(row_taken & token.epoch_last) & row_taken & ~token.batch_last)
    harness.cover(harness.ever(step) & ~tokens.valid)
    harness.cover(row_taken & (token.kind == Kind.DRAW) & (token.chunk == 1) & (settings.base_digits == 1))


PROOFS = (
    Proof(
        "address_generator",
        "tokens in the order of the layout, complete and stable; each transfer makes progress",
        lambda: AddressGenerator(CONFIG),
        address_generator,
        covers=90,
    ),
    Proof(
        "address_generator_shards",
        "the same with shards: labels before every eighth group",
        lambda: AddressGenerator(SHARDED),
        partial(address_generator, config=SHARDED),
        covers=90,
    ),
)
