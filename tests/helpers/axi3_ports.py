"""A memory behind HP ports (AXI3 of 64 bits, AXI4 of 128), and masters for the accelerator, with random pauses."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import BlockSimulator

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
PAGE = 4096
CONSTANT = {"burst": 1, "lock": 0, "cache": 0b0011, "prot": 0, "qos": 0}  # AXI4 ports have the first one
WORD = 8  # bytes


@dataclass
class Memory:
    """Words by address, each with a different value. `responses` contains the addresses that fail."""

    responses: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    def word(self, address: int) -> int:
        return self.written.get(address, (address + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1)

    def beat(self, address: int, words: int) -> int:
        """Return the words of a beat, the first one in the low bits."""
        return sum(self.word(address + WORD * i) << 64 * i for i in range(words))

    def response(self, address: int, words: int) -> int:
        """Return the worst response of the words of a beat."""
        return max(self.responses.get(address + WORD * i, OKAY) for i in range(words))


class Stable:
    """Check that an offer does not change until it is taken."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def __call__(self, channel: str, valid: int, ready: int, payload: Any) -> bool:
        """Return whether the offer is taken in this cycle."""
        if channel in self.held:
            assert valid and payload == self.held[channel], f"{channel} changed while it waited"
        self.held = {name: held for name, held in self.held.items() if name != channel}
        if valid and not ready:
            self.held[channel] = payload
        return bool(valid and ready)


class HpPort:
    """An HP port with memory behind it: `drive` sets the inputs of a cycle, `observe` reads its outputs.

    It answers in order. The first word of a burst follows its address by at least `latency` cycles. With probability
    `rate` a channel is ready, or offers the next item, in a cycle.
    """

    def __init__(self, rng: Random, port: Any, memory: Memory, latency: int = 1, rate: float = 1.0):
        self.rng, self.port, self.memory = rng, port, memory
        self.word = len(port.wstrb)  # bytes
        self.constant = {name: value for name, value in CONSTANT.items() if hasattr(port, f"ar{name}")}
        self.constant["size"] = self.word.bit_length() - 1
        self.latency, self.rate = latency, rate
        self.now = 0
        self.reads: deque[tuple[int, int, int, bool]] = deque()  # due, id, address of a word, last
        self.writes: deque[list[int]] = deque()  # id, address of the next word, words left
        self.words: deque[list[int]] = deque()  # taken words that wait for their address: id, word, strobes, last
        self.answers: deque[tuple[int, int]] = deque()  # id, response
        self.bursts: list[tuple[int, int]] = []  # address and words of each read burst
        self.offered: dict[str, bool] = {"r": False, "b": False}
        self.response = OKAY
        self.stable = Stable()

    def _may(self) -> bool:
        return self.rng.random() < self.rate

    def drive(self, ctx: Any) -> None:
        port = self.port
        self.ready = {name: self._may() for name in ("ar", "aw", "w")}
        for name, ready in self.ready.items():
            ctx.set(getattr(port, f"{name}ready"), ready)
        if not self.offered["r"] and self.reads and self.reads[0][0] <= self.now and self._may():
            _, tag, address, last = self.reads[0]
            self.offered["r"] = True
            ctx.set(port.rid, tag)
            ctx.set(port.rdata, self.memory.beat(address, self.word // WORD))
            ctx.set(port.rresp, self.memory.response(address, self.word // WORD))
            ctx.set(port.rlast, last)
        if not self.offered["b"] and self.answers and self._may():
            self.offered["b"] = True
            ctx.set(port.bid, self.answers[0][0])
            ctx.set(port.bresp, self.answers[0][1])
        ctx.set(port.rvalid, self.offered["r"])
        ctx.set(port.bvalid, self.offered["b"])

    def observe(self, ctx: Any) -> None:
        port = self.port
        for name, queue in (("r", self.reads), ("b", self.answers)):
            if self.offered[name] and ctx.get(getattr(port, f"{name}ready")):
                self.offered[name] = False
                queue.popleft()
        if burst := self._address(ctx, "ar"):
            tag, address, words = burst
            self.bursts.append((address, words))
            due = self.now + self.latency
            self.reads.extend((due, tag, address + self.word * i, i == words - 1) for i in range(words))
        if burst := self._address(ctx, "aw"):
            self.writes.append(list(burst))
        word = [ctx.get(getattr(port, "wid", port.awid)), *map(ctx.get, (port.wdata, port.wstrb, port.wlast))]
        if self.stable("w", ctx.get(port.wvalid), self.ready["w"], word):
            assert self.writes or ctx.get(port.awvalid) or self.words, "data before its address is offered"
            self.words.append(word)
        while self.writes and self.words:
            self._write(*self.words.popleft())
        self.now += 1

    def _address(self, ctx: Any, prefix: str) -> tuple[int, int, int] | None:
        port = self.port
        tag, address, length = (ctx.get(getattr(port, prefix + name)) for name in ("id", "addr", "len"))
        valid = ctx.get(getattr(port, f"{prefix}valid"))
        if valid:
            assert {name: ctx.get(getattr(port, prefix + name)) for name in self.constant} == self.constant
            assert address % self.word == 0
            assert address % PAGE + self.word * (length + 1) <= PAGE, "a burst crosses 4 KiB"
        taken = self.stable(prefix, valid, self.ready[prefix], (tag, address, length))
        return (tag, address, length + 1) if taken else None

    def _write(self, tag: int, word: int, strobes: int, last: int) -> None:
        burst = self.writes[0]
        assert (tag, strobes) == (burst[0], (1 << self.word) - 1)
        assert last == (burst[2] == 1)
        response = self.memory.response(burst[1], self.word // WORD)
        self.response = max(self.response, response)
        if response == OKAY:
            places = range(0, self.word, WORD)
            self.memory.written |= {burst[1] + at: word >> 8 * at & (1 << 64) - 1 for at in places}
        burst[1:] = burst[1] + self.word, burst[2] - 1
        if last:
            self.answers.append((burst[0], self.response))
            self.response = OKAY
            self.writes.popleft()


class Reads:
    """Read bursts of (id, address, beats) and collect the beats (id, data, response, last)."""

    def __init__(self, rng: Random, axi: Any, bursts: list[tuple[int, int, int]], rate: float = 1.0):
        self.rng, self.axi, self.rate = rng, axi, rate
        self.waiting = deque(bursts)
        self.offered = False
        self.beats: list[tuple[int, int, int, int]] = []
        self.cycles: list[int] = []  # in which each beat arrived
        self.now = 0
        self.stable = Stable()

    def drive(self, ctx: Any) -> None:
        axi = self.axi
        self.offered = self.offered or (bool(self.waiting) and self.rng.random() < self.rate)
        ctx.set(axi.arvalid, self.offered)
        if self.offered:
            tag, address, beats = self.waiting[0]
            ctx.set(axi.arid, tag)
            ctx.set(axi.araddr, address)
            ctx.set(axi.arlen, beats - 1)
        self.ready = self.rng.random() < self.rate
        ctx.set(axi.rready, self.ready)

    def observe(self, ctx: Any) -> None:
        axi = self.axi
        if self.offered and ctx.get(axi.arready):
            self.offered = False
            self.waiting.popleft()
        beat = tuple(ctx.get(getattr(axi, name)) for name in ("rid", "rdata", "rresp", "rlast"))
        if self.stable("r", ctx.get(axi.rvalid), self.ready, beat):
            self.beats.append(beat)
            self.cycles.append(self.now)
        self.now += 1


class Writes:
    """Write bursts of (address, beats), each after the previous one; collect the responses.

    A beat is offered with its address or later, whether the address is taken or not.
    """

    def __init__(self, rng: Random, axi: Any, bursts: list[tuple[int, list[int]]], rate: float = 1.0):
        self.rng, self.axi, self.rate = rng, axi, rate
        self.waiting = deque(bursts)
        self.data: deque[tuple[int, bool]] = deque()
        self.offered = {"aw": False, "w": False}
        self.answers: list[tuple[int, int]] = []
        self.stable = Stable()

    def drive(self, ctx: Any) -> None:
        axi = self.axi
        may = self.rng.random() < self.rate
        if self.waiting and not self.data and not self.offered["aw"] and may:
            self.offered["aw"] = True
            beats = self.waiting[0][1]
            self.data.extend((beat, i == len(beats) - 1) for i, beat in enumerate(beats))
        self.offered["w"] |= bool(self.data) and may
        ctx.set(axi.awvalid, self.offered["aw"])
        ctx.set(axi.wvalid, self.offered["w"])
        if self.offered["aw"]:
            ctx.set(axi.awaddr, self.waiting[0][0])
            ctx.set(axi.awlen, len(self.waiting[0][1]) - 1)
        if self.offered["w"]:
            ctx.set(axi.wdata, self.data[0][0])
            ctx.set(axi.wlast, self.data[0][1])
            ctx.set(axi.wstrb, (1 << len(axi.wstrb)) - 1)
        self.ready = self.rng.random() < self.rate
        ctx.set(axi.bready, self.ready)

    def observe(self, ctx: Any) -> None:
        axi = self.axi
        if self.offered["w"] and ctx.get(axi.wready):
            self.offered["w"] = False
            self.data.popleft()
        if self.offered["aw"] and ctx.get(axi.awready):
            self.offered["aw"] = False
            self.waiting.popleft()
        answer = ctx.get(axi.bid), ctx.get(axi.bresp)
        if self.stable("b", ctx.get(axi.bvalid), self.ready, answer):
            self.answers.append(answer)


def random_bursts(rng: Random, count: int, beat_bytes: int, most: int = 16) -> list[tuple[int, int]]:
    """Return (address, beats) of bursts of any length within 4 KiB, often against the end of a page."""
    bursts = []
    for _ in range(count):
        beats = rng.choice((1, 2, 3, most, rng.randint(1, most)))
        slots = PAGE // beat_bytes - beats
        place = rng.choice((0, slots, rng.randint(0, slots)))
        bursts.append((PAGE * rng.randrange(1, 1 << 20) + place * beat_bytes, beats))
    return bursts


def expected_reads(memory: Memory, bursts: list[tuple[int, int, int]], words: int) -> list[tuple[int, int, int, int]]:
    """Return the beats of bursts of (id, address, beats), each beat of `words` words."""
    return [
        (tag, memory.beat(at, words), memory.response(at, words), int(i == beats - 1))
        for tag, address, beats in bursts
        for i, at in enumerate(range(address, address + WORD * words * beats, WORD * words))
    ]


def simulate(simulator: BlockSimulator, parts: list[Any], done: Any, limit: int) -> None:
    """Simulate until `done()`, at most `limit` cycles."""

    async def testbench(ctx: Any) -> None:
        for _ in range(limit):
            if done():
                return
            for part in parts:
                part.drive(ctx)
            for part in parts:
                part.observe(ctx)
            await ctx.tick()
        pytest.fail(f"not done within {limit} cycles")

    simulator.run(testbench)
