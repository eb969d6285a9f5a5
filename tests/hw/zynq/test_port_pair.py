"""A memory port on two HP ports of half its width: the words of the memory, in order, at full rate."""

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

from bitlane_hw.zynq.hp_port import ZYNQ_7000
from bitlane_hw.zynq.hp_port import HpPort as PortKind
from bitlane_hw.zynq.port_pair import PortPair

FIFO_BEATS = 16  # of the queue behind a port


@pytest.fixture(scope="module", params=[ZYNQ_7000, PortKind(40, 128, is_axi3=False)], ids=["AXI3", "AXI4"])
def simulator(request: pytest.FixtureRequest) -> BlockSimulator:
    return BlockSimulator(PortPair(request.param))


def beat_bytes(simulator: BlockSimulator) -> int:
    return int(2 * simulator.dut.port.word_bytes)


@pytest.mark.parametrize(("rates", "latencies"), [((1, 1), (1, 1)), ((0.5, 0.5), (3, 20)), ((0.2, 0.9), (30, 1))])
def test_reads(simulator: BlockSimulator, seed: int, rates: tuple[float, float], latencies: tuple[int, int]) -> None:
    """Bursts of both IDs in the order of the requests, each split as documented, at any rate of the ports."""
    rng = Random(seed)
    dut, beat = simulator.dut, beat_bytes(simulator)
    memory = Memory()
    bursts = [(rng.randrange(2), *burst) for burst in random_bursts(rng, 40, beat)]
    hps = [HpPort(rng, port, memory, *how) for port, *how in zip((dut.hp0, dut.hp1), latencies, rates, strict=True)]
    reads = Reads(rng, dut.read, bursts, rate=rng.choice((1.0, 0.6)))
    expected = expected_reads(memory, bursts, beat // 8)
    simulate(simulator, [reads, *hps], lambda: len(reads.beats) == len(expected), 8000)
    assert reads.beats == expected
    assert hps[0].bursts == [(address, 2 * -(-beats // 2)) for _, address, beats in bursts]
    assert hps[1].bursts == [
        (address + beat * -(-beats // 2), 2 * (beats // 2)) for _, address, beats in bursts if beats > 1
    ]


def test_a_failed_word_is_a_failed_beat(simulator: BlockSimulator, seed: int) -> None:
    """A beat has the worse response of its two words: SLVERR or DECERR of either word."""
    rng = Random(seed)
    dut, beat = simulator.dut, beat_bytes(simulator)
    bursts = [(rng.randrange(2), *burst) for burst in random_bursts(rng, 24, beat)]
    words = [at for _, address, beats in bursts for at in range(address, address + beat * beats, 8)]
    memory = Memory({at: rng.choice((SLVERR, DECERR)) for at in rng.sample(words, len(words) // 4)})
    hps = [HpPort(rng, port, memory, rate=0.8) for port in (dut.hp0, dut.hp1)]
    reads = Reads(rng, dut.read, bursts)
    expected = expected_reads(memory, bursts, beat // 8)
    simulate(simulator, [reads, *hps], lambda: len(reads.beats) == len(expected), 4000)
    assert reads.beats == expected
    assert {each[2] for each in expected} == {0, SLVERR, DECERR}


@pytest.mark.parametrize("rate", [1, 0.5])
def test_writes(simulator: BlockSimulator, seed: int, rate: float) -> None:
    """Bursts of 1 to 8 beats to the first port, words in order, one response for each."""
    rng = Random(seed)
    dut, beat = simulator.dut, beat_bytes(simulator)
    bursts = [
        (address, [rng.getrandbits(8 * beat) for _ in range(n)]) for address, n in random_bursts(rng, 20, beat, 8)
    ]
    bad = rng.randrange(len(bursts))
    memory = Memory({bursts[bad][0]: SLVERR})
    hps = [HpPort(rng, port, memory, rate=rate) for port in (dut.hp0, dut.hp1)]
    writes = Writes(rng, dut.write, bursts, rate)
    simulate(simulator, [writes, *hps], lambda: len(writes.answers) == len(bursts), 4000)
    words = {address + 8 * i: word for address, beats in bursts for i, word in enumerate(_words(beats, beat // 8))}
    failed = range(bursts[bad][0], bursts[bad][0] + beat // 2)
    assert memory.written == {address: word for address, word in words.items() if address not in failed}
    assert [response for _, response in writes.answers] == [SLVERR if bursts[bad][0] == a else 0 for a, _ in bursts]


def _words(beats: list[int], words: int) -> list[int]:
    return [beat >> 64 * place & (1 << 64) - 1 for beat in beats for place in range(words)]


@pytest.mark.parametrize("beats", [16, 15])
def test_a_long_stream_keeps_both_ports_busy(simulator: BlockSimulator, seed: int, beats: int) -> None:
    """With a latency of 40 cycles: at least 0.98 of the rate of a port with one word a cycle."""
    rng = Random(seed)
    dut = simulator.dut
    memory = Memory()
    bursts = [(i % 3 == 0, 512 * (i + 1), beats) for i in range(40)]
    hps = [HpPort(rng, port, memory, latency=40) for port in (dut.hp0, dut.hp1)]
    reads = Reads(rng, dut.read, bursts)
    total = beats * len(bursts)
    simulate(simulator, [reads, *hps], lambda: len(reads.beats) == total, 4000)
    rate = (total - 1) / (reads.cycles[-1] - reads.cycles[0])
    busiest = 2 * -(-beats // 2)  # words of a burst on the first port
    assert 0.98 * beats / busiest <= rate <= 1


def test_beats_of_a_port_wait_for_the_other_one(simulator: BlockSimulator, seed: int) -> None:
    """The first port answers nothing. The second is stopped when the queue behind it is full, and so are the slices."""
    rng = Random(seed)
    dut = simulator.dut
    bursts = [(0, 512 * i, 16) for i in range(40)]
    hps = [HpPort(rng, port, Memory(), latency) for port, latency in ((dut.hp0, 10_000), (dut.hp1, 1))]
    reads = Reads(rng, dut.read, bursts)
    simulate(simulator, [reads, *hps], lambda: hps[1].now == 400, 500)
    taken = sum(words for _, words in hps[1].bursts) - len(hps[1].reads)
    assert taken == 2 * FIFO_BEATS + 1 + 2  # words: one in the upsizer, and two in the slice


def test_latency(simulator: BlockSimulator, seed: int) -> None:
    """Two cycles to the ports and three back, for a beat of two words."""
    rng = Random(seed)
    dut = simulator.dut
    hps = [HpPort(rng, port, Memory(), latency=10) for port in (dut.hp0, dut.hp1)]
    reads = Reads(rng, dut.read, [(0, 4096, 1)])
    simulate(simulator, [reads, *hps], lambda: reads.beats, 100)
    # AR is offered in cycle 0 and taken by the port in cycle 2; its second word arrives in cycle 2 + 10 + 1.
    assert reads.cycles == [2 + 10 + 1 + 3]


def test_after_a_reset_no_port_reads_before_the_other_has_written() -> None:
    """The first port does not answer a write from before the reset; the second has nothing left to do."""
    m = Module()
    m.submodules.pair = pair = PortPair()
    reset, opened = Signal(), []

    async def testbench(ctx: Any) -> None:
        hp, write, read = pair.hp0, pair.write, pair.read
        for port in (hp, pair.hp1):
            for channel in (port.awready, port.wready, port.arready):
                ctx.set(channel, 1)
        ctx.set(write.wvalid, 1)
        ctx.set(write.wlast, 1)
        ctx.set(write.awvalid, 1)
        for _ in range(20):
            await ctx.tick()
            if ctx.get(hp.wvalid) and ctx.get(hp.wlast):
                break
        ctx.set(write.awvalid, 0)
        ctx.set(write.wvalid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(read.arlen, 1)
        ctx.set(read.arvalid, 1)
        for cycle in range(60):
            ctx.set(hp.bvalid, cycle == 40)
            if ctx.get(hp.arvalid) or ctx.get(pair.hp1.arvalid):
                opened.append(cycle)
            await ctx.tick()

    run(ResetInserter(reset)(m), testbench)
    assert opened and min(opened) > 40
