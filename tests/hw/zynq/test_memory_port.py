"""The 64-bit memory port on one HP port: same bursts, same words."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from tests.helpers.axi3_ports import (
    DECERR,
    SLVERR,
    HpPort,
    Memory,
    Reads,
    Writes,
    expected_reads,
    random_bursts,
    simulate,
)
from tests.helpers.simulation import BlockSimulator, run

from bitlane_hw.zynq.memory_port import MemoryPort

WORD = 8  # bytes


@pytest.fixture(scope="module")
def simulator() -> BlockSimulator:
    return BlockSimulator(MemoryPort())


@pytest.mark.parametrize("rate", [1, 0.5, 0.2])
def test_reads(simulator: BlockSimulator, seed: int, rate: float) -> None:
    """Every burst as requested, with its ID; failed words have their responses."""
    rng = Random(seed)
    bursts = [(rng.randrange(2), *burst) for burst in random_bursts(rng, 40, WORD)]
    failing = rng.sample([address for _, address, _ in bursts], 8)
    memory = Memory({address: rng.choice((SLVERR, DECERR)) for address in failing})
    hp = HpPort(rng, simulator.dut.hp0, memory, latency=rng.choice((1, 20)), rate=rate)
    reads = Reads(rng, simulator.dut.read, bursts, rate)
    expected = expected_reads(memory, bursts, 1)
    simulate(simulator, [reads, hp], lambda: len(reads.beats) == len(expected), 8000)
    assert reads.beats == expected
    assert hp.bursts == [burst[1:] for burst in bursts]


@pytest.mark.parametrize("rate", [1, 0.5])
def test_writes(simulator: BlockSimulator, seed: int, rate: float) -> None:
    rng = Random(seed)
    bursts = [(address, [rng.getrandbits(64) for _ in range(n)]) for address, n in random_bursts(rng, 20, WORD)]
    failing = rng.choice(bursts)[0]
    memory = Memory({failing: DECERR})
    hp = HpPort(rng, simulator.dut.hp0, memory, rate=rate)
    writes = Writes(rng, simulator.dut.write, bursts, rate)
    simulate(simulator, [writes, hp], lambda: len(writes.answers) == len(bursts), 4000)
    words = {address + WORD * i: word for address, beats in bursts for i, word in enumerate(beats)}
    words.pop(failing)
    assert memory.written == words
    assert writes.answers == [(0, DECERR if address == failing else 0) for address, _ in bursts]


def test_a_burst_from_before_a_reset_is_ended(seed: int) -> None:
    """The port gets all words that it expects: those after the reset without strobes, and WLAST with the last one."""
    rng = Random(seed)
    words, before = 8, rng.randrange(1, 7)
    m = Module()
    m.submodules.port = port = MemoryPort()
    reset, seen = Signal(), []

    async def testbench(ctx: Any) -> None:
        hp, write, is_reset = port.hp0, port.write, False
        ctx.set(hp.awready, 1)
        ctx.set(write.awlen, words - 1)
        ctx.set(write.wstrb, 0xFF)
        ctx.set(write.awvalid, 1)
        ctx.set(write.wvalid, 1)
        for _ in range(200):
            ready = rng.random() < 0.5
            ctx.set(hp.wready, ready)
            if ready and ctx.get(hp.wvalid):
                seen.append((is_reset, ctx.get(hp.wstrb), ctx.get(hp.wlast)))
            accepted = ctx.get(write.awready)
            begins = len(seen) == before and not is_reset
            ctx.set(reset, begins)
            await ctx.tick()
            is_reset |= begins
            if accepted or is_reset:
                ctx.set(write.awvalid, 0)
            if is_reset:
                ctx.set(write.wvalid, 0)

    run(ResetInserter(reset)(m), testbench)
    assert len(seen) == words
    assert [last for *_, last in seen] == [0] * (words - 1) + [1]
    assert all(strobes == (0 if after else 0xFF) for after, strobes, _ in seen)


def test_one_word_a_cycle(simulator: BlockSimulator, seed: int) -> None:
    """One more cycle in each direction than the memory takes, and then no gap.

    The port opens one cycle after the reset, so that everything is a cycle later.
    """
    rng = Random(seed)
    hp = HpPort(rng, simulator.dut.hp0, Memory(), latency=40)
    reads = Reads(rng, simulator.dut.read, [(0, 128 * i, 16) for i in range(1, 20)])
    simulate(simulator, [reads, hp], lambda: len(reads.beats) == 19 * 16, 1000)
    assert reads.cycles == list(range(43, 43 + 19 * 16))
