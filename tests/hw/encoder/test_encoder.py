"""The encoder on a memory that stalls and fails: the regions in memory, its bursts, its ends, its cycles."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.helpers.encoder_cases import EncoderCase, random_case
from tests.helpers.simulation import BlockSimulator

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane_hw.encoder.encoder import Encoder
from bitlane_hw.encoder.source_reader import LINES_BITS

SETS = 2
CONFIG = AcceleratorConfig(max_features=128, row_buffer_beats=128, fifo_beats=128, address_bits=32, encoder=SETS)
LINE = 128  # bytes of a burst
OKAY = 0


class Memory:
    """A memory behind both ports, with random pauses and errors; it checks every burst."""

    def __init__(self, rng: Random, dut: Encoder, rate: float, errors: float, latency: int):
        self.rng, self.dut, self.rate, self.errors, self.latency = rng, dut, rate, errors, latency
        self.words: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.reads: deque[tuple[int, int, bool]] = deque()  # cycle, address, last
        self.addresses: deque[tuple[int, int]] = deque()  # of bursts whose beats are not complete
        self.beats: deque[int] = deque()
        self.responses = 0
        self.cycle_number = 0

    def store(self, address: int, words: Any) -> None:
        self.words.update({address + 8 * i: int(word) for i, word in enumerate(words)})

    def cycle(self, ctx: Any) -> None:
        """Drive the inputs of a cycle, and take what both sides agree on."""
        self._read(ctx, self.dut.read)
        self._write(ctx, self.dut.write)
        self.cycle_number += 1

    def _happens(self) -> bool:
        return self.rng.random() < self.rate

    def _bad(self) -> int:
        return self.rng.choice((2, 3)) if self.rng.random() < self.errors else OKAY

    def _read(self, ctx: Any, axi: Any) -> None:
        ready = self._happens()
        valid = bool(self.reads) and self.reads[0][0] <= self.cycle_number and self._happens()
        ctx.set(axi.arready, ready)
        ctx.set(axi.rvalid, valid)
        ctx.set(axi.rresp, self._bad() if valid else self.rng.getrandbits(2))
        if valid:
            _, address, last = self.reads.popleft()
            ctx.set(axi.rdata, self.words.get(address, self.rng.getrandbits(64)))
            ctx.set(axi.rlast, last)
        if ready and ctx.get(axi.arvalid):
            address = ctx.get(axi.araddr)
            assert address % LINE == 0 and ctx.get(axi.arlen) == 15
            assert address in self.words  # no burst lies completely behind the source region
            self.reads += [(self.cycle_number + self.latency, address + 8 * i, i == 15) for i in range(16)]

    def _write(self, ctx: Any, axi: Any) -> None:
        address_ready, ready = self._happens(), self._happens()
        ctx.set(axi.awready, address_ready)
        ctx.set(axi.wready, ready)
        answers = self.responses > 0 and self._happens()
        ctx.set(axi.bvalid, answers)
        ctx.set(axi.bresp, self._bad() if answers else self.rng.getrandbits(2))
        self.responses -= answers
        if address_ready and ctx.get(axi.awvalid):
            address, beats = ctx.get(axi.awaddr), ctx.get(axi.awlen) + 1
            assert address % LINE == 0 and beats <= 16
            self.addresses.append((address, beats))
        if ready and ctx.get(axi.wvalid):
            assert ctx.get(axi.wstrb) == 0xFF
            self.beats.append(ctx.get(axi.wdata))
        while self.addresses and len(self.beats) >= self.addresses[0][1]:
            address, beats = self.addresses.popleft()
            for i in range(beats):
                assert address + 8 * i not in self.written
                self.written[address + 8 * i] = self.beats.popleft()
            self.responses += 1


class EncoderRig:
    """An encoder with a memory."""

    def __init__(self) -> None:
        self.dut = Encoder(CONFIG)
        self._simulator = BlockSimulator(self.dut)

    def run(
        self, case: EncoderCase, rng: Random, *, rate: float = 1.0, errors: float = 0.0, spare: int = 0, stop: int = -1
    ) -> dict[str, Any]:
        """Run an encoding; it ends when it is done, after an error, or `stop` cycles after the start."""
        dut, found = self.dut, {}
        source, regions = 0x1000_0000, [0x2000_0000 + i * 0x100_0000 + LINE * rng.randrange(9) for i in range(SETS + 1)]

        async def testbench(ctx: Any) -> None:
            memory = Memory(rng, dut, rate, errors, latency=rng.choice((1, 60)))
            memory.store(source, case.source)
            ctx.set(dut.settings, case.settings)
            ctx.set(dut.source, source)
            ctx.set(dut.lines, -(-len(case.source) // 16) + spare)
            for i, address in enumerate(regions):
                ctx.set(dut.regions[i], address)
            ctx.set(dut.seed, case.seed)
            ctx.set(dut.load, 1)
            await ctx.tick().repeat(2)
            ctx.set(dut.load, 0)
            ctx.set(dut.enable, 1)
            stopped = False
            while not ctx.get(dut.done) and not (stopped and ctx.get(dut.reads.idle) and ctx.get(dut.writes.idle)):
                assert memory.cycle_number < 30_000
                memory.cycle(ctx)
                failed = ctx.get(dut.reads.response) or ctx.get(dut.writes.response) or ctx.get(dut.exhausted)
                if failed or memory.cycle_number == stop:
                    found["failed"], stopped = bool(failed), True
                    ctx.set(dut.enable, 0)
                await ctx.tick()
            found.update(cycles=memory.cycle_number, stopped=stopped, exhausted=ctx.get(dut.exhausted))
            assert not memory.addresses and not memory.beats and not memory.responses and not memory.reads
            found["regions"] = [
                [memory.written.pop(address + 8 * i) for i in range(len(case.regions[k]))]
                if k < len(case.regions) and not stopped
                else []
                for k, address in enumerate(regions)
            ]
            assert stopped or not memory.written  # not a word more

        self._simulator.run(testbench)
        return found


RIG = EncoderRig()


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_regions(rate: float, seed: int) -> None:
    for i in range(6):
        case, rng = random_case(seed + i, ENCODER_BASE_BITS, SETS), Random(seed + i)
        found = RIG.run(case, rng, rate=rate)
        assert not found["stopped"]
        assert found["regions"][: len(case.regions)] == [region.tolist() for region in case.regions]


def test_a_short_source_region_is_reported(seed: int) -> None:
    for i in range(3):
        case = random_case(seed + i, ENCODER_BASE_BITS, SETS, dtype=np.int16, rows=40)
        assert RIG.run(case, Random(seed + i), spare=-1)["failed"]


def test_a_source_region_of_the_largest_size_is_read() -> None:
    """All bits of `lines` count."""
    dut = Encoder(CONFIG)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.lines, 1 << LINES_BITS - 1)
        ctx.set(dut.load, 1)
        await ctx.tick()
        ctx.set(dut.load, 0)
        ctx.set(dut.enable, 1)
        await ctx.tick().repeat(4)
        assert ctx.get(dut.read.arvalid) and not ctx.get(dut.exhausted)

    BlockSimulator(dut).run(testbench)


def test_errors_and_stops(seed: int) -> None:
    """After an error response, or when it is stopped, it becomes idle; the next run has all bits."""
    for i in range(6):
        case, rng = random_case(seed + i, ENCODER_BASE_BITS, SETS, rows=20), Random(seed + i)
        if i % 2:
            assert RIG.run(case, rng, rate=0.7, stop=rng.randint(1, 600))["stopped"] is not None
        else:
            RIG.run(case, rng, rate=0.7, errors=0.05)
    test_regions(1.0, seed)
