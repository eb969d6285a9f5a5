"""The dot lanes of one row, with its weights from a model memory, against numpy."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import random
from random import Random
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from bitlane.contract.formats import WEIGHT
from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane_hw.common.payloads import dots_layout, row_layout
from bitlane_hw.datapath.dot import DotLanes

from .pauses import pauses
from .variant import chosen as chosen_config

CONFIG = chosen_config()
LAYOUT = row_layout(CONFIG)
WEIGHTS_BITS = WEIGHT.bits * CHUNK
Int64s = npt.NDArray[np.int64]


def pack(values: Int64s, bits: int) -> int:
    """Return fields of `bits` bits as one integer, the first in the low bits."""
    return sum((int(value) & ((1 << bits) - 1)) << bits * i for i, value in enumerate(values))


def row_words(digits: Int64s, base_digits: int, label: int) -> list[tuple[int, int]]:
    """Return a row's digits [chunk, digit, lane] as payloads of the port `digits`, each with its chunk."""
    chunks, count, _ = digits.shape
    return [
        (
            LAYOUT.const(
                {
                    "word": pack(digits[chunk, k], DIGIT_BITS),
                    "draw": k == base_digits,
                    "first": k == 0,
                    "last_base": k == base_digits - 1,
                    "row_last": chunk == chunks - 1 and k == count - 1,
                    "end": {"label": label, "present": 1},
                }
            ).as_bits(),
            chunk,
        )
        for chunk in range(chunks)
        for k in range(count)
    ]


def dot_products(digits: Int64s, base_digits: int, weights: Int64s) -> tuple[int, int]:
    """Return q.x + u1.x and q.x + u2.x of digits [chunk, digit, lane] and a model [chunk, lane]: exact, below 2**62."""
    weight = 4 ** np.arange(base_digits - 1, -1, -1, dtype=np.int64)
    q = np.einsum("ckl,k->cl", 2 * digits[:, :base_digits] - 3, weight)
    draw = digits[:, base_digits:]
    signs = [(2 * (draw >> bit & 1) - 1).sum(axis=1) for bit in (1, 0)]  # 0 without draws
    first, second = (int(((q + u) * weights).sum()) for u in signs)
    return first, second


async def cycle(dut: Any, word: int | None, weights: int) -> None:
    """Run a cycle with or without a word on the port; the weights of its chunk follow in the next cycle."""
    dut.digits_valid.value = word is not None
    dut.digits_payload.value = random.getrandbits(len(dut.digits_payload)) if word is None else word
    await RisingEdge(dut.clk)
    dut.weights.value = weights


async def collect(dut: Any, seen: list[tuple[int, int, int]]) -> None:
    """Collect the outputs: both dot products and the label."""
    layout = dots_layout(CONFIG)
    while True:
        await RisingEdge(dut.clk)
        if dut.dots_valid.value:
            dots = layout.from_bits(int(dut.dots_payload.value))
            seen.append((dots.dot1, dots.dot2, dots.end.label))


def random_model(chosen: np.random.Generator) -> Int64s:
    """Return weights [chunk, lane]: small, large and extreme ones."""
    shape = (CONFIG.max_chunks, CHUNK)
    model = chosen.integers(WEIGHT.minimum, WEIGHT.maximum, shape, endpoint=True) >> chosen.integers(0, 24, shape)
    extreme = chosen.choice([WEIGHT.minimum, WEIGHT.maximum], shape)
    return np.where(chosen.random(shape) < chosen.choice([0.0, 0.1, 1.0]), extreme, model)


@cocotb.test()
async def same_as_numpy(dut: Any) -> None:
    """Dot products of rows of all shapes, with gaps between words, are those of numpy."""
    chosen = np.random.default_rng(random.getrandbits(64))  # cocotb has seeded it
    Clock(dut.clk, 10, unit="ns").start()
    dut.digits_valid.value = 0
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    gaps = pauses(Random(random.getrandbits(64)))
    seen: list[tuple[int, int, int]] = []
    cocotb.start_soon(collect(dut, seen))
    for _ in range(30):
        model = random_model(chosen)
        weights = [pack(chunk, WEIGHT.bits) for chunk in model]
        draws = int(chosen.integers(2))
        base_digits = int(chosen.integers(1 - draws, 17 - draws))
        expected = []
        for _ in range(20):
            shape = (int(chosen.integers(1, CONFIG.max_chunks + 1)), base_digits + draws, CHUNK)
            digits = chosen.integers(0, 4, shape)
            label = int(chosen.integers(-(1 << 15), 1 << 15))
            expected.append((*dot_products(digits, base_digits, model[: shape[0]]), label))
            for word, chunk in row_words(digits, base_digits, label):
                while next(gaps):
                    await cycle(dut, None, random.getrandbits(WEIGHTS_BITS))
                await cycle(dut, word, weights[chunk])
        for _ in range(DotLanes.latency + 1):
            await cycle(dut, None, random.getrandbits(WEIGHTS_BITS))
        assert seen == expected
        seen.clear()
