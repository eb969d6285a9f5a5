"""The beats of several ports: in order, each as early as its credits allow, at any rates of the ports."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import PORT_CROSSING, words_latency
from bitlane_hw.memory.port_credits import PortCredits

OFFERED = 2  # cycles from a beat that enters a FIFO to its offer, as of the reader's


class Ports:
    """The FIFOs of all ports, which fill at random rates, and a sequencer that takes beats at random."""

    def __init__(self, rng: Random, config: AcceleratorConfig, wanted: float, rates: list[float]):
        self.rng, self.config, self.wanted, self.rates = rng, config, wanted, rates
        self.dut = PortCredits(config)
        self.fifos = [[deque[tuple[int, int]]() for _ in range(2)] for _ in range(config.ports)]  # cycle, word
        self.entered = [[[] for _ in range(2)] for _ in range(config.ports)]  # cycles in which beats entered
        self.words: list[list[list[int]]] = [[[] for _ in range(2)] for _ in range(config.ports)]
        self.taken: list[tuple[int, int, int]] = []  # cycle, stream, number
        self.numbers = [0, 0]

    def _fill(self, ctx: Any, cycle: int) -> None:
        for port, (fifos, rate) in enumerate(zip(self.fifos, self.rates, strict=True)):
            i = self.rng.randrange(2)
            enters = self.rng.random() < rate and len(self.words[port][i]) - self.numbers[i] < self.config.fifo_beats
            ctx.set(self.dut.arrived[port], enters << i)
            if enters:
                word = self.rng.getrandbits(self.config.port_width)
                fifos[i].append((cycle, word))
                self.entered[port][i].append(cycle)
                self.words[port][i].append(word)

    def _offer(self, ctx: Any, cycle: int) -> None:
        for port, fifos in enumerate(self.fifos):
            for i, fifo in enumerate(fifos):
                offered = bool(fifo) and fifo[0][0] + OFFERED <= cycle
                ctx.set(self.dut.parts[port][i].valid, offered)
                ctx.set(self.dut.parts[port][i].payload, fifo[0][1] if offered else self.rng.getrandbits(8))
                if ctx.get(self.dut.parts[port][i].ready):
                    assert offered, "a beat is taken from an empty FIFO"
                    fifo.popleft()

    def _take(self, ctx: Any, cycle: int) -> None:
        i = self.rng.randrange(2)
        for other, beats in enumerate(self.dut.beats):
            arrivals = [entered[other] for entered in self.entered]
            there = all(len(each) > self.numbers[other] for each in arrivals)
            early = max(each[self.numbers[other]] for each in arrivals) + PORT_CROSSING + 1 if there else None
            assert ctx.get(beats.valid) == (early is not None and early <= cycle)
        valid = ctx.get(self.dut.beats[i].valid)
        takes = self.rng.random() < self.wanted and valid
        for other, beats in enumerate(self.dut.beats):
            ctx.set(beats.ready, takes and i == other)
        if takes:
            self.taken.append((cycle, i, self.numbers[i]))
            self.numbers[i] += 1

    async def __call__(self, ctx: Any) -> None:
        for cycle in range(600):
            self._fill(ctx, cycle)
            self._take(ctx, cycle)
            self._offer(ctx, cycle)
            for then, i, number in self.taken[-1 - words_latency(self.config.ports) :]:
                if then + words_latency(self.config.ports) == cycle:
                    parts = [words[i][number] for words in self.words]
                    bits = self.config.port_width
                    whole = sum(part << (bits * port) for port, part in enumerate(parts))
                    assert [ctx.get(beats.payload) for beats in self.dut.beats] == [whole, whole]
            await ctx.tick()


@pytest.mark.parametrize("ports", [2, 4, 8])
@pytest.mark.parametrize("wanted", [1.0, 0.3], ids=["all", "some"])
def test_beats_of_all_ports(seed: int, ports: int, wanted: float) -> None:
    rng = Random(seed)
    config = AcceleratorConfig(64 * ports, 1, max_features=128, row_buffer_beats=128, fifo_beats=64, ports=ports)
    rates = [rng.choice((1.0, 0.8, 0.4)) for _ in range(ports)]
    testbench = Ports(rng, config, wanted, rates)
    run(testbench.dut, testbench)
    assert len(testbench.taken) > 50
