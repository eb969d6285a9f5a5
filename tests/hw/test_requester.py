"""The requester's bursts: which words, in which order, how many at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from bitlane_hw.requester import Requester

from .support import CONFIG, DRAW, Run, run, some_run, tokens

WORD = 8
LIMIT = CONFIG.fifo_words


@dataclass(frozen=True)
class Place:
    """Where a run's words lie: one entry for each of the two streams."""

    model: int
    sets: int
    addresses: tuple[int, int]
    strides: tuple[int, int]


def some_place(rng: Random, geometry: Run) -> Place:
    """Regions at any multiple of 8, often just below a multiple of 4096, apart or one for all sets."""

    def address() -> int:
        return rng.randrange(1 << 24) * 4096 + WORD * rng.choice((0, rng.randrange(512), 511 - rng.randrange(20)))

    sets = rng.randint(1, 4)
    base_words, draw_words = geometry.set_words
    base_stride = rng.choice((0, WORD * rng.randint(base_words, 2 * base_words)))
    draw_stride = WORD * rng.randint(draw_words, 2 * draw_words)
    return Place(128 * rng.randrange(1 << 20), sets, (address(), address()), (base_stride, draw_stride))


def word_addresses(geometry: Run, place: Place) -> tuple[list[int], list[int]]:
    """The address of each word of both streams, in the order of the layout."""
    streams: tuple[list[int], list[int]] = ([], [])
    streams[0].extend(place.model + WORD * i for i in range(16 * geometry.chunks))
    for epoch in range(geometry.epochs):
        for i in range(2):
            start = place.addresses[i] + epoch % place.sets * place.strides[i]
            streams[i].extend(start + WORD * k for k in range(geometry.set_words[i]))
    return streams


def set_up(ctx: Any, dut: Requester, geometry: Run, place: Place) -> None:
    ctx.set(dut.model, place.model)
    ctx.set(dut.chunks, geometry.chunks)
    ctx.set(dut.sets, place.sets)
    for i in range(2):
        ctx.set(
            dut.regions[i],
            {"address": place.addresses[i], "stride": place.strides[i], "words": geometry.set_words[i]},
        )


class Bench:
    """Offers tokens, takes bursts, returns the words asked for after a while; remembers and checks all of it."""

    def __init__(self, rng: Random, geometry: Run, place: Place, token_rate: float, burst_rate: float, pop_rate: float):
        self.rng = rng
        self.geometry = geometry
        self.place = place
        self.rates = token_rate, burst_rate, pop_rate
        self.dut = Requester(CONFIG)
        self.waiting = deque(int(token.kind == DRAW) for token in tokens(geometry))
        self.bursts: list[tuple[int, int, int]] = []  # stream, address, words
        self.asked = [0, 0]
        self.returned = [0, 0]
        self.pending: Any = None  # a burst seen valid and not yet taken

    async def cycle(self, ctx: Any) -> None:
        dut, rng = self.dut, self.rng
        token_rate, burst_rate, pop_rate = self.rates
        offer = bool(self.waiting) and (rng.random() < token_rate or self.offered)
        ctx.set(dut.tokens.valid, offer)
        if offer:
            ctx.set(dut.tokens.payload.kind, DRAW if self.waiting[0] else 2)
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
            assert ctx.get(dut.bursts.valid), "a burst withdrawn"
        if ctx.get(dut.bursts.valid):
            payload = ctx.get(dut.bursts.payload)
            burst = (payload.stream, payload.address, payload.words)
            assert self.pending in (None, burst), "a burst changed while it waited"
            if self.pending is None:
                self.bursts.append(burst)
                self.asked[burst[0]] += burst[2]
            self.pending = None if ready else burst
            if ready:
                self.taken[burst[0]] += burst[2]
        for i in range(2):
            assert self.asked[i] - self.returned_before[i] <= LIMIT, "more words asked for than there is room"
        self.returned_before = list(self.returned)
        await ctx.tick()

    async def start(self, ctx: Any) -> None:
        self.offered = False
        self.taken = [0, 0]
        self.returned_before = [0, 0]
        set_up(ctx, self.dut, self.geometry, self.place)
        ctx.set(self.dut.load, 1)
        await ctx.tick()
        ctx.set(self.dut.load, 0)
        ctx.set(self.dut.enable, 1)


def check_bursts(bench: Bench) -> None:
    """The bursts cover each stream's words exactly, cut well, in the order of need."""
    expected = word_addresses(bench.geometry, bench.place)
    position = [0, 0]
    needed: tuple[list[int], list[int]] = ([], [])  # when each word of a stream is needed
    for time, token in enumerate(tokens(bench.geometry)):
        needed[token.kind == DRAW].append(time)
    ends = set()
    ends.add((0, 16 * bench.geometry.chunks))
    for epoch in range(bench.geometry.epochs):
        ends.add((0, 16 * bench.geometry.chunks + (epoch + 1) * bench.geometry.set_words[0]))
        ends.add((1, (epoch + 1) * bench.geometry.set_words[1]))
    times = []
    for i, address, words in bench.bursts:
        assert 1 <= words <= 16
        assert address // 4096 == (address + WORD * words - 1) // 4096
        begin, end = position[i], position[i] + words
        assert [address + WORD * k for k in range(words)] == expected[i][begin:end]
        assert not any(begin < at < end for stream, at in ends if stream == i), "a burst over a set's end"
        assert (i, end) in ends or (address + WORD * words) % 128 == 0, "a burst shorter than need be"
        times.append(needed[i][begin])
        position[i] = end
    assert times == sorted(times)
    assert position == [len(expected[0]), len(expected[1])]


@pytest.mark.parametrize(
    "rates", [(1, 1, 1), (1, 1, 0.3), (0.5, 0.1, 0.9), (0.9, 0.5, 0.05)], ids=["free", "room", "port", "pops"]
)
def test_bursts(seed: int, rates: tuple[float, float, float]) -> None:
    rng = Random(seed)
    for _ in range(6):
        geometry = some_run(rng, max_words=500)
        bench = Bench(rng, geometry, some_place(rng, geometry), *rates)

        async def testbench(ctx: Any, bench: Bench = bench) -> None:
            await bench.start(ctx)
            budget = 200 * (len(bench.waiting) + 10)
            while bench.waiting or bench.pending is not None or ctx.get(bench.dut.bursts.valid):
                await bench.cycle(ctx)
                budget -= 1
                assert budget, "no progress"

        run(bench.dut, testbench)
        check_bursts(bench)


def test_one_token_a_cycle(seed: int) -> None:
    """With room and a free port the requester never holds the walker up."""
    rng = Random(seed)
    geometry = some_run(rng, max_words=300)
    bench = Bench(rng, geometry, some_place(rng, geometry), 1, 1, 1)

    async def testbench(ctx: Any) -> None:
        await bench.start(ctx)
        for left in reversed(range(len(bench.waiting))):
            await bench.cycle(ctx)
            assert len(bench.waiting) == left

    run(bench.dut, testbench)


def test_enable_low_stops(seed: int) -> None:
    """No burst begins after `enable` has fallen; the one on the port stays until it is taken."""
    rng = Random(seed)
    for _ in range(20):
        geometry = some_run(rng, max_words=500)
        bench = Bench(rng, geometry, some_place(rng, geometry), 1, 0.4, rng.choice((0.1, 0.5)))
        before = rng.randrange(1, 100)

        async def testbench(ctx: Any, bench: Bench = bench, before: int = before) -> None:
            await bench.start(ctx)
            for _ in range(before):
                await bench.cycle(ctx)
            for _ in range(100):  # until a token waits for a burst of its own
                if bench.offered:
                    break
                await bench.cycle(ctx)
            ctx.set(bench.dut.enable, 0)
            await bench.cycle(ctx)
            count, waiting = len(bench.bursts), len(bench.waiting)
            for _ in range(60):
                await bench.cycle(ctx)
            assert len(bench.bursts) == count
            assert len(bench.waiting) == waiting
            assert not ctx.get(bench.dut.bursts.valid)

        run(bench.dut, testbench)
