"""Testbench of the update stage, from scaled gradients to both copies of the model, against numpy."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import random
from collections.abc import Iterable
from random import Random
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time

from bitlane.contract.formats import BOUND, MASTER, SCALED_GRADIENT, SHRINK_SHIFT, WEIGHT
from bitlane.contract.latencies import BATCH_PAUSE
from bitlane.contract.layout import CHUNK, DIGIT_BITS, WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.payloads import GroupEnd, ScaledGradients, settings_layout
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.update import THRESHOLD_BITS, UpdateLanes

from .variant import chosen as chosen_config

CONFIG = chosen_config()
LATENCY = GradientPass.latency + UpdateLanes(CONFIG).latency
PERIOD = 10  # ns
CUT_BITS = MASTER.bits - WEIGHT.bits
Int64s = npt.NDArray[np.int64]


def now() -> int:
    """Return the number of the current cycle."""
    return round(get_sim_time("ns") / PERIOD)


def rounded(x: int, n: int) -> int:
    return (x + (1 << n - 1)) >> n


def gradient(digits: Int64s, base_digits: int, total: int, difference: int) -> Int64s:
    """Return t [chunk, lane] for a row's digits [chunk, digit, lane]: `docs/design.md`, Arithmetic."""
    plus = [rounded(3 * total, 2 * k + 4) for k in range(base_digits)] + [rounded(total, 2 * base_digits + 2)]
    minus = [rounded(total, 2 * k + 4) for k in range(base_digits)] + [rounded(difference, 2 * base_digits + 2)]
    count = digits.shape[1]
    high, low = digits >> 1, digits & 1
    terms = np.where(high == low, np.array(plus[:count])[:, None], np.array(minus[:count])[:, None])
    return (terms * (2 * high - 1)).sum(axis=1)


def pack(values: Iterable[int], bits: int) -> int:
    """Return fields of `bits` bits as one integer, the first in the low bits."""
    return sum((int(value) & ((1 << bits) - 1)) << bits * i for i, value in enumerate(values))


def unpack(word: int, bits: int) -> list[int]:
    fields = [word >> bits * i & ((1 << bits) - 1) for i in range(CHUNK)]
    return [field - (field >> bits - 1 << bits) for field in fields]


class UpdateBench:
    """The stage, a row buffer in front of it, and the model in numpy."""

    def __init__(self, dut: Any, chosen: np.random.Generator):
        self.dut = dut
        self.chosen = chosen
        self.staleness = int(chosen.integers(2))
        self.chunks = int(chosen.integers(1, CONFIG.max_chunks // (1 + self.staleness) + 1))
        self.draws = int(chosen.integers(2))
        self.base_digits = int(chosen.integers(1 - self.draws, 6))
        self.digits = self.base_digits + self.draws
        self.features = CHUNK * self.chunks - int(chosen.integers(CHUNK))
        self.unpenalized_intercept = int(chosen.integers(2))
        self.threshold = int(chosen.integers(1 << chosen.integers(1, THRESHOLD_BITS + 1)))
        ends = chosen.integers(BOUND.minimum, BOUND.maximum, 2, endpoint=True) >> chosen.integers(BOUND.bits)
        self.low, self.high = int(ends.min()), int(ends.max())
        shape = (self.chunks, CHUNK)
        self.masters: Int64s = chosen.integers(MASTER.minimum, MASTER.maximum, shape, endpoint=True)
        self.masters >>= chosen.integers(0, 10, shape)
        self.published = [self.masters >> CUT_BITS] * 2  # in each bank
        self.batches = 0
        self.beats: list[int] = []  # of started groups, not accepted yet
        self.clipped = 0
        self.seen = {"clipped": 0, "first_published": 0, "epoch_done": 0, "load_done": 0}
        self.publications: list[int] = []  # the cycles of expected publications

    async def start(self) -> None:
        dut = self.dut
        Clock(dut.clk, PERIOD, unit="ns").start()
        settings = {
            "chunks": self.chunks,
            "last_lane": (self.features - 1) % CHUNK,
            "base_digits": self.base_digits,
            "draws": self.draws,
            "staleness": self.staleness,
        }
        dut.settings.value = settings_layout(CONFIG).const(settings).as_bits()
        for name in ("low", "high"):
            getattr(dut, name).value = getattr(self, name) & ((1 << BOUND.bits) - 1)
        dut.unpenalized_intercept.value = self.unpenalized_intercept
        dut.threshold.value = self.threshold
        for name in ("start", "load", "look", "beats_valid"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 3)
        dut.rst.value = 0
        cocotb.start_soon(self._buffer())
        cocotb.start_soon(self._watch())
        await self._load()

    async def _load(self) -> None:
        dut = self.dut
        for chunk in range(self.chunks):
            dut.load.value = 1
            dut.load_chunk.value = chunk
            dut.loaded.value = pack(self.masters[chunk], MASTER.bits)
            await RisingEdge(dut.clk)
            dut.load.value = 0
            dut.loaded.value = 0
            await ClockCycles(dut.clk, 1 + int(self.chosen.integers(3)))
        await ClockCycles(dut.clk, LATENCY)
        assert self.seen["load_done"] == 1

    async def _buffer(self) -> None:
        """Act as the row buffer: offer the next beat in the cycle after a transfer."""
        dut = self.dut
        dut.beats_valid.value = 1
        while True:
            dut.beats_payload.value = self.beats[0] if self.beats else random.getrandbits(CONFIG.width)
            await RisingEdge(dut.clk)
            if dut.beats_ready.value:
                self.beats.pop(0)

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            for name in self.seen:
                self.seen[name] += int(getattr(self.dut, name).value)
            if self.dut.first_published.value:
                assert now() == self.publications.pop(0), "published early or late"

    async def group(self, batch_last: bool, epoch_last: bool, spare: int) -> None:
        """Run a group through the stage and through numpy. Return when the next group may start."""
        dut, chosen = self.dut, self.chosen
        digits = chosen.integers(0, 4, (CONFIG.rows_per_beat, self.chunks, self.digits, CHUNK))
        size = int(chosen.integers(4, SCALED_GRADIENT.bits))
        scaled_gradients = chosen.integers(-(1 << size), 1 << size, (CONFIG.rows_per_beat, 2))
        scaled_gradients[int(chosen.integers(CONFIG.rows_per_beat)) + 1 :] = 0  # missing rows
        prox = Prox(int(chosen.choice(list(Prox)))) if batch_last else Prox.NONE
        self._apply(digits, scaled_gradients, prox, batch_last)

        for chunk in range(self.chunks):
            for k in range(self.digits):
                words = [pack(row[chunk, k], DIGIT_BITS) for row in digits]
                self.beats.append(pack(words, WORD_BITS))
        for column, (total, difference) in enumerate(scaled_gradients.tolist()):
            payload = ScaledGradients.const({"total": total, "difference": difference})
            getattr(dut, f"scaled_gradients_{column}").value = payload.as_bits()
        end = {"batch_last": batch_last, "epoch_last": epoch_last}
        self._begin(1, GroupEnd.const(end).as_bits(), prox)
        if batch_last:
            self.publications.append(now() + 1 + LATENCY + self.digits - 1)
        await RisingEdge(dut.clk)
        self._begin(0, random.getrandbits(2), random.choice(list(Prox)))
        pause = BATCH_PAUSE * (batch_last and self.chunks == 1)
        wait = self.chunks * self.digits + pause - 1 + spare
        await ClockCycles(dut.clk, wait)

    def _begin(self, start: int, end: int, prox: Prox) -> None:
        self.dut.start.value = start
        self.dut.end.value = end
        self.dut.prox.value = int(prox)

    def _apply(self, digits: Int64s, scaled_gradients: Int64s, prox: Prox, batch_last: bool) -> None:
        rows = zip(digits, scaled_gradients.tolist(), strict=True)
        exact = self.masters - sum(gradient(row, self.base_digits, *pair) for row, pair in rows)
        number = np.arange(exact.size).reshape(exact.shape)
        clipped = np.clip(exact, MASTER.minimum, MASTER.maximum)
        clips = (clipped != exact) & (number < self.features)
        spared = clips | (number >= self.features - self.unpenalized_intercept)
        self.masters = np.where(
            number < self.features, np.where(spared, clipped, self._prox(exact, prox)), self.masters
        )
        self.clipped += int(np.count_nonzero(clips))
        if batch_last:
            bank = self.staleness and 1 - self.batches % 2
            self.published[bank] = self.masters >> CUT_BITS
            self.batches += 1

    def _prox(self, exact: Int64s, prox: Prox) -> Int64s:
        unit = MASTER.fraction - BOUND.fraction
        if prox == Prox.L2:
            return exact - (exact >> SHRINK_SHIFT)
        if prox == Prox.L1:
            return np.sign(exact) * np.maximum(np.abs(exact) - self.threshold, 0)
        if prox == Prox.BOX:
            over, under = exact >> unit >= self.high, exact >> unit < self.low
            return np.where(over, self.high << unit, np.where(under, self.low << unit, exact))
        return exact

    async def check(self) -> None:
        """Compare both copies chunk by chunk after the last group."""
        dut = self.dut
        await ClockCycles(dut.clk, LATENCY + 2)
        dut.look.value = 1
        for chunk in range(self.chunks):
            for bank in range(1 + self.staleness):
                dut.chunk.value = chunk
                dut.bank.value = bank
                await ClockCycles(dut.clk, 3)
                assert unpack(int(dut.master.value), MASTER.bits) == self.masters[chunk].tolist()
                assert unpack(int(dut.published.value), WEIGHT.bits) == self.published[bank][chunk].tolist()
        dut.look.value = 0
        assert self.seen["clipped"] == self.clipped
        await RisingEdge(dut.clk)


@cocotb.test()
@cocotb.parametrize(attempt=range(20))
async def same_as_numpy(dut: Any, attempt: int) -> None:
    """Models of epochs with several batches are those of numpy; groups are as close as allowed, then further apart."""
    chosen = np.random.default_rng(random.getrandbits(64))  # cocotb has seeded it
    bench = UpdateBench(dut, chosen)
    gaps = Random(random.getrandbits(64))
    await bench.start()
    for epoch in range(4):
        groups, batch = int(chosen.integers(1, 30)), int(chosen.integers(1, 10))
        for group in range(groups):
            epoch_last = group == groups - 1
            batch_last = epoch_last or group % batch == batch - 1
            await bench.group(batch_last, epoch_last, gaps.randint(0, 3) if epoch % 2 else 0)
            if epoch == 3 and not batch_last and gaps.random() < 0.2:
                await bench.check()  # within a batch: the copies differ
        await bench.check()
        assert bench.seen["epoch_done"] == epoch + 1
        assert bench.seen["first_published"] == bench.batches
