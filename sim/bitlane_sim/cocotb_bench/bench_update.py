"""The update stage, from coefficients to both copies of the model, against numpy."""

from __future__ import annotations

import random
from random import Random
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from bitlane.contract import CHUNK, COEFFICIENT, DIGIT_BITS, MASTER, MIN_ROW, SHRINK_SHIFTS, WEIGHT, WORD_BITS
from bitlane_hw.config import AcceleratorConfig
from bitlane_hw.gradient import GradientLanes, GradientPass
from bitlane_hw.payloads import Coefficients, settings_layout
from bitlane_hw.weights import Weights

CONFIG = AcceleratorConfig(max_features=128, row_buffer_words=128, fifo_words=64)
LATENCY = GradientPass.latency + GradientLanes.latency
Int64s = npt.NDArray[np.int64]


class UpdateStage(wiring.Component):
    """`GradientPass`, `GradientLanes` and `Weights`, wired as in the engine, with ports to load and look at the model.

    Members
    -------
    settings, coefficients, shrink, words, lane_mask, shrink_shift: In, as the stages' own.
    load, chunk, masters: In, a chunk written to both copies; `look`: In(1), read `chunk` of the masters too.
    master, published: Out, `chunk` of the masters and of the copy, one cycle later.
    first_published, epoch_done: Out(1), as `GradientLanes`'s published and epoch_done.
    clipped: Out, weights clipped.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "coefficients": In(stream.Signature(Coefficients, always_ready=True)),
                "shrink": In(1),
                "words": In(stream.Signature(WORD_BITS)),
                "lane_mask": In(CHUNK),
                "shrink_shift": In(1),
                "load": In(1),
                "look": In(1),
                "chunk": In(range(config.max_chunks)),
                "masters": In(MASTER.bits * CHUNK),
                "master": Out(MASTER.bits * CHUNK),
                "published": Out(WEIGHT.bits * CHUNK),
                "first_published": Out(1),
                "epoch_done": Out(1),
                "clipped": Out(range(CHUNK + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.gradient_pass = gradient_pass = GradientPass(self._config)
        m.submodules.lanes = lanes = GradientLanes(self._config)
        m.submodules.weights = weights = Weights(self._config)
        connect(m, flipped(self.coefficients), gradient_pass.coefficients)
        connect(m, flipped(self.words), gradient_pass.words)
        connect(m, gradient_pass.passes, lanes.passes)
        m.d.comb += [
            gradient_pass.settings.eq(self.settings),
            gradient_pass.shrink.eq(self.shrink),
            lanes.lane_mask.eq(self.lane_mask),
            lanes.shrink_shift.eq(self.shrink_shift),
            lanes.master.eq(weights.master),
            weights.write.eq(lanes.write | self.load),
            weights.publish.eq(lanes.publish | self.load),
            weights.write_address.eq(Mux(self.load, self.chunk, lanes.write_address)),
            weights.masters.eq(Mux(self.load, self.masters, lanes.updated)),
            weights.master_address.eq(Mux(self.look, self.chunk, lanes.read_address)),
            weights.published_address.eq(self.chunk),
            self.master.eq(weights.master),
            self.published.eq(weights.published),
            self.first_published.eq(lanes.published),
            self.epoch_done.eq(lanes.epoch_done),
            self.clipped.eq(lanes.clipped),
        ]
        return m


def rounded(x: int, n: int) -> int:
    return (x + (1 << n - 1)) >> n


def gradient(digits: Int64s, base_digits: int, total: int, difference: int) -> Int64s:
    """t [chunk, lane] of digits [chunk, digit, lane]: `docs/design.md`, Arithmetic."""
    plus = [rounded(3 * total, 2 * k + 4) for k in range(base_digits)] + [rounded(total, 2 * base_digits + 2)]
    minus = [rounded(total, 2 * k + 4) for k in range(base_digits)] + [rounded(difference, 2 * base_digits + 2)]
    count = digits.shape[1]
    high, low = digits >> 1, digits & 1
    terms = np.where(high == low, np.array(plus[:count])[:, None], np.array(minus[:count])[:, None])
    return (terms * (2 * high - 1)).sum(axis=1)


def pack(values: Int64s, bits: int) -> int:
    """Fields of some bits as one integer, the first in the low bits."""
    return sum((int(value) & ((1 << bits) - 1)) << bits * i for i, value in enumerate(values))


def unpack(word: int, bits: int) -> list[int]:
    fields = [word >> bits * i & ((1 << bits) - 1) for i in range(CHUNK)]
    return [field - (field >> bits - 1 << bits) for field in fields]


class Bench:
    """The stage, the row buffer in front of it, and the model as numpy has it."""

    def __init__(self, dut: Any, chosen: np.random.Generator):
        self.dut = dut
        self.chosen = chosen
        self.chunks = int(chosen.integers(1, CONFIG.max_chunks + 1))
        self.draws = int(chosen.integers(2))
        self.base_digits = int(chosen.integers(1 - self.draws, 6))
        self.digits = self.base_digits + self.draws
        self.shift = int(chosen.integers(2))
        self.features = CHUNK * self.chunks - int(chosen.integers(CHUNK))
        shape = (self.chunks, CHUNK)
        self.masters: Int64s = chosen.integers(MASTER.minimum, MASTER.maximum, shape, endpoint=True)
        self.masters >>= chosen.integers(0, 10, shape)
        self.published = self.masters >> (MASTER.bits - WEIGHT.bits)
        self.words: list[int] = []  # of rows begun, still to be taken
        self.clipped = 0
        self.seen = {"clipped": 0, "first_published": 0, "epoch_done": 0}

    async def start(self) -> None:
        dut = self.dut
        Clock(dut.clk, 10, unit="ns").start()
        geometry = {"chunks": self.chunks, "base_digits": self.base_digits, "draws": self.draws}
        dut.settings.value = settings_layout(CONFIG).const(geometry).as_bits()
        dut.lane_mask.value = (1 << (self.features - 1) % CHUNK + 1) - 1
        dut.shrink_shift.value = self.shift
        for name in ("coefficients_valid", "shrink", "load", "look", "words_valid"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        dut.load.value = 1
        for chunk in range(self.chunks):
            dut.chunk.value = chunk
            dut.masters.value = pack(self.masters[chunk], MASTER.bits)
            await RisingEdge(dut.clk)
        dut.load.value = 0
        cocotb.start_soon(self._buffer())
        cocotb.start_soon(self._watch())

    async def _buffer(self) -> None:
        """The row buffer: the next word is there, the cycle after one was taken."""
        dut = self.dut
        dut.words_valid.value = 1
        while True:
            dut.words_payload.value = self.words[0] if self.words else random.getrandbits(WORD_BITS)
            await RisingEdge(dut.clk)
            if dut.words_ready.value:
                self.words.pop(0)

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            for name in self.seen:
                self.seen[name] += int(getattr(self.dut, name).value)

    async def row(self, batch_last: bool, epoch_last: bool, spare: int) -> None:
        """A row through the stage and through numpy; returns when the next one may come."""
        dut, chosen = self.dut, self.chosen
        digits = chosen.integers(0, 4, (self.chunks, self.digits, CHUNK))
        size = int(chosen.integers(4, COEFFICIENT.bits))
        total, difference = (int(x) for x in chosen.integers(-(1 << size), 1 << size, 2))
        shrink = batch_last and bool(chosen.integers(2))
        self._apply(digits, total, difference, shrink, batch_last)

        self.words += [pack(digits[chunk, k], DIGIT_BITS) for chunk in range(self.chunks) for k in range(self.digits)]
        dut.coefficients_payload.value = Coefficients.const(
            {"total": total, "difference": difference, "batch_last": batch_last, "epoch_last": epoch_last}
        ).as_bits()
        dut.coefficients_valid.value = 1
        dut.shrink.value = shrink
        await RisingEdge(dut.clk)
        dut.coefficients_valid.value = 0
        dut.shrink.value = 0
        wait = max(self.chunks * self.digits, MIN_ROW) - 1 + spare
        if wait:
            await ClockCycles(dut.clk, wait)

    def _apply(self, digits: Int64s, total: int, difference: int, shrink: bool, batch_last: bool) -> None:
        t = gradient(digits, self.base_digits, total, difference)
        exact = self.masters - t - (self.masters >> SHRINK_SHIFTS[self.shift] if shrink else 0)
        member = np.arange(exact.size).reshape(exact.shape) < self.features
        exact = np.where(member, exact, self.masters)
        self.masters = np.clip(exact, MASTER.minimum, MASTER.maximum)
        self.clipped += int(np.count_nonzero(self.masters != exact))
        if batch_last:
            self.published = self.masters >> (MASTER.bits - WEIGHT.bits)

    async def check(self) -> None:
        """Both copies, chunk by chunk, when the last row is through."""
        dut = self.dut
        await ClockCycles(dut.clk, LATENCY + 2)
        dut.look.value = 1
        for chunk in range(self.chunks):
            dut.chunk.value = chunk
            await ClockCycles(dut.clk, 3)
            assert unpack(int(dut.master.value), MASTER.bits) == self.masters[chunk].tolist()
            assert unpack(int(dut.published.value), WEIGHT.bits) == self.published[chunk].tolist()
        dut.look.value = 0
        assert self.seen["clipped"] == self.clipped
        await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(attempt=range(20))
async def same_as_numpy(dut: Any, attempt: int) -> None:
    """Epochs of some batches, rows as close as they may come, then a little apart."""
    chosen = np.random.default_rng(random.getrandbits(64))  # cocotb has seeded it
    bench = Bench(dut, chosen)
    gaps = Random(random.getrandbits(64))
    await bench.start()
    batches = 0
    for epoch in range(4):
        rows, batch = int(chosen.integers(1, 30)), int(chosen.integers(1, 10))
        for row in range(rows):
            epoch_last = row == rows - 1
            batch_last = epoch_last or row % batch == batch - 1
            batches += batch_last
            await bench.row(batch_last, epoch_last, gaps.randint(0, 3) if epoch % 2 else 0)
            if epoch == 3 and not batch_last and gaps.random() < 0.2:
                await bench.check()  # within a batch: the copies differ
        await bench.check()
        assert bench.seen["epoch_done"] == epoch + 1
        assert bench.seen["first_published"] == batches
