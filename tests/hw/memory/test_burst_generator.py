"""The bursts of the burst generator: their beats, their order, and how many are outstanding."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any

import pytest
from tests.helpers.run_shapes import DRAW, MODEL, RunShape, random_shape, small_config, tokens
from tests.helpers.simulation import run

from bitlane_hw.memory.burst_generator import BurstGenerator, StreamCursor

LIMIT = small_config().fifo_beats
BUILDS = pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (1, 3), (2, 3), (4, 1), (8, 3)])


@dataclass(frozen=True)
class RegionPlacement:
    """The position of the beats of a run in memory; pairs have an entry for each of the two streams."""

    model: int
    sets: int
    addresses: tuple[int, int]
    strides: tuple[int, int]


def random_placement(rng: Random, geometry: RunShape) -> RegionPlacement:
    """Return regions at any multiple of a beat, often just below a page boundary, shared by all sets or not."""
    beat = 8 * geometry.rows_per_beat
    page = 4096 // beat

    def address() -> int:
        return rng.randrange(1 << 24) * 4096 + beat * rng.choice((0, rng.randrange(page), page - rng.randint(1, 20)))

    sets = rng.randint(1, 4)
    base_beats, draw_beats = geometry.set_beats
    base_stride = rng.choice((0, beat * rng.randint(base_beats, 2 * base_beats)))
    draw_stride = beat * rng.randint(draw_beats, 2 * draw_beats)
    return RegionPlacement(128 * rng.randrange(1 << 20), sets, (address(), address()), (base_stride, draw_stride))


def beat_addresses(geometry: RunShape, placement: RegionPlacement) -> tuple[list[int], list[int]]:
    """Return the address of each beat of both streams, in the order of the layout."""
    beat = 8 * geometry.rows_per_beat
    streams: tuple[list[int], list[int]] = ([], [])
    streams[0].extend(placement.model + beat * i for i in range(geometry.model_beats))
    for epoch in range(geometry.epochs):
        for i in range(2):
            start = placement.addresses[i] + epoch % placement.sets * placement.strides[i]
            streams[i].extend(start + beat * k for k in range(geometry.set_beats[i]))
    return streams


def set_up(ctx: Any, dut: BurstGenerator, geometry: RunShape, placement: RegionPlacement) -> None:
    ctx.set(dut.model, placement.model)
    ctx.set(dut.chunks, geometry.chunks)
    if geometry.table_lanes:
        ctx.set(dut.level_chunks, geometry.chunks * geometry.levels)
    ctx.set(dut.draw_sets, placement.sets)
    for i in range(2):
        ctx.set(
            dut.regions[i],
            {"address": placement.addresses[i], "stride": placement.strides[i], "beats": geometry.set_beats[i]},
        )


class BurstGeneratorDriver:
    """Offer tokens, take bursts, return the credits of their beats later; record and check all of it."""

    def __init__(
        self,
        rng: Random,
        geometry: RunShape,
        placement: RegionPlacement,
        token_rate: float,
        burst_rate: float,
        pop_rate: float,
    ):
        self.rng = rng
        self.geometry = geometry
        self.placement = placement
        self.rates = token_rate, burst_rate, pop_rate
        self.dut = BurstGenerator(geometry.config)
        self.waiting = deque(token.kind for token in tokens(geometry))
        self.bursts: list[tuple[int, int, int]] = []  # stream, address, beats
        self.asked = [0, 0]
        self.returned = [0, 0]
        self.pending: Any = None  # a burst that is offered and not taken

    async def cycle(self, ctx: Any) -> None:
        dut, rng = self.dut, self.rng
        token_rate, burst_rate, pop_rate = self.rates
        offer = bool(self.waiting) and (rng.random() < token_rate or self.offered)
        ctx.set(dut.tokens.valid, offer)
        if offer:
            ctx.set(dut.tokens.payload.kind, self.waiting[0])
        ready = rng.random() < burst_rate
        ctx.set(dut.bursts.ready, ready)
        for i in range(2):
            gone = self.returned[i] < self.taken[i] and rng.random() < pop_rate
            ctx.set(dut.returned[i], gone)
            self.returned[i] += gone
        self.offered = offer and not ctx.get(dut.tokens.ready)
        if offer and not self.offered:
            self.waiting.popleft()

        if self.pending is not None:
            assert ctx.get(dut.bursts.valid), "the burst was withdrawn"
        if ctx.get(dut.bursts.valid):
            payload = ctx.get(dut.bursts.payload)
            burst = (payload.stream, payload.address, payload.beats)
            assert self.pending in (None, burst), "the burst changed before it was taken"
            if self.pending is None:
                self.bursts.append(burst)
                self.asked[burst[0]] += burst[2]
            self.pending = None if ready else burst
            if ready:
                self.taken[burst[0]] += burst[2]
        for i in range(2):
            assert self.asked[i] - self.returned_before[i] <= LIMIT, "more beats requested than there is room for"
        self.returned_before = list(self.returned)
        await ctx.tick()

    async def start(self, ctx: Any) -> None:
        self.offered = False
        self.taken = [0, 0]
        self.returned_before = [0, 0]
        set_up(ctx, self.dut, self.geometry, self.placement)
        await ctx.tick().repeat(2)  # the settings are valid two cycles earlier
        ctx.set(self.dut.load, 1)
        await ctx.tick()
        ctx.set(self.dut.load, 0)
        ctx.set(self.dut.enable, 1)


def check_bursts(driver: BurstGeneratorDriver) -> None:
    """Check that the bursts cover the beats of each stream exactly, with legal limits, in the order of need."""
    geometry = driver.geometry
    beat = 8 * geometry.rows_per_beat
    expected = beat_addresses(geometry, driver.placement)
    position = [0, 0]
    needed: tuple[list[int], list[int]] = ([], [])  # position of each beat of a stream in the order of need
    for time, token in enumerate(tokens(geometry)):
        needed[token.kind == DRAW].append(time)
    ends = {(0, geometry.model_beats)}
    for epoch in range(geometry.epochs):
        ends.add((0, geometry.model_beats + (epoch + 1) * geometry.set_beats[0]))
        ends.add((1, (epoch + 1) * geometry.set_beats[1]))
    times = []
    for i, address, beats in driver.bursts:
        assert 1 <= beats <= 16
        last = address + beat * (beats - 1)
        assert address // (16 * beat) == last // (16 * beat), "the burst crosses a multiple of 16 beats"
        assert address // 4096 == (last + beat - 1) // 4096
        begin, end = position[i], position[i] + beats
        assert [address + beat * k for k in range(beats)] == expected[i][begin:end]
        assert not any(begin < at < end for stream, at in ends if stream == i), "the burst crosses the end of a set"
        assert (i, end) in ends or (last + beat) % (16 * beat) == 0, "the burst is shorter than necessary"
        times.append(needed[i][begin])
        position[i] = end
    assert times == sorted(times)
    assert position == [len(expected[0]), len(expected[1])]


@BUILDS
@pytest.mark.parametrize(
    "rates", [(1, 1, 1), (1, 1, 0.3), (0.5, 0.1, 0.9), (0.9, 0.5, 0.1)], ids=["free", "room", "port", "pops"]
)
def test_bursts(seed: int, rates: tuple[float, float, float], rows_per_beat: int, outputs: int) -> None:
    rng = Random(seed)
    for table in (False, False, True):
        geometry = random_shape(rng, rows_per_beat, outputs, max_beats=300, table_lanes=table)
        driver = BurstGeneratorDriver(rng, geometry, random_placement(rng, geometry), *rates)

        async def testbench(ctx: Any, driver: BurstGeneratorDriver = driver) -> None:
            await driver.start(ctx)
            budget = 200 * (len(driver.waiting) + 10)
            while driver.waiting or driver.pending is not None or ctx.get(driver.dut.bursts.valid):
                await driver.cycle(ctx)
                budget -= 1
                assert budget, "no progress"

        run(driver.dut, testbench)
        check_bursts(driver)


@BUILDS
def test_one_token_a_cycle(seed: int, rows_per_beat: int, outputs: int) -> None:
    """With room and a free port the burst generator takes a token in every cycle."""
    rng = Random(seed)
    geometry = random_shape(rng, rows_per_beat, outputs, max_beats=300)
    driver = BurstGeneratorDriver(rng, geometry, random_placement(rng, geometry), 1, 1, 1)

    async def testbench(ctx: Any) -> None:
        await driver.start(ctx)
        for left in reversed(range(len(driver.waiting))):
            await driver.cycle(ctx)
            assert len(driver.waiting) == left

    run(driver.dut, testbench)


def test_all_bits_of_the_number_of_sets_count(seed: int) -> None:
    """With so many sets the second epoch reads the second one."""
    geometry = RunShape(chunks=1, base_digits=1, draws=1, groups=4, batch_groups=2, epochs=3)
    placement = RegionPlacement(0x7000, (1 << 31) + 1, (0x8000, 0x18000), (0x1000, 0x1000))
    driver = BurstGeneratorDriver(Random(seed), geometry, placement, 1, 1, 1)

    async def testbench(ctx: Any) -> None:
        await driver.start(ctx)
        while driver.waiting or driver.pending is not None or ctx.get(driver.dut.bursts.valid):
            await driver.cycle(ctx)

    run(driver.dut, testbench)
    check_bursts(driver)


def test_all_room_is_used(seed: int) -> None:
    """While no beat leaves, the bursts of a stream fill its FIFO."""
    geometry = RunShape(chunks=3, base_digits=1, draws=2, groups=40, batch_groups=4, epochs=1)
    driver = BurstGeneratorDriver(
        Random(seed), geometry, RegionPlacement(0x7000, 1, (0x8000, 0x18000), (0, 0)), 1, 1, 0
    )

    async def testbench(ctx: Any) -> None:
        await driver.start(ctx)
        for _ in range(4 * LIMIT):
            await driver.cycle(ctx)

    run(driver.dut, testbench)
    assert driver.asked[0] == LIMIT  # 48 beats of the model, and a burst of the base region


@pytest.mark.parametrize("rows_per_beat", [1, 2, 4, 8])
def test_models_are_read_in_full_bursts(seed: int, rows_per_beat: int) -> None:
    """From the start of a page on: all models are one region, in bursts of 16 beats except the last."""
    rng = Random(seed)
    geometry = RunShape(
        chunks=3, base_digits=1, draws=1, groups=2, batch_groups=1, epochs=1, rows_per_beat=rows_per_beat, outputs=3
    )
    driver = BurstGeneratorDriver(rng, geometry, RegionPlacement(0x7000, 1, (0x8000, 0x9000), (0, 0)), 1, 1, 1)

    async def testbench(ctx: Any) -> None:
        await driver.start(ctx)
        while driver.waiting and driver.waiting[0] == MODEL:
            await driver.cycle(ctx)
        ctx.set(driver.dut.tokens.valid, 0)
        driver.waiting.clear()
        await driver.cycle(ctx)

    run(driver.dut, testbench)
    beats = 3 * 3 * 16 // rows_per_beat
    starts = range(0, beats, 16)
    assert driver.bursts == [(0, 0x7000 + 8 * rows_per_beat * start, min(16, beats - start)) for start in starts]


def test_no_burst_starts_after_enable_falls(seed: int) -> None:
    """No burst starts after `enable` has fallen; a burst on the port stays until it is taken."""
    rng = Random(seed)
    for rows_per_beat in (1, 2, 4, 8) * 3:
        geometry = random_shape(rng, rows_per_beat, rng.choice((1, 3)), max_beats=500)
        driver = BurstGeneratorDriver(rng, geometry, random_placement(rng, geometry), 1, 0.4, rng.choice((0.1, 0.5)))
        before = rng.randrange(1, 100)

        async def testbench(ctx: Any, driver: BurstGeneratorDriver = driver, before: int = before) -> None:
            await driver.start(ctx)
            for _ in range(before):
                await driver.cycle(ctx)
            for _ in range(100):  # until a token waits for a burst
                if driver.offered:
                    break
                await driver.cycle(ctx)
            ctx.set(driver.dut.enable, 0)
            await driver.cycle(ctx)
            count, waiting = len(driver.bursts), len(driver.waiting)
            for _ in range(60):
                await driver.cycle(ctx)
            assert len(driver.bursts) == count
            assert len(driver.waiting) == waiting
            assert not ctx.get(driver.dut.bursts.valid)

        run(driver.dut, testbench)


def cut(address: int, beats: int, beat: int) -> Iterator[tuple[int, int]]:
    """Yield the bursts of a region, each of which ends at a multiple of 16 beats or with the region."""
    while beats:
        taken = min(beats, 16 - address // beat % 16)
        yield address, taken
        address, beats = address + taken * beat, beats - taken


@pytest.mark.parametrize("rows_per_beat", [1, 4])
def test_load_restarts_the_cursor(seed: int, rows_per_beat: int) -> None:
    """After a load, at any point of the stream, the bursts of `first` and of sets 0, 1, ... follow."""
    rng = Random(seed)
    beat = 8 * rows_per_beat
    dut = StreamCursor(small_config(rows_per_beat))

    async def testbench(ctx: Any) -> None:
        for _ in range(12):
            first = rng.randrange(1 << 20) * beat, rng.choice((0, 0, rng.randint(1, 40)))
            address, beats, sets = rng.randrange(1 << 20) * beat, rng.randint(1, 40), rng.randint(1, 4)
            stride = rng.randint(beats, 100) * beat
            ctx.set(dut.first, {"address": first[0], "stride": 0, "beats": first[1]})
            ctx.set(dut.region, {"address": address, "stride": stride, "beats": beats})
            ctx.set(dut.draw_sets, sets)
            await ctx.tick().repeat(2)
            ctx.set(dut.load, 1)
            await ctx.tick()
            ctx.set(dut.load, 0)
            expected = [*cut(*first, beat)]
            for index in cycle(range(sets)):
                expected.extend(cut(address + index * stride, beats, beat))
                if len(expected) > 30:
                    break
            for burst in expected[: rng.randint(5, 30)]:
                ctx.set(dut.advance, 0)
                for _ in range(rng.choice((0, 0, 2))):
                    await ctx.tick()
                assert (ctx.get(dut.address), ctx.get(dut.beats)) == burst
                ctx.set(dut.advance, 1)
                await ctx.tick()
            ctx.set(dut.advance, 0)

    run(dut, testbench)
