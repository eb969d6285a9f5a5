"""The walker: the order of the beats."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import MAX_DIGITS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.memory.address_generator import AddressGenerator

from .bench import ProofHarness, implies
from .proof import CONFIG, Proof
from .rules import offered, stable, taken


def valid_run(bench: ProofHarness, settings: Any, config: AcceleratorConfig = CONFIG) -> None:
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


def pass_settled(bench: ProofHarness, inside: Any, settings: Any) -> None:
    """A gradient pass knows its last digit and chunk."""
    bench.settled(inside["last_digit"], settings.base_digits + settings.draws - 1)
    bench.settled(inside["last_chunk"], settings.chunks - 1)


def walker_places(inside: Any, settings: Any) -> dict[str, Any]:
    """Where a walker is: digits of the chunk, groups of the epoch and of the batch, and epochs that are behind it."""
    left = {
        "digit": (settings.base_digits + settings.draws - 1, inside["digits_left"]),
        "group": (settings.groups - 2, inside["groups_left"]),
        "batch_group": (settings.batch_groups - 2, inside["batch_left"]),
        "epoch": (settings.epochs - 2, inside["epochs_left"]),
    }
    return {name: Mux(inside["loading"], 0, whole - part) for name, (whole, part) in left.items()}


def walker_in_range(bench: ProofHarness, inside: Any, settings: Any, config: AcceleratorConfig = CONFIG) -> None:
    """What holds of a walker's counters in every cycle."""
    digits = settings.base_digits + settings.draws
    for name, value in (
        ("last_chunk", settings.chunks - 1),
        ("chunk_before", settings.chunks - 2),
        ("all_digits", digits - 1),
        ("all_groups", settings.groups - 2),
        ("all_of_batch", settings.batch_groups - 2),
    ):
        bench.settled(inside[name], value)
    place = walker_places(inside, settings)
    bench.always(
        inside["chunk"] < settings.chunks,
        inside["output"] < config.outputs,
        *((place[name] >= 0) & (place[name] < of) for name, of in (("digit", digits), ("group", settings.groups))),
        (place["batch_group"] >= 0) & (place["batch_group"] < settings.batch_groups),
        place["batch_group"] <= place["group"],
        (place["epoch"] >= 0) & (place["epoch"] <= settings.epochs),
        implies(
            Mux(inside["loading"], inside["part"] != 0, ~inside["label_due"]),
            inside["chunk_last"] == (inside["chunk"] == settings.chunks - 1),
        ),
        inside["first_digit"] == (place["digit"] == 0),
        inside["group"] == place["group"][:2],
        inside["running"] == (place["epoch"] != settings.epochs),
        implies(inside["loading"], inside["label_due"] & inside["running"] & (inside["group"] == 0)),
        implies(inside["label_due"], place["digit"] == 0),
        implies(~inside["loading"], inside["part"] == 0),
        implies(~inside["loading"] & inside["label_due"], inside["chunk"] == 0),
        implies(~inside["loading"] & ~inside["label_due"], inside["output"] == 0),
        implies(inside["label_due"], inside["group"] == 0),
        implies(~inside["running"], inside["label_due"] & (place["group"] == 0)),
    )


def walker(bench: ProofHarness) -> None:
    """Each token is the one that the layout puts after the last; the end comes, and is the end."""
    settings, tokens, inside = bench.block.settings, bench.block.tokens, bench.inside
    token = tokens.payload
    valid_run(bench, settings)
    walker_in_range(bench, inside, settings)
    bench.always(
        offered(bench, tokens.valid, tokens.ready, token.kind, token.chunk, token.output, token.part),
        implies(token.kind.as_value()[1], stable(bench, tokens)),  # the flags are about digits
    )

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
    place = walker_places(inside, settings)
    bench.always(*(place[name] == value for name, value in counted))
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
    within = Cat(inside["part"], place["digit"][:5], inside["chunk"], inside["output"], ~inside["label_due"])
    way = Cat(within, place["group"][:24], place["epoch"][:17], ~inside["loading"])
    bench.always(
        tokens.valid == (epoch != settings.epochs),
        Mux(bench.past(step), way > bench.past(way), way >= bench.past(way)),
    )
    bench.cover(bench.ever(row_taken & token.epoch_last) & row_taken & ~token.batch_last)
    bench.cover(bench.ever(step) & ~tokens.valid)


PROOFS = (
    Proof(
        "walker",
        "tokens in the layout's order, complete, stable; each comes nearer to the end",
        lambda: AddressGenerator(CONFIG),
        walker,
        covers=60,
    ),
)
