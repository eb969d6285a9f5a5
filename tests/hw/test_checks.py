"""Every rule about register values, on both sides of its limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Module, Signal

from bitlane_hw.checks import configuration_error
from bitlane_hw.config import AcceleratorConfig
from bitlane_hw.contract import REGISTERS

from .support import run

CONFIG = AcceleratorConfig(max_features=512, row_buffer_words=128)  # rows of 64 words
VALID = {
    "features": 100,
    "rows": 50,
    "base_digits": 3,
    "draws": 1,
    "sets": 2,
    "epochs": 3,
    "batch": 8,
    "base_address": 0x1008,
    "base_stride": 0,
    "draw_address": 0x2010,
    "draw_stride": 0x408,
    "model_in": 0x3080,
    "model_out": 0x4000,
    "trace": 0x5010,
    "decay": 1 << 16,
}
TOP = (1 << 32) - 1

GOOD: list[dict[str, int]] = [
    {},
    {"features": 1},
    {"features": 512},
    {"rows": 1},
    {"rows": (1 << 24) - 1},
    {"batch": 1},
    {"batch": (1 << 24) - 1},
    {"epochs": 1},
    {"epochs": (1 << 16) - 1},
    {"sets": 1},
    {"sets": TOP},
    {"base_digits": 0, "draws": 1},
    {"base_digits": 1, "draws": 0},
    {"base_digits": 16, "draws": 0},
    {"base_digits": 15, "draws": 1},
    {"features": 8 * 32, "base_digits": 7, "draws": 1},  # 64 words a row
    {"features": 8 * 32, "base_digits": 8, "draws": 0},
    {"features": 4 * 32, "base_digits": 16, "draws": 0},
    {"model_in": 0, "model_out": 0, "trace": 0, "base_address": 0, "draw_address": 0, "draw_stride": 0},
    {"decay": 1 << 15},
    {name: 1 << 39 for name in ("base_address", "base_stride", "draw_address", "draw_stride")},
    {name: 1 << 39 for name in ("model_in", "model_out", "trace")},
    {"step": 0x1FFFFF, "rate": 0x1FFFFF, "decay": 1 << 16, "phase": TOP, "shrink": 1, "snapshots": 1},
]
BAD: list[dict[str, int]] = [
    {"features": 0},
    {"features": 513},
    {"features": TOP},
    {"rows": 0},
    {"rows": 1 << 24},
    {"rows": TOP},
    {"batch": 0},
    {"batch": 1 << 24},
    {"batch": TOP},
    {"epochs": 0},
    {"epochs": 1 << 16},
    {"epochs": TOP},
    {"sets": 0},
    {"base_digits": 0, "draws": 0},
    {"features": 1, "base_digits": 17, "draws": 0},
    {"features": 1, "base_digits": 16, "draws": 1},
    {"features": 1, "base_digits": 255, "draws": 1},
    {"features": 5 * 32, "base_digits": 13, "draws": 0},  # 65 words a row
    {"features": 5 * 32, "base_digits": 12, "draws": 1},
    {"features": 8 * 32 + 1, "base_digits": 8, "draws": 0},
    *({name: VALID[name] + (1 << bit)} for name in ("base_address", "base_stride") for bit in range(3)),
    *({name: VALID[name] + (1 << bit)} for name in ("draw_address", "draw_stride") for bit in range(3)),
    *({name: VALID[name] + (1 << bit)} for name in ("model_in", "model_out") for bit in range(7)),
    {"trace": VALID["trace"] + 8},
    {"trace": VALID["trace"] + 1},
    {"decay": 0},
    {"decay": (1 << 15) - 1},
    {"decay": (1 << 16) + 1},
    *({name: 1 << bit} for name in ("base_address", "base_stride", "draw_address") for bit in (40, 63)),
    *({name: 1 << bit} for name in ("draw_stride", "model_in", "model_out", "trace") for bit in (40, 63)),
]


def test_rules() -> None:
    m = Module()
    signals = {name: Signal(register.bits, name=name) for name, register in REGISTERS.items()}
    refused, row_words = Signal(), Signal(37)
    registers = SimpleNamespace(**signals)
    m.d.comb += [
        row_words.eq((registers.features + 31) // 32 * (registers.base_digits + registers.draws)),
        refused.eq(configuration_error(registers, CONFIG, row_words)),
    ]

    async def testbench(ctx: Any) -> None:
        for changes, expected in [*((good, 0) for good in GOOD), *((bad, 1) for bad in BAD)]:
            for name, signal in signals.items():
                ctx.set(signal, {**VALID, **changes}.get(name, 0))
            assert ctx.get(refused) == expected, changes

    run(m, testbench, clocked=False)
