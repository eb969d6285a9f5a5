"""AXI3 bursts of any kind against a slave with 4 KiB of registers, with random pauses."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from tests.helpers.axi3_ports import SLVERR, Stable
from tests.helpers.simulation import BlockSimulator

from bitlane_hw.zynq.register_port import RegisterPort

FIXED, INCR, WRAP = range(3)
WINDOW = 4096


@dataclass
class Burst:
    """The signals of an address channel."""

    tag: int
    address: int
    beats: int
    size: int
    kind: int

    def addresses(self) -> list[int]:
        """Return the address of each beat: Arm IHI 0022, section A3.4.1, with its names."""
        number_bytes = 1 << self.size
        aligned = self.address // number_bytes * number_bytes
        if self.kind == FIXED:
            return [self.address] * self.beats
        if self.kind == INCR:
            return [self.address, *(aligned + n * number_bytes for n in range(1, self.beats))]
        container = number_bytes * self.beats
        lower = self.address // container * container
        return [lower + (self.address - lower + n * number_bytes) % container for n in range(self.beats)]


def random_burst(rng: Random) -> Burst:
    size, kind = rng.randrange(3), rng.randrange(3)
    beats = rng.choice((2, 4, 8, 16)) if kind == WRAP else rng.choice((1, 2, 16, rng.randint(1, 16)))
    address = 0x4000_0000 + rng.randrange(WINDOW - 64)
    return Burst(rng.randrange(1 << 12), address >> size << size if kind == WRAP else address, beats, size, kind)


class Lite:
    """An AXI4-Lite slave with 4 KiB; the words in `bad` answer with an error."""

    def __init__(self, rng: Random, bus: Any, rate: float, bad: frozenset[int] = frozenset()):
        self.rng, self.bus, self.rate, self.bad = rng, bus, rate, bad
        self.bytes = bytearray(rng.randbytes(WINDOW))
        self.address: int | None = None
        self.data: tuple[int, int] | None = None
        self.answers: deque[int] = deque()
        self.values: deque[tuple[int, int]] = deque()
        self.offered = {"r": False, "b": False}
        self.stable = Stable()

    def drive(self, ctx: Any) -> None:
        bus = self.bus
        may = {name: self.rng.random() < self.rate for name in ("ar", "aw", "w", "r", "b")}
        self.ready = {
            "ar": may["ar"] and len(self.values) < 2,
            "aw": may["aw"] and self.address is None,
            "w": may["w"] and self.data is None,
        }
        for name, ready in self.ready.items():
            ctx.set(getattr(bus, f"{name}ready"), ready)
        self.offered["r"] |= bool(self.values) and may["r"]
        self.offered["b"] |= bool(self.answers) and may["b"]
        ctx.set(bus.rvalid, self.offered["r"])
        ctx.set(bus.bvalid, self.offered["b"])
        if self.offered["r"]:
            ctx.set(bus.rdata, self.values[0][0])
            ctx.set(bus.rresp, self.values[0][1])
        if self.offered["b"]:
            ctx.set(bus.bresp, self.answers[0])

    def observe(self, ctx: Any) -> None:
        bus = self.bus
        for name, queue in (("r", self.values), ("b", self.answers)):
            if self.offered[name] and ctx.get(getattr(bus, f"{name}ready")):
                self.offered[name] = False
                queue.popleft()
        address = ctx.get(bus.araddr)
        if self.stable("ar", ctx.get(bus.arvalid), self.ready["ar"], address):
            assert address % 4 == 0, "the port sends addresses of words"
            value = int.from_bytes(self.bytes[address : address + 4], "little")
            self.values.append((value, SLVERR if address in self.bad else 0))
        address = ctx.get(bus.awaddr)
        if self.stable("aw", ctx.get(bus.awvalid), self.ready["aw"], address):
            assert address % 4 == 0, "the port sends addresses of words"
            self.address = address
        data = ctx.get(bus.wdata), ctx.get(bus.wstrb)
        if self.stable("w", ctx.get(bus.wvalid), self.ready["w"], data):
            self.data = data
        if self.address is not None and self.data is not None:
            store(self.bytes, self.address, *self.data)
            self.answers.append(SLVERR if self.address in self.bad else 0)
            self.address = self.data = None


def store(memory: bytearray, word: int, value: int, strobes: int) -> None:
    """Store the bytes of a word that have a strobe."""
    for i in range(4):
        if strobes >> i & 1:
            memory[word + i] = value >> 8 * i & 0xFF


class Master:
    """AXI3 reads and writes at the same time, each burst after the response to the previous one."""

    def __init__(self, rng: Random, gp: Any, rate: float, reads: list[Burst], writes: list[Burst], lanes: list[Any]):
        self.rng, self.gp, self.rate = rng, gp, rate
        self.waiting = {"ar": deque(reads), "aw": deque(writes)}
        self.lanes = deque(lanes)  # data and strobes of each beat of all writes
        self.left = 0  # beats of the write under way
        self.tag = 0
        self.offered = {"ar": False, "aw": False, "w": False}
        self.beats: list[tuple[int, int, int, int]] = []
        self.answers: list[tuple[int, int]] = []
        self.stable = Stable()

    def drive(self, ctx: Any) -> None:
        gp = self.gp
        for prefix, queue in self.waiting.items():
            self.offered[prefix] |= bool(queue) and self.rng.random() < self.rate
            ctx.set(getattr(gp, f"{prefix}valid"), self.offered[prefix])
            if self.offered[prefix]:
                burst = queue[0]
                values = {"id": burst.tag, "addr": burst.address, "len": burst.beats - 1}
                for name, value in {**values, "size": burst.size, "burst": burst.kind}.items():
                    ctx.set(getattr(gp, prefix + name), value)
        self.offered["w"] |= bool(self.left) and self.rng.random() < self.rate
        ctx.set(gp.wvalid, self.offered["w"])
        if self.offered["w"]:
            values = {"data": self.lanes[0][0], "strb": self.lanes[0][1], "last": self.left == 1, "id": self.tag}
            for name, value in values.items():
                ctx.set(getattr(gp, f"w{name}"), value)
        self.ready = {name: self.rng.random() < self.rate for name in ("r", "b")}
        ctx.set(gp.rready, self.ready["r"])
        ctx.set(gp.bready, self.ready["b"])

    def observe(self, ctx: Any) -> None:
        gp = self.gp
        if self.offered["w"] and ctx.get(gp.wready):
            self.offered["w"] = False
            self.lanes.popleft()
            self.left -= 1
        for prefix, queue in self.waiting.items():
            if self.offered[prefix] and ctx.get(getattr(gp, f"{prefix}ready")):
                self.offered[prefix] = False
                burst = queue.popleft()
                if prefix == "aw":
                    self.left, self.tag = burst.beats, burst.tag
        beat = tuple(ctx.get(getattr(gp, name)) for name in ("rid", "rdata", "rresp", "rlast"))
        if self.stable("r", ctx.get(gp.rvalid), self.ready["r"], beat):
            self.beats.append(beat)
        answer = ctx.get(gp.bid), ctx.get(gp.bresp)
        if self.stable("b", ctx.get(gp.bvalid), self.ready["b"], answer):
            assert not self.left, "a response before the last beat"
            self.answers.append(answer)


@pytest.fixture(scope="module")
def simulator() -> BlockSimulator:
    return BlockSimulator(RegisterPort())


def run(simulator: BlockSimulator, master: Master, lite: Lite, reads: int, writes: int) -> int:
    """Simulate until all beats and responses have arrived; return the cycles."""
    cycles = 0

    async def testbench(ctx: Any) -> None:
        nonlocal cycles
        while (len(master.beats), len(master.answers)) != (reads, writes):
            for part in (master, lite):
                part.drive(ctx)
            for part in (master, lite):
                part.observe(ctx)
            await ctx.tick()
            cycles += 1
            assert cycles < 20_000, "no progress"

    simulator.run(testbench)
    return cycles


@pytest.mark.parametrize(("rate", "slave"), [(1, 1), (0.5, 0.5), (1, 0.3), (0.3, 1)])
def test_reads_beside_writes(simulator: BlockSimulator, seed: int, rate: float, slave: float) -> None:
    """Each beat accesses its word, each burst has its ID; read errors belong to their beat."""
    rng = Random(seed)
    reads = [random_burst(rng) for _ in range(25)]
    written = frozenset(range(WINDOW // 2, WINDOW, 4))
    writes = [burst for _ in range(60) if (burst := random_burst(rng)).address % WINDOW >= WINDOW // 2 + 64][:12]
    reads = [burst for burst in reads if burst.address % WINDOW < WINDOW // 2 - 64]
    bad = frozenset(word for word in range(0, WINDOW, 4) if word not in written and rng.random() < 0.1)
    lite = Lite(rng, simulator.dut.lite, slave, bad)
    lanes = [(rng.getrandbits(32), rng.getrandbits(4)) for burst in writes for _ in range(burst.beats)]
    master = Master(rng, simulator.dut.gp, rate, reads, writes, lanes)
    expected = bytearray(lite.bytes)
    addresses = [at % WINDOW // 4 * 4 for burst in writes for at in burst.addresses()]
    for address, lane in zip(addresses, lanes, strict=True):
        store(expected, address, *lane)
    beats = []
    for burst in reads:
        for i, at in enumerate(burst.addresses()):
            word = at % WINDOW // 4 * 4
            value = int.from_bytes(lite.bytes[word : word + 4], "little")
            beats.append((burst.tag, value, SLVERR if word in bad else 0, int(i == burst.beats - 1)))
    run(simulator, master, lite, len(beats), len(writes))
    assert master.beats == beats
    assert master.answers == [(burst.tag, 0) for burst in writes]
    assert lite.bytes == expected


def test_a_failed_beat_fails_the_write(simulator: BlockSimulator, seed: int) -> None:
    rng = Random(seed)
    writes = [Burst(i, 64 * i, 4, 2, INCR) for i in range(6)]
    lite = Lite(rng, simulator.dut.lite, 0.7, frozenset({64 * 2 + 4, 64 * 5}))
    master = Master(rng, simulator.dut.gp, 0.7, [], writes, [(i, 15) for i in range(24)])
    run(simulator, master, lite, 0, 6)
    assert master.answers == [(i, SLVERR if i in (2, 5) else 0) for i in range(6)]


def test_cycles_of_a_beat(simulator: BlockSimulator, seed: int) -> None:
    """A beat of a read takes three cycles if the slave answers in the next cycle."""
    rng = Random(seed)
    lite = Lite(rng, simulator.dut.lite, 1)
    cycles = [
        run(simulator, Master(rng, simulator.dut.gp, 1, [Burst(0, 0, n, 2, INCR)], [], []), lite, n, 0) for n in (1, 16)
    ]
    assert cycles[1] - cycles[0] == 15 * 3
