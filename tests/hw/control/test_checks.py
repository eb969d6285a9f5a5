"""Each rule about register values, on both sides of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS
from bitlane_hw.control.checks import configuration_errors, encoding_errors

MAX_FEATURES, ROW_WORDS = 512, 64
CONFIGS = [
    AcceleratorConfig(width=width, outputs=outputs, max_features=MAX_FEATURES, row_buffer_beats=ROW_WORDS + 64)
    for width, outputs in ((64, 1), (64, 3), (128, 1), (512, 3), (512, 15))
]
TOP = (1 << 32) - 1
BEATS = ("base_address", "base_stride", "draw_address", "draw_stride")
MODELS = ("model_in", "model_out")
ADDRESSES = (*BEATS, *MODELS, "trace")
VALID = {
    "features": 100,
    "groups": 50,
    "base_digits": 3,
    "draws": 1,
    "draw_sets": 2,
    "epochs": 3,
    "batch_groups": 8,
    "batch_tail": 1,
    "epoch_tail": 1,
    "decay": 1 << 16,
    "base_address": 0x1000,
    "base_stride": 0,
    "draw_address": 0x2000,
    "draw_stride": 0x400,
    "model_in": 0x3000,
    "model_out": 0x4000,
    "trace": 0x5000,
}


def bounds(low: int, high: int) -> int:
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


GOOD: list[dict[str, int]] = [
    {},
    {"features": 1},
    {"features": 512},
    {"groups": 1},
    {"groups": (1 << 24) - 1},
    {"batch_groups": 1},
    {"batch_groups": (1 << 24) - 1},
    {"epochs": 1},
    {"epochs": (1 << 16) - 1},
    {"draw_sets": 1},
    {"draw_sets": TOP},
    {"base_digits": 0, "draws": 1},
    {"base_digits": 1, "draws": 0},
    {"base_digits": 16, "draws": 0},
    {"base_digits": 15, "draws": 1},
    {"features": 8 * 32, "base_digits": 7, "draws": 1},  # 64 words in a row
    {"features": 8 * 32, "base_digits": 8, "draws": 0},
    {"features": 4 * 32, "base_digits": 16, "draws": 0},
    dict.fromkeys(ADDRESSES, 0),
    {"base_address": 1 << 39, "draw_address": 1 << 39},
    {"base_stride": 1 << 31, "draw_stride": 1 << 31},
    dict.fromkeys((*MODELS, "trace"), 1 << 39),
    {"decay": 1 << 15},
    *({"loss": loss} for loss in range(3)),
    *({"prox": prox} for prox in range(4)),
    *({"bounds": bounds(*ends)} for ends in ((0, 0), (-1, 0), (-1, -1), (5, 6), (-(1 << 15), (1 << 15) - 1))),
    {"staleness": 1},
    {"staleness": 1, "features": MAX_FEATURES // 2},
    {"staleness": 0, "features": MAX_FEATURES // 2 + 1},
    {name: (1 << REGISTERS[name].bits) - 1 for name in ("step", "step_negative", "penalty_step", "phase")},
    {"unpenalized_intercept": 1, "snapshots": 1},
]
BAD: list[dict[str, int]] = [
    *({"features": features} for features in (0, 513, TOP)),
    *({name: count} for name in ("groups", "batch_groups") for count in (0, 1 << 24, TOP)),
    *({"epochs": epochs} for epochs in (0, 1 << 16, TOP)),
    {"draw_sets": 0},
    {"base_digits": 0, "draws": 0},
    {"features": 1, "base_digits": 17, "draws": 0},
    {"features": 1, "base_digits": 16, "draws": 1},
    {"features": 1, "base_digits": 31, "draws": 1},
    {"features": 5 * 32, "base_digits": 13, "draws": 0},  # 65 words in a row
    {"features": 5 * 32, "base_digits": 12, "draws": 1},
    {"features": 8 * 32 + 1, "base_digits": 8, "draws": 0},
    *({"decay": decay} for decay in (0, (1 << 15) - 1, (1 << 16) + 1)),
    {"loss": 3},
    *({"bounds": bounds(*ends)} for ends in ((1, 0), (0, -1), (-1, -2), ((1 << 15) - 1, -(1 << 15)))),
    {"staleness": 1, "features": MAX_FEATURES // 2 + 1},
    {"staleness": 1, "features": MAX_FEATURES},
    *({name: 1 << bit} for name in ADDRESSES if REGISTERS[name].bits == 64 for bit in (40, 63)),
]


TABLE = AcceleratorConfig(max_features=MAX_FEATURES, row_buffer_beats=ROW_WORDS + 64, level_slots=64)
TABLE_CASES: list[tuple[dict[str, int], bool]] = [
    *(({"base_digits": base_bits, "draws": 1}, base_bits in (1, 2, 3)) for base_bits in range(32)),
    *(({"base_digits": base_bits, "draws": 0}, False) for base_bits in range(4)),
    # 64 slots hold 16 chunks of 3 levels, 8 of 5, or 4 of 9
    *(({"base_digits": base_bits, "features": 32 * most}, True) for base_bits, most in ((1, 16), (2, 8), (3, 4))),
    *(({"base_digits": base_bits, "features": 32 * most + 1}, False) for base_bits, most in ((2, 8), (3, 4))),
]


RANDOM = AcceleratorConfig(max_features=MAX_FEATURES, row_buffer_beats=ROW_WORDS + 64, random_rounding=True)
RANDOM_CASES: list[tuple[dict[str, int], bool]] = [
    ({"cuts": model | scaled_gradient << 5}, max(model, scaled_gradient) <= 30)
    for model in (0, 1, 30, 31)
    for scaled_gradient in (0, 1, 30, 31)
]


def sized(width: int, outputs: int) -> Iterator[tuple[dict[str, int], bool]]:
    """Yield values that depend on the build, and whether they are legal: rows of a group, alignment of addresses."""
    rows_per_beat = width // 64
    record = next(words for words in (2, 4, 8, 16) if words > outputs)
    for batch in (1, rows_per_beat):
        for epoch in (1, rows_per_beat):
            yield {"batch_tail": batch, "epoch_tail": epoch}, True
    for tail in (0, rows_per_beat + 1, 15):
        yield {"batch_tail": tail}, False
        yield {"batch_tail": rows_per_beat, "epoch_tail": tail}, False
    for names, words in ((BEATS, rows_per_beat), (MODELS, 16), (("trace",), max(record, rows_per_beat))):
        for name in names:
            yield {name: VALID[name] + 8 * words}, True
            for bit in range((8 * words).bit_length() - 1):
                yield {name: VALID[name] + (1 << bit)}, False


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.width} bits, outputs {config.outputs}")
def test_each_rule_on_both_sides_of_its_limits(config: AcceleratorConfig) -> None:
    check(
        [*((good, True) for good in GOOD), *((bad, False) for bad in BAD), *sized(config.width, config.outputs)], config
    )


def test_rules_of_table_lanes() -> None:
    check(TABLE_CASES, TABLE)


def test_rules_of_random_rounding() -> None:
    check(RANDOM_CASES, RANDOM)


def test_addresses_of_every_port() -> None:
    """A beat of a port has 16 bytes, its part of a chunk 64, and a record 16."""
    config = AcceleratorConfig(512, 1, MAX_FEATURES, ROW_WORDS + 64, shards=2, ports=4)
    sizes = {"base_address": 16, "draw_address": 16, "model_in": 64, "model_out": 64}
    cases = [({name: size}, True) for name, size in (("base_stride", 16), ("draw_stride", 16), ("trace", 16))]
    cases += [({name: size // 2}, False) for name, size in (("base_stride", 16), ("draw_stride", 16), ("trace", 16))]
    for port in range(4):
        for name, size in sizes.items():
            register = f"{name}_{port}" if port else name
            cases += [({register: value}, True) for value in (size, 1 << 39)]
            cases += [({register: value}, False) for value in (size // 2, 1 << 40, 1 << 63)]
    cases.append(({"model_in_4": 1}, True))  # a port that the build does not have
    check(cases, config)


def test_rules_of_an_encoding() -> None:
    config = AcceleratorConfig(max_features=MAX_FEATURES, row_buffer_beats=ROW_WORDS + 64, encoder=3)
    valid = {"features": 100, "groups": 50, "encode_base": 1}
    addresses = ("source_address", "base_address", "draw_address")
    good: list[dict[str, int]] = [
        *({"features": features} for features in (1, MAX_FEATURES)),
        *({"groups": rows} for rows in (1, (1 << 24) - 1)),
        *({"base_digits": digits} for digits in (0, 7)),
        *({"value_type": kind} for kind in (0, 1, 2)),
        *({"encode_sets": sets, "encode_base": base} for sets in (1, 3) for base in (0, 1)),
        *({name: 1 << bit} for name in addresses for bit in (7, 39)),
        *({"draw_stride": 1 << bit} for bit in (7, 31)),
    ]
    bad: list[dict[str, int]] = [
        *({"features": features} for features in (0, MAX_FEATURES + 1, TOP)),
        *({"groups": rows} for rows in (0, 1 << 24, TOP)),
        *({"base_digits": digits} for digits in (8, 16, 31)),
        {"value_type": 3},
        *({"encode_sets": sets} for sets in (4, 8, 15)),
        {"encode_base": 0},
        *({name: 1 << bit} for name in addresses for bit in (0, 3, 6, 40, 63)),
        *({"draw_stride": 1 << bit} for bit in (0, 3, 6)),
    ]
    signals = {name: Signal(register.bits, name=name) for name, register in REGISTERS.items()}
    refused, m = Signal(), Module()
    m.d.comb += refused.eq(encoding_errors(SimpleNamespace(**signals), config).any())

    async def testbench(ctx: Any) -> None:
        for changes, legal in (*((good_one, True) for good_one in good), *((bad_one, False) for bad_one in bad)):
            values = {**valid, **changes}
            for name, signal in signals.items():
                fields = sum(values.get(field.name, 0) << field.low for field in REGISTERS[name].fields)
                ctx.set(signal, values.get(name, fields))
            assert ctx.get(refused) == (not legal), changes

    run(m, testbench, clocked=False)


def test_longest_row_with_table_lanes() -> None:
    """A row may have max_row_words words, but not one more."""
    legal = {"base_digits": 2, "features": 32}
    check([(legal, True)], TABLE, row_words=ROW_WORDS)
    check([(legal, False)], TABLE, row_words=ROW_WORDS + 1)


def check(cases: list[tuple[dict[str, int], bool]], config: AcceleratorConfig, row_words: int | None = None) -> None:
    """Check which register values are accepted.

    By default `row_words` is computed as for digit lanes; with table lanes a chunk has 3 words.
    """
    m = Module()
    signals = {name: Signal(register.bits, name=name) for name, register in REGISTERS.items()}
    registers = SimpleNamespace(**signals)
    chunks, words, refused = Signal(range(MAX_FEATURES // 32 + 1)), Signal(37), Signal()
    settings = SimpleNamespace(chunks=chunks, half_digit=registers.mode[0], base_digits=registers.mode[1:5])
    factor = 3 if config.table_lanes else registers.mode[:5] + registers.mode[5]
    m.d.comb += [
        chunks.eq((registers.features + 31) // 32),
        words.eq((registers.features + 31) // 32 * factor if row_words is None else row_words),
        refused.eq(configuration_errors(registers, config, settings, words).any()),
    ]

    async def testbench(ctx: Any) -> None:
        for changes, good in cases:
            values = {**VALID, **changes}
            for name, signal in signals.items():
                fields = sum(values.get(field.name, 0) << field.low for field in REGISTERS[name].fields)
                ctx.set(signal, values.get(name, fields))
            assert ctx.get(refused) == (not good), changes

    run(m, testbench, clocked=False)
