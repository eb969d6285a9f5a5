"""The walker: the order of the beats."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane_hw.config import AcceleratorConfig
from bitlane_hw.contract import MAX_DIGITS
from bitlane_hw.payloads import Kind
from bitlane_hw.walker import Walker

from .bench import Bench, implies
from .proof import CONFIG, Proof
from .rules import stable, taken


def valid_run(bench: Bench, settings: Any, config: AcceleratorConfig = CONFIG) -> None:
    """The settings are constant, and such that `Control` lets a run start."""
    digits = settings.base_digits + settings.draws
    bench.hold(settings)
    bench.assume(
        (settings.chunks != 0) & (settings.chunks <= config.max_chunks),
        (digits != 0) & (digits <= MAX_DIGITS),
        settings.groups != 0,
        settings.batch_groups != 0,
        settings.epochs != 0,
        implies(settings.staleness, settings.chunks <= config.max_chunks // 2),
    )


def walker_in_range(bench: Bench, inside: Any, settings: Any, config: AcceleratorConfig = CONFIG) -> None:
    """What holds of a walker's counters in every cycle."""
    digits = settings.base_digits + settings.draws
    for name, last in (
        ("last_chunk", settings.chunks - 1),
        ("last_digit", digits - 1),
        ("last_base", settings.base_digits - 1),
        ("last_group", settings.groups - 1),
        ("last_of_batch", settings.batch_groups - 1),
    ):
        bench.settled(inside[name], last)
    bench.always(
        inside["chunk"] < settings.chunks,
        inside["digit"] < digits,
        inside["output"] < config.outputs,
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


def walker(bench: Bench) -> None:
    """Each token is the one that the layout puts after the last; the end comes, and is the end."""
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


PROOFS = (
    Proof(
        "walker",
        "tokens in the layout's order, complete, stable; each comes nearer to the end",
        lambda: Walker(CONFIG),
        walker,
        covers=60,
    ),
)
