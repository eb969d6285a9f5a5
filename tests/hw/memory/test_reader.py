"""The beats of the reader, in order, and every signal of its port, with a memory that stalls and fails."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from tests.helpers.run_shapes import RunShape, random_shape, settings
from tests.helpers.simulation import run
from tests.hw.memory.test_burst_generator import RegionPlacement, beat_addresses, random_placement

from bitlane_hw.memory.reader import Reader

OKAY = 0


class Memory:
    """Answer bursts, with the address of each beat as its data; check the status outputs of the reader.

    The bursts of each stream are answered in order. With `orderly` all are; otherwise the beats of both streams are
    mixed. While no burst is outstanding, beats from before a reset arrive now and then.
    """

    def __init__(
        self, rng: Random, dut: Reader, rows_per_beat: int, rates: tuple[float, float], errors: float, orderly: bool
    ):
        self.orderly = orderly
        self.rng, self.dut, self.beat, self.errors = rng, dut, 8 * rows_per_beat, errors
        self.address_rate, self.data_rate = rates
        self.waiting: deque[tuple[int, int, bool]] = deque()  # address, stream, last of its burst
        self.asked = 0
        self.response = OKAY

    def cycle(self, ctx: Any) -> None:
        """Drive the outputs of the memory in a cycle, and read those of the reader."""
        axi = self.dut.axi
        ready, valid = self.rng.random() < self.address_rate, bool(self.waiting) and self.rng.random() < self.data_rate
        assert ctx.get(self.dut.response) == self.response
        assert ctx.get(self.dut.idle) == (not self.waiting and not ctx.get(axi.arvalid))
        ctx.set(axi.arready, ready)
        stale = not self.waiting and self.rng.random() < 0.1
        ctx.set(axi.rvalid, valid or stale)
        if stale:
            for name in ("rdata", "rid", "rlast"):
                ctx.set(getattr(axi, name), self.rng.getrandbits(len(getattr(axi, name))))
        assert ctx.get(axi.rready) == 1 and ctx.get(self.dut.accepted) == valid
        bad = self.rng.choice((2, 3)) if self.rng.random() < self.errors else OKAY
        ctx.set(axi.rresp, bad)  # has no meaning while rvalid is low
        if valid:
            address, stream, last = next_beat = self.waiting[0]
            if not self.orderly and self.rng.random() < 0.5:
                address, stream, last = next_beat = next((b for b in self.waiting if b[1] != stream), next_beat)
            self.waiting.remove(next_beat)
            ctx.set(axi.rdata, address)
            ctx.set(axi.rid, stream)
            ctx.set(axi.rlast, last)
            self.response = bad or self.response
        if ready and ctx.get(axi.arvalid):
            assert 1 << ctx.get(axi.arsize) == self.beat and ctx.get(axi.arburst) == 1
            address, length, stream = ctx.get(axi.araddr), ctx.get(axi.arlen), ctx.get(axi.arid)
            assert length < 16
            for i in range(length + 1):
                self.waiting.append((address + i * self.beat, stream, i == length))
            self.asked += length + 1


def set_run(ctx: Any, dut: Reader, geometry: RunShape, placement: RegionPlacement) -> None:
    ctx.set(dut.settings, settings(geometry))
    ctx.set(dut.model, placement.model)
    ctx.set(dut.draw_sets, placement.sets)
    for i in range(2):
        region = {"address": placement.addresses[i], "stride": placement.strides[i], "beats": geometry.set_beats[i]}
        ctx.set(dut.regions[i], region)


@pytest.mark.parametrize("errors", [0.0, 0.1])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3)], ids=str)
@pytest.mark.parametrize(("rows_per_beat", "outputs", "table"), [(1, 1, False), (2, 3, False), (2, 3, True)])
@pytest.mark.parametrize("orderly", [True, False])
def test_beats(rows_per_beat, outputs, table, rates, errors, orderly, seed):
    rng = Random(seed)
    geometry = random_shape(rng, rows_per_beat, outputs, table_lanes=table)
    placement = random_placement(rng, geometry)
    dut = Reader(geometry.config)
    expected = beat_addresses(geometry, placement)
    got: tuple[list[int], list[int]] = ([], [])

    async def testbench(ctx: Any) -> None:
        memory = Memory(rng, dut, rows_per_beat, rates, errors, orderly)
        set_run(ctx, dut, geometry, placement)
        await ctx.tick().repeat(2)
        ctx.set(dut.load, 1)
        await ctx.tick()
        ctx.set(dut.load, 0)
        stopped, idle_cycles = 0, 0
        while [*map(len, got)] != [*map(len, expected)] and idle_cycles < 1000:
            idle_cycles += 1
            stopped = max(stopped - 1, 0) or (rng.randint(1, 100) if rng.random() < 0.01 else 0)
            ctx.set(dut.enable, not stopped)
            for beats, words in zip(dut.beats, got, strict=True):
                ready = rng.random() < 0.9
                ctx.set(beats.ready, ready)
                if ready and ctx.get(beats.valid):
                    words.append(ctx.get(beats.payload))
                    idle_cycles = 0
            memory.cycle(ctx)
            await ctx.tick()
        ctx.set(dut.enable, 1)
        for _ in range(80):  # no further beat
            memory.cycle(ctx)
            assert not any(ctx.get(beats.valid) for beats in dut.beats)
            await ctx.tick()
        assert memory.asked == sum(map(len, expected))
        assert ctx.get(dut.idle)

    run(dut, testbench)
    assert got == expected
