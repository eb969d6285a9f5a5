"""The write master against a memory with pauses everywhere."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from bitlane_hw.writer import Writer

from .support import CONFIG, run

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11


class Memory:
    """Takes addresses and words when it likes, answers a while after a burst's last word."""

    def __init__(self, rng: Random, dut: Writer, rate: float, responses: dict[int, int]):
        self.rng = rng
        self.dut = dut
        self.rate = rate
        self.responses = responses  # by number of the burst; OKAY where none is given
        self.bursts: list[tuple[int, list[int]]] = []
        self.left = 0
        self.answered = 0
        self.complete: deque[int] = deque()
        self.held: dict[str, Any] = {}

    def cycle(self, ctx: Any) -> int:
        """Sets this cycle's inputs, checks its outputs; returns the response that is given in it."""
        axi = self.dut.axi
        aw, w, b = (self.rng.random() < self.rate for _ in range(3))
        ctx.set(axi.awready, aw)
        ctx.set(axi.wready, w)
        b = b and bool(self.complete)
        response = self.responses.get(self.answered, OKAY) if b else OKAY
        ctx.set(axi.bvalid, b)
        ctx.set(axi.bresp, response)
        assert ctx.get(axi.bready)
        if b:
            self.complete.popleft()
            self.answered += 1

        self._stable(ctx, "aw", aw, ("awaddr", "awlen", "awsize", "awburst", "awid"))
        self._stable(ctx, "w", w, ("wdata", "wstrb", "wlast"))
        if ctx.get(axi.wvalid):
            assert self.left, "a word before its address"
            assert ctx.get(axi.wlast) == (self.left == 1)
            assert ctx.get(axi.wstrb) == 0xFF
            if w:
                self.bursts[-1][1].append(ctx.get(axi.wdata))
                self.left -= 1
                if not self.left:
                    self.complete.append(len(self.bursts))
        if ctx.get(axi.awvalid) and aw:
            assert not self.left, "an address before the last one's words"
            assert (ctx.get(axi.awsize), ctx.get(axi.awburst)) == (3, 1)
            self.left = ctx.get(axi.awlen) + 1
            self.bursts.append((ctx.get(axi.awaddr), []))
        return response

    def _stable(self, ctx: Any, channel: str, ready: bool, payload: tuple[str, ...]) -> None:
        valid = ctx.get(getattr(self.dut.axi, f"{channel}valid"))
        seen = [ctx.get(getattr(self.dut.axi, name)) for name in payload]
        if channel in self.held:
            assert valid and seen == self.held.pop(channel), f"{channel} changed while it waited"
        if valid and not ready:
            self.held[channel] = seen


def write(rng: Random, bursts: list[tuple[int, list[int]]], rate: float, responses: dict[int, int]) -> None:
    """Hands all bursts to a writer; checks what memory gets, `idle` and `response` in every cycle."""
    dut = Writer(CONFIG)
    memory = Memory(rng, dut, rate, responses)

    async def testbench(ctx: Any) -> None:
        latched = OKAY
        requests = deque(bursts)
        words = deque(word for _, burst in bursts for word in burst)
        started = 0
        offered = False
        for _ in range(2000):
            offered = offered or (bool(requests) and rng.random() < 0.7)
            ctx.set(dut.requests.valid, offered)
            if offered:
                ctx.set(dut.requests.payload, {"address": requests[0][0], "words": len(requests[0][1])})
            ctx.set(dut.words.payload, words[0] if words else 0)
            assert ctx.get(dut.response) == latched
            idle = started == memory.answered
            response = memory.cycle(ctx)
            assert ctx.get(dut.idle) == idle
            latched = response if response != OKAY else latched
            if ctx.get(dut.words.ready):
                words.popleft()
            if offered and ctx.get(dut.requests.ready):
                requests.popleft()
                started += 1
                offered = False
            await ctx.tick()
            if not requests and memory.answered == len(bursts):
                break
        assert ctx.get(dut.idle)
        assert ctx.get(dut.response) == latched
        assert memory.bursts == bursts

    run(dut, testbench)


@pytest.mark.parametrize("rate", [1, 0.5, 0.1])
def test_bursts(seed: int, rate: float) -> None:
    rng = Random(seed)
    bursts = [
        (8 * rng.randrange(1 << 37), [rng.getrandbits(64) for _ in range(rng.choice((1, 2, 16, rng.randint(1, 16))))])
        for _ in range(12)
    ]
    write(rng, bursts, rate, {})


@pytest.mark.parametrize("error", [SLVERR, DECERR])
def test_an_error_is_latched(seed: int, error: int) -> None:
    rng = Random(seed)
    bursts = [(128 * i, [i] * 16) for i in range(6)]
    write(rng, bursts, 0.5, {rng.randrange(6): error})


def test_words_flow_one_a_cycle() -> None:
    """A burst takes its words, and two cycles for the request and its address."""
    dut = Writer(CONFIG)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.axi.awready, 1)
        ctx.set(dut.axi.wready, 1)
        ctx.set(dut.requests.valid, 1)
        ctx.set(dut.requests.payload, {"address": 0, "words": 16})
        taken = []
        for cycle in range(60):
            if ctx.get(dut.requests.ready):
                taken.append(cycle)
            await ctx.tick()
        assert taken == [0, 18, 36, 54]

    run(dut, testbench)
