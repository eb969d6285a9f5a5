"""The reader's beats: all of a run, in order, whatever the memory does, and every signal of its port."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from tests.helpers.blocks import Run, run, settings, some_run
from tests.hw.memory.test_burst_generator import Place, beat_addresses, some_place

from bitlane_hw.memory.reader import Reader

OKAY = 0


class Memory:
    """Answers bursts in order, a beat's data being its address; and checks what the reader says of them."""

    def __init__(self, rng: Random, dut: Reader, rows_per_beat: int, rates: tuple[float, float], errors: float):
        self.rng, self.dut, self.beat, self.errors = rng, dut, 8 * rows_per_beat, errors
        self.address_rate, self.data_rate = rates
        self.waiting: deque[tuple[int, int, bool]] = deque()  # address, stream, last of its burst
        self.asked = 0
        self.response = OKAY

    def cycle(self, ctx: Any) -> None:
        """Sets what the memory drives in a cycle, and looks at what the reader does in it."""
        axi = self.dut.axi
        ready, valid = self.rng.random() < self.address_rate, bool(self.waiting) and self.rng.random() < self.data_rate
        assert ctx.get(self.dut.response) == self.response
        assert ctx.get(self.dut.idle) == (not self.waiting and not ctx.get(axi.arvalid))
        ctx.set(axi.arready, ready)
        ctx.set(axi.rvalid, valid)
        assert ctx.get(axi.rready) == 1 and ctx.get(self.dut.accepted) == valid
        bad = self.rng.choice((2, 3)) if self.rng.random() < self.errors else OKAY
        ctx.set(axi.rresp, bad)  # without meaning where rvalid is low
        if valid:
            address, stream, last = self.waiting.popleft()
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


def set_run(ctx: Any, dut: Reader, geometry: Run, place: Place) -> None:
    ctx.set(dut.settings, settings(geometry))
    ctx.set(dut.model, place.model)
    ctx.set(dut.draw_sets, place.sets)
    for i in range(2):
        region = {"address": place.addresses[i], "stride": place.strides[i], "beats": geometry.set_beats[i]}
        ctx.set(dut.regions[i], region)


@pytest.mark.parametrize("errors", [0.0, 0.1])
@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3)], ids=str)
@pytest.mark.parametrize(("rows_per_beat", "outputs", "table"), [(1, 1, False), (2, 3, False), (2, 3, True)])
def test_beats(rows_per_beat, outputs, table, rates, errors, seed):
    rng = Random(seed)
    geometry = some_run(rng, rows_per_beat, outputs, table=table)
    place = some_place(rng, geometry)
    dut = Reader(geometry.config)
    expected = beat_addresses(geometry, place)
    got: tuple[list[int], list[int]] = ([], [])

    async def bench(ctx: Any) -> None:
        memory = Memory(rng, dut, rows_per_beat, rates, errors)
        set_run(ctx, dut, geometry, place)
        await ctx.tick()
        ctx.set(dut.load, 1)
        await ctx.tick()
        ctx.set(dut.load, 0)
        stopped, patience = 0, 0
        while [*map(len, got)] != [*map(len, expected)] and patience < 1000:
            patience += 1
            stopped = max(stopped - 1, 0) or (rng.randint(1, 100) if rng.random() < 0.01 else 0)
            ctx.set(dut.enable, not stopped)
            for beats, words in zip(dut.beats, got, strict=True):
                ready = rng.random() < 0.9
                ctx.set(beats.ready, ready)
                if ready and ctx.get(beats.valid):
                    words.append(ctx.get(beats.payload))
                    patience = 0
            memory.cycle(ctx)
            await ctx.tick()
        ctx.set(dut.enable, 1)
        for _ in range(80):  # nothing more comes
            memory.cycle(ctx)
            assert not any(ctx.get(beats.valid) for beats in dut.beats)
            await ctx.tick()
        assert memory.asked == sum(map(len, expected))
        assert ctx.get(dut.idle)

    run(dut, bench)
    assert got == expected
