"""The write master against a memory with random pauses."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from tests.helpers.integer_model import pack, random_int
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import run

from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
SIZES = {1: 3, 2: 4, 4: 5, 8: 6}  # AWSIZE, by rows_per_beat


ORDERS = ("any", "both", "data first", "address first")


class Memory:
    """Accept addresses and beats at random, in an order that AXI allows; answer some cycles after a complete burst.

    `order`: "any": in any order. "both": an address and the first beat of its burst in the same cycle. "data first": an
    address after the last beat of its burst. "address first": a beat after the address of its burst.
    """

    def __init__(self, rng: Random, dut: Writer, rows_per_beat: int, rate: float, responses: dict[int, int]):
        self.rng = rng
        self.dut = dut
        self.rows_per_beat = rows_per_beat
        self.rate = rate
        self.order = "any"
        self.responses = responses  # by index of the burst; default: OKAY
        self.addresses: list[tuple[int, int]] = []  # address and number of beats
        self.data: list[list[int]] = [[]]  # beats of each burst; the last list is that of the next beat
        self.answered = 0
        self.complete = 0
        self.held: dict[str, Any] = {}

    @property
    def bursts(self) -> list[tuple[int, list[int]]]:
        """Addresses and beats of the bursts so far. Raises AssertionError if a length is wrong."""
        assert self.data[-1] == []
        assert [length for _, length in self.addresses] == [len(beats) for beats in self.data[:-1]]
        return [(address, beats) for (address, _), beats in zip(self.addresses, self.data, strict=False)]

    def _accepts(self, ctx: Any) -> tuple[bool, bool]:
        """Return AWREADY and WREADY of this cycle."""
        axi = self.dut.axi
        aw, w = (self.rng.random() < self.rate for _ in range(2))
        sent = len(self.data) - 1  # complete bursts
        if self.order == "both" and not self.data[-1]:
            aw = w = aw and bool(ctx.get(axi.awvalid)) and bool(ctx.get(axi.wvalid))
        elif self.order == "data first":
            aw = aw and sent > len(self.addresses)
        elif self.order == "address first":
            w = w and len(self.addresses) > sent
        return aw, w

    def cycle(self, ctx: Any) -> int:
        """Set the inputs of this cycle and check its outputs; return the response that is given in it."""
        axi = self.dut.axi
        aw, w = self._accepts(ctx)
        ctx.set(axi.awready, aw)
        ctx.set(axi.wready, w)
        b = self.rng.random() < self.rate and self.answered < min(len(self.addresses), len(self.data) - 1)
        response = self.responses.get(self.answered, OKAY) if b else OKAY
        ctx.set(axi.bvalid, b)
        ctx.set(axi.bresp, response)
        assert ctx.get(axi.bready)
        self.answered += b

        self._stable(ctx, "aw", aw, ("awaddr", "awlen", "awsize", "awburst", "awid"))
        self._stable(ctx, "w", w, ("wdata", "wstrb", "wlast"))
        offers = ctx.get(axi.awvalid), ctx.get(axi.wvalid)
        if offers[1]:
            assert len(self.data) - 1 <= len(self.addresses), "a beat precedes the address of the burst before its own"
            assert ctx.get(axi.wstrb) == (1 << 8 * self.rows_per_beat) - 1
        if offers[0]:
            assert len(self.addresses) <= len(self.data) - 1, "an address precedes the beats of the previous burst"
            assert (ctx.get(axi.awsize), ctx.get(axi.awburst)) == (SIZES[self.rows_per_beat], 1)
        if offers[1] and w:
            self.data[-1].append(ctx.get(axi.wdata))
            if ctx.get(axi.wlast):
                self.data.append([])
        if offers[0] and aw:
            self.addresses.append((ctx.get(axi.awaddr), ctx.get(axi.awlen) + 1))
        return response

    def _stable(self, ctx: Any, channel: str, ready: bool, payload: tuple[str, ...]) -> None:
        valid = ctx.get(getattr(self.dut.axi, f"{channel}valid"))
        seen = [ctx.get(getattr(self.dut.axi, name)) for name in payload]
        if channel in self.held:
            assert valid and seen == self.held.pop(channel), f"{channel} changed before it was taken"
        if valid and not ready:
            self.held[channel] = seen


def write(
    rng: Random,
    rows_per_beat: int,
    bursts: list[tuple[int, list[int]]],
    rate: float,
    responses: dict[int, int],
    order: str = "any",
) -> None:
    """Send all bursts through a writer; check the memory, `idle` and `response` in every cycle."""
    dut = Writer(small_config(rows_per_beat))
    memory = Memory(rng, dut, rows_per_beat, rate, responses)
    memory.order = order

    async def testbench(ctx: Any) -> None:
        latched = OKAY
        requests = deque(bursts)
        beats = deque(beat for _, burst in bursts for beat in burst)
        started = 0
        offered = False
        for _ in range(3000):
            offered = offered or (bool(requests) and rng.random() < 0.7)
            ctx.set(dut.requests.valid, offered)
            if offered:
                ctx.set(dut.requests.payload, {"address": requests[0][0], "beats": len(requests[0][1])})
            ctx.set(dut.beats.payload, beats[0] if beats else 0)
            assert ctx.get(dut.response) == latched
            idle = started == memory.answered
            response = memory.cycle(ctx)
            assert ctx.get(dut.idle) == idle
            latched = response if response != OKAY else latched
            if ctx.get(dut.beats.ready):
                beats.popleft()
            if offered and ctx.get(dut.requests.ready):
                requests.popleft()
                started += 1
                offered = False
            await ctx.tick()
            if not requests and memory.answered == len(bursts):
                break
        else:
            pytest.fail("the bursts do not end")
        assert ctx.get(dut.idle)
        assert ctx.get(dut.response) == latched
        assert memory.bursts == bursts

    run(dut, testbench)


@pytest.mark.parametrize("rows_per_beat", SIZES)
@pytest.mark.parametrize("rate", [1, 0.5, 0.1])
@pytest.mark.parametrize("order", ORDERS)
def test_bursts(seed: int, order: str, rate: float, rows_per_beat: int) -> None:
    """A memory may wait for the data before it takes the address, and the other way round: AXI allows both."""
    rng = Random(seed)
    bursts = [
        (
            8 * rows_per_beat * rng.randrange(1 << 34),
            [rng.getrandbits(64 * rows_per_beat) for _ in range(rng.choice((1, 2, 16, rng.randint(1, 16))))],
        )
        for _ in range(10)
    ]
    write(rng, rows_per_beat, bursts, rate, {}, order)


@pytest.mark.parametrize("error", [SLVERR, DECERR])
def test_an_error_response_is_latched(seed: int, error: int) -> None:
    rng = Random(seed)
    bursts = [(128 * i, [i] * 16) for i in range(6)]
    write(rng, 1, bursts, 0.5, {rng.randrange(6): error})


@pytest.mark.parametrize("beats", [1, 2, 16])
def test_one_beat_a_cycle(beats: int) -> None:
    """A burst takes one cycle for each beat, and one cycle for its request."""
    dut = Writer(small_config())

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.axi.awready, 1)
        ctx.set(dut.axi.wready, 1)
        ctx.set(dut.requests.valid, 1)
        ctx.set(dut.requests.payload, {"address": 0, "beats": beats})
        taken = []
        for cycle in range(60):
            if ctx.get(dut.requests.ready):
                taken.append(cycle)
            await ctx.tick()
        assert taken == list(range(0, 60, beats + 1))

    run(dut, testbench)


@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (1, 15), (2, 3), (8, 3), (8, 15)])
@pytest.mark.parametrize("rate", [1, 0.4])
def test_with_the_storer(seed: int, rate: float, rows_per_beat: int, outputs: int) -> None:
    """Chunks and records in any order: each burst starts with its first beat."""
    rng = Random(seed)
    built = small_config(rows_per_beat, outputs)
    m = Module()
    m.submodules.storer = storer = Storer(built)
    m.submodules.writer = writer = Writer(built)
    connect(m, storer.beats, writer.beats)
    m.d.comb += storer.begin.eq(writer.requests.valid & writer.requests.ready)
    memory = Memory(rng, writer, rows_per_beat, rate, {})
    record_words = max(next(words for words in (2, 4, 8, 16) if words > outputs), rows_per_beat)
    expected = []

    async def ask(ctx: Any, trace: bool) -> None:
        """Request a burst and wait for its last beat; the next one may be requested one cycle later."""
        values = (
            [random_int(rng, 64) for _ in range(1 + outputs)] if trace else [random_int(rng, 32) for _ in range(32)]
        )
        if trace:
            ctx.set(storer.stamp, values[0] & (1 << 64) - 1)
            for output, loss in enumerate(values[1:]):
                ctx.set(storer.losses[output], loss & (1 << 64) - 1)
        else:
            ctx.set(storer.masters, pack(values, 32))
        content = pack(values, 64 if trace else 32)
        beats = (record_words if trace else 16) // rows_per_beat
        address = 1024 * rng.randrange(1 << 20)
        expected.append(
            (address, [content >> (64 * rows_per_beat * i) & (1 << 64 * rows_per_beat) - 1 for i in range(beats)])
        )
        ctx.set(storer.trace, trace)
        ctx.set(writer.requests.payload, {"address": address, "beats": beats})
        ctx.set(writer.requests.valid, 1)
        taken = False
        for _ in range(500):
            memory.cycle(ctx)
            ready = ctx.get(writer.requests.ready)
            await ctx.tick()
            if ready and taken:
                return
            taken = taken or ready
            ctx.set(writer.requests.valid, not taken)
        pytest.fail("the burst does not end")

    async def testbench(ctx: Any) -> None:
        for trace in (False, False, True, True, *(rng.random() < 0.5 for _ in range(8))):
            await ask(ctx, trace)
            for _ in range(rng.randrange(3)):
                memory.cycle(ctx)
                await ctx.tick()
        assert memory.bursts == expected

    run(m, testbench)
