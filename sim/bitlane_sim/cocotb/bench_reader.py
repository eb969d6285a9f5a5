"""Testbench of the reader: a slow AXI memory of cocotbext-axi, and a slow consumer."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiReadBus, AxiSlaveRead

from bitlane.contract.layout import CHUNK_MODEL_BYTES, LABELS_PER_WORD, WORD_BITS, WORD_BYTES
from bitlane_hw.common.payloads import settings_layout
from bitlane_hw.memory.axi import SLVERR
from bitlane_hw.memory.burst_generator import BASE, DRAW, region_layout

from .monitors import StableMonitor
from .pauses import pauses
from .variant import chosen as chosen_config

CONFIG = chosen_config()
BEAT = CONFIG.beat_bytes
TIMEOUT = 20_000  # cycles


def bytes_at(address: int, length: int) -> bytes:
    """Return the contents of the memory in complete words, all different."""
    words = (i * 0x9E37_79B9_7F4A_7C15 + 0x1234_5678 for i in range(address, address + length, WORD_BYTES))
    return b"".join((word % (1 << WORD_BITS)).to_bytes(WORD_BYTES, "little") for word in words)


def beat_at(address: int) -> int:
    return int.from_bytes(bytes_at(address, BEAT), "little")


class Memory:
    """The complete address space, its contents computed at each read; one address may fail."""

    def __init__(self) -> None:
        self.broken: int | None = None

    async def read(self, address: int, length: int) -> bytes:
        if address == self.broken:
            raise ValueError(f"no memory at {address:#x}")
        return bytes_at(address, length)


@dataclass(frozen=True)
class ReadPlan:
    """A run: its geometry, and the addresses of the base and of the draw stream."""

    settings: dict[str, int]
    model: int
    sets: int
    addresses: tuple[int, int]
    strides: tuple[int, int]

    @property
    def set_beats(self) -> tuple[int, int]:
        groups, chunks = self.settings["groups"], self.settings["chunks"]
        labels = CONFIG.outputs * -(-groups // LABELS_PER_WORD)
        return labels + groups * chunks * self.settings["base_digits"], groups * chunks * self.settings["draws"]

    def needed(self, stream: int) -> list[int]:
        """Return the addresses of a stream's beats in the order of use."""
        models = CONFIG.outputs * self.settings["chunks"] * CONFIG.chunk_beats if stream == BASE else 0
        addresses = [self.model + BEAT * i for i in range(models)]
        for epoch in range(self.settings["epochs"]):
            start = self.addresses[stream] + epoch % self.sets * self.strides[stream]
            addresses += [start + BEAT * i for i in range(self.set_beats[stream])]
        return addresses


def random_plan(chosen: Random) -> ReadPlan:
    """Return a run of some hundred beats at random addresses."""
    draws = chosen.randint(0, 1)
    settings = {
        "chunks": chosen.randint(1, CONFIG.max_chunks),
        "base_digits": chosen.randint(1 - draws, 4),
        "draws": draws,
        "groups": chosen.randint(1, 12),
        "batch_groups": chosen.randint(1, 12),
        "epochs": chosen.randint(1, 5),
    }
    low, high = (chosen.randrange(1 << 24) * 4096 + BEAT * chosen.randrange(4096 // BEAT) for _ in range(2))
    strides = (chosen.choice((0, BEAT * chosen.randrange(1000))), BEAT * chosen.randrange(1000))
    model = CHUNK_MODEL_BYTES * chosen.randrange(1 << 24)
    return ReadPlan(settings, model, chosen.randint(1, 4), (low, high), strides)


class ReaderBench:
    """The reader with its memory and a consumer of its beats; checks the invariants in every cycle."""

    def __init__(self, dut: Any, plan: ReadPlan, chosen: Random, accepting: bool = True):
        self.dut = dut
        self.plan = plan
        self.memory = Memory()
        self.accepting = accepting
        self.taken: tuple[list[int], list[int]] = ([], [])
        self.requested = [0, 0]
        self.bursts = 0
        self.in_flight = 0
        self.accepted = 0
        Clock(dut.clk, 10, unit="ns").start()
        slave = AxiSlaveRead(AxiReadBus.from_prefix(dut, "axi"), dut.clk, dut.rst, target=self.memory)
        for channel in (slave.ar_channel, slave.r_channel):
            channel.set_pause_generator(pauses(Random(chosen.getrandbits(64))))
        StableMonitor(dut, "axi", ("ar",))
        self._gaps = [pauses(Random(chosen.getrandbits(64))) for _ in (BASE, DRAW)]

    async def start(self) -> None:
        dut, plan = self.dut, self.plan
        dut.enable.value = 0
        dut.load.value = 0
        dut.settings.value = settings_layout(CONFIG).const(plan.settings).as_bits()
        dut.model.value = plan.model
        dut.draw_sets.value = plan.sets
        for i in (BASE, DRAW):
            region = {"address": plan.addresses[i], "stride": plan.strides[i], "beats": plan.set_beats[i]}
            getattr(dut, f"regions_{i}").value = region_layout(CONFIG).const(region).as_bits()
            getattr(dut, f"beats_{i}_ready").value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0
        await RisingEdge(dut.clk)
        cocotb.start_soon(self._watch())
        dut.load.value = 1
        await RisingEdge(dut.clk)
        dut.load.value = 0
        dut.enable.value = 1

    async def _watch(self) -> None:
        new_burst = True
        while True:
            await RisingEdge(self.dut.clk)
            new_burst = self._check_addresses(new_burst)
            self._take_beats()

    def _check_addresses(self, new_burst: bool) -> bool:
        """Check the requests. Return whether a burst in the next cycle is a new one."""
        dut = self.dut
        valid, ready = bool(dut.axi_arvalid.value), bool(dut.axi_arready.value)
        assert bool(dut.idle.value) == (not valid and self.in_flight == 0)
        if valid and new_burst:
            stream = int(dut.axi_arid.value)
            self.bursts += 1
            self.requested[stream] += int(dut.axi_arlen.value) + 1
            assert self.requested[stream] - len(self.taken[stream]) <= CONFIG.fifo_beats, (
                "more beats requested than the FIFO holds"
            )
        assert dut.axi_rready.value
        beat = bool(dut.axi_rvalid.value)
        assert bool(dut.accepted.value) == beat
        self.accepted += beat
        self.in_flight += (valid and ready) - (beat and bool(dut.axi_rlast.value))
        return ready or not valid

    def _take_beats(self) -> None:
        for i, gaps in enumerate(self._gaps):
            valid, ready = (getattr(self.dut, f"beats_{i}_{name}") for name in ("valid", "ready"))
            if valid.value and ready.value:
                self.taken[i].append(int(getattr(self.dut, f"beats_{i}_payload").value))
            ready.value = self.accepting and not next(gaps)

    async def until(self, done: Callable[[], bool], what: str) -> None:
        for _ in range(TIMEOUT):
            await RisingEdge(self.dut.clk)
            if done():
                return
        raise AssertionError(f"waited {TIMEOUT} cycles for {what}")


async def all_beats(dut: Any) -> None:
    """Check that each stream's beats arrive, complete and in order, and nothing else."""
    chosen = Random(random.getrandbits(64))  # cocotb has seeded it
    plan = random_plan(chosen)
    dut._log.info("%s", plan)
    bench = ReaderBench(dut, plan, chosen)
    await bench.start()
    needed = [plan.needed(stream) for stream in (BASE, DRAW)]
    total = sum(map(len, needed))
    await bench.until(lambda: sum(map(len, bench.taken)) >= total, f"{total} beats")
    await ClockCycles(dut.clk, 100)
    for stream in (BASE, DRAW):
        assert bench.taken[stream] == [beat_at(address) for address in needed[stream]]
    assert dut.idle.value
    assert bench.accepted == total
    assert not dut.response.value


async def a_broken_beat(dut: Any) -> None:
    """Check that the error stays readable, and that the disabled reader accepts all pending beats and becomes idle."""
    chosen = Random(random.getrandbits(64))
    plan = random_plan(chosen)
    bench = ReaderBench(dut, plan, chosen)
    bench.memory.broken = chosen.choice(plan.needed(BASE) + plan.needed(DRAW))
    dut._log.info("%s, %#x broken", plan, bench.memory.broken)
    await bench.start()
    await bench.until(lambda: bool(dut.response.value), "the error")
    dut.enable.value = 0
    bench.accepting = False
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    bursts = bench.bursts
    await bench.until(lambda: bool(dut.idle.value), "idle")
    await ClockCycles(dut.clk, 50)
    assert dut.idle.value
    assert bench.bursts == bursts, "requested more after the error"
    assert sum(bench.requested) == bench.accepted, "beats are still in flight"
    assert int(dut.response.value) == SLVERR


@cocotb.test()
@cocotb.parametrize(attempt=range(20))
async def beats_complete_and_in_order(dut: Any, attempt: int) -> None:
    await all_beats(dut)


@cocotb.test()
@cocotb.parametrize(attempt=range(10))
async def an_error_stops_it(dut: Any, attempt: int) -> None:
    await a_broken_beat(dut)
