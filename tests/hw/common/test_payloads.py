"""The fields hold all legal values, and have no unused bit."""

from __future__ import annotations

from enum import Enum

import pytest
from amaranth.hdl import Shape

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import MAX_DIGITS, MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import Loss, Prox
from bitlane_hw.common import payloads

CONFIGS = [AcceleratorConfig(), AcceleratorConfig(256, 3, max_features=128, address_bits=32)]


def bits(most: int) -> int:
    """Return the width of an unsigned number up to `most`."""
    return most.bit_length()


def widths(layout) -> dict[str, int]:
    return {name: Shape.cast(field.shape).width for name, field in layout}


def signs(layout) -> set[str]:
    return {name for name, field in layout if Shape.cast(field.shape).signed}


@pytest.fixture(params=CONFIGS, ids=lambda config: f"{config.width}x{config.outputs}")
def config(request):
    return request.param


def test_settings(config):
    assert widths(payloads.settings_layout(config)) == {
        "chunks": bits(config.max_chunks),
        "last_lane": 5,
        "base_digits": bits(MAX_DIGITS),
        "draws": 1,
        "groups": bits(MAX_ROWS),
        "batch_groups": bits(MAX_ROWS),
        "batch_tail": bits(config.rows_per_beat),
        "epoch_tail": bits(config.rows_per_beat),
        "epochs": bits(MAX_EPOCHS),
        "staleness": 1,
        "weight_exponent": 4,
    }


def test_tokens(config):
    place = {
        "chunk": bits(config.max_chunks - 1),
        "output": bits(config.outputs - 1),
        "part": bits(config.chunk_beats - 1),
    }
    flags = ("first", "last_base", "last", "row_last", "batch_last", "epoch_last")
    assert widths(payloads.token_layout(config)) == {"kind": 2, **place, "phase": 2, **dict.fromkeys(flags, 1)}
    assert widths(payloads.model_layout(config, 64)) == {"words": 64, **place}
    assert [kind.value for kind in payloads.Kind] == [0, 1, 2, 3]


def test_digits(config):
    flags = dict.fromkeys(("bank", "draw", "first", "last_base", "row_last"), 1)
    found = widths(payloads.digit_layout(config))
    rows = config.outputs * config.rows_per_beat * 17
    assert found == {"words": config.width, "chunk": bits(config.max_chunks - 1), **flags, "end": 2, "rows": rows}
    row = {"word": 64, "draw": 1, "first": 1, "last_base": 1, "row_last": 1, "end": 17}
    assert widths(payloads.row_layout(config)) == row
    assert widths(payloads.request_layout(config)) == {"address": config.address_bits, "beats": 5}
    assert Shape.cast(payloads.digits_of_word).width == 64


def test_the_largest_dot_product_fits(config):
    """Samples of up to 2**32 units, weights of up to 2**23, all features; one bit less would not suffice."""
    dot = payloads.dots_layout(config)
    assert signs(dot) == {"dot1", "dot2"}
    largest = config.max_features << 32 + 23
    for name in ("dot1", "dot2"):
        width = widths(dot)[name]
        assert -(1 << width - 1) <= -largest < -(1 << width - 2)


@pytest.mark.parametrize(
    ("struct", "expected", "signed"),
    [
        (payloads.Scale, {"mantissa": 16, "exponent": 5}, set()),
        (
            payloads.ObjectiveSettings,
            {"loss": 2, "prox": 2, "low": 16, "high": 16, "unpenalized_intercept": 1},
            {"low", "high"},
        ),
        (payloads.GroupEnd, {"batch_last": 1, "epoch_last": 1}, set()),
        (payloads.RowEnd, {"label": 16, "present": 1}, {"label"}),
        (payloads.Predictions, {"z1": 24, "z2": 24, "end": 17}, {"z1", "z2"}),
        (payloads.Slopes, {"r1": 24, "r2": 24, "margin_cost": 26, "table_cost": 21, "end": 17}, {"r1", "r2"}),
        (payloads.ScaledGradients, {"total": 32, "difference": 32}, {"total", "difference"}),
        (payloads.Digit, {"low": 1, "high": 1}, set()),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_structures(struct, expected, signed):
    """The formats of `docs/design.md`."""
    layout = struct.as_shape() if hasattr(struct, "as_shape") else struct
    assert widths(layout) == expected
    assert signs(layout) == signed


@pytest.mark.parametrize("kind", [Loss, Prox])
def test_modes_fit(kind: type[Enum]):
    assert max(member.value for member in kind) < 4
