"""The phases of a run, how it ends when something goes wrong in any cycle, and a clean start after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from tests.helpers.blocks import Run, config, run, settings

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import ErrorCode
from bitlane_hw.control.control import Control
from bitlane_hw.memory.writer import Writer

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
MODEL_OUT, TRACE = 0x8000_0080, 0x9000_0080
CAUSES = {
    "abort": ErrorCode.ABORTED,
    "read SLVERR": ErrorCode.READ_SLAVE,
    "read DECERR": ErrorCode.READ_DECODE,
    "write SLVERR": ErrorCode.WRITE_SLAVE,
    "write DECERR": ErrorCode.WRITE_DECODE,
}
BUILDS = pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (2, 3), (8, 2), (8, 15)])
Event = tuple[Any, ...]


@dataclass(frozen=True)
class Job:
    """A run: its shape, and what shall go wrong, and when, in cycles after the start."""

    rows_per_beat: int = 1
    outputs: int = 1
    chunks: int = 2
    epochs: int = 2
    snapshots: bool = True
    refused: bool = False
    cause: str | None = None
    at: int = 0

    @property
    def config(self) -> AcceleratorConfig:
        return config(self.rows_per_beat, self.outputs)

    @property
    def geometry(self) -> Run:
        return Run(self.chunks, 1, 0, 1, 1, self.epochs, rows_per_beat=self.rows_per_beat, outputs=self.outputs)

    @property
    def chunk_beats(self) -> int:
        """16 words a chunk."""
        return 16 // self.rows_per_beat

    @property
    def record_beats(self) -> int:
        """Cycles and losses, in a power of two of words and whole beats."""
        return (
            max(next(words for words in (2, 4, 8, 16) if words > self.outputs), self.rows_per_beat)
            // self.rows_per_beat
        )


def expected_events(job: Job) -> list[Event]:
    """What a run that nothing stops does, in order."""
    events: list[Event] = [("load",)]
    model, trace = MODEL_OUT, TRACE
    for epoch in range(job.epochs):
        if job.snapshots or epoch == job.epochs - 1:
            for output in range(job.outputs):
                for chunk in range(job.chunks):
                    events.append(("store", model, job.chunk_beats, output, chunk))
                    model += 128
        events += [("record", trace, job.record_beats), ("go",)]
        trace += 8 * job.rows_per_beat * job.record_beats
    return events


class World:
    """The engine, the writer and the region sizes as `Control` sees them, each taking its time."""

    def __init__(self, rng: Random, dut: Control):
        self.rng = rng
        self.dut = dut
        self.reset()

    def reset(self) -> None:
        self.sizes = self.rng.randint(2, 5)
        self.training = self.rng.randint(1, 6)
        self.sending = 0
        self.sent: Event = ()
        self.answer = 0
        self.reading = 0
        self.read_response = self.write_response = OKAY

    def inputs(self, ctx: Any) -> None:
        dut = self.dut
        ctx.set(dut.sizes_done, self.sizes == 0)
        ctx.set(dut.epoch_done, self.training == 1)
        ctx.set(dut.requests.ready, self.sending == 0)
        self.idle = (self.reading == 0, self.sending == 0 and self.answer == 0)
        ctx.set(dut.read_idle, self.idle[0])
        ctx.set(dut.write_idle, self.idle[1])
        ctx.set(dut.read_response, self.read_response)
        ctx.set(dut.write_response, self.write_response)

    def outputs(self, ctx: Any) -> list[Event]:
        """Moves on by a cycle; returns what was asked for in it."""
        dut, rng = self.dut, self.rng
        events: list[Event] = []
        self.sizes -= self.sizes > 0
        enabled = ctx.get(dut.enable)
        if enabled:
            self.reading = rng.randint(1, 8)
            self.training -= self.training > 0
        else:
            self.reading -= self.reading > 0
        if self.sending:
            assert self._stored(ctx) == self.sent, "another source while its beats go out"
            self.sending -= 1
            if not self.sending:
                self.answer = rng.randint(1, 5)
        else:
            self.answer -= self.answer > 0
        asked = ctx.get(dut.requests.valid) and ctx.get(dut.requests.ready)
        assert ctx.get(dut.store_begin) == asked
        if ctx.get(dut.load) and ctx.get(dut.sizes_done):  # those before it are of sizes that are not right yet
            events.append(("load",))
        if asked:
            payload = ctx.get(dut.requests.payload)
            self.sent = kind, *which = self._stored(ctx)
            events.append((kind, payload.address, payload.beats, *which))
            self.sending = rng.randint(1, 4)
        if ctx.get(dut.epoch_go):
            events.append(("go",))
            self.training = rng.randint(2, 6)
        if ctx.get(dut.clear):
            self.reset()
        assert len(events) <= 1, "one thing at a time"
        return events

    def _stored(self, ctx: Any) -> Event:
        """What the next beats are of."""
        dut = self.dut
        assert ctx.get(dut.storing) != ctx.get(dut.store_trace)
        if ctx.get(dut.store_trace):
            return ("record",)
        return ("store", ctx.get(dut.store_output), ctx.get(dut.store_chunk))

    def go_wrong(self, ctx: Any, cause: str) -> None:
        kind, _, response = cause.partition(" ")
        if kind == "abort":
            ctx.set(self.dut.abort, 1)
        else:
            setattr(self, f"{kind}_response", {"SLVERR": SLVERR, "DECERR": DECERR}[response])


async def do(ctx: Any, dut: Control, world: World, job: Job) -> tuple[list[Event], int]:
    """One run from start to done: its events and its cycles; all that must hold in every cycle is checked."""
    ctx.set(dut.settings, settings(job.geometry))
    ctx.set(dut.snapshots, job.snapshots)
    ctx.set(dut.model_out, MODEL_OUT)
    ctx.set(dut.trace, TRACE)
    ctx.set(dut.refused, job.refused)
    world.inputs(ctx)
    ctx.set(dut.start, 1)
    assert ctx.get(dut.clear) and ctx.get(dut.sizes_start)
    world.outputs(ctx)
    await ctx.tick()
    ctx.set(dut.start, 0)

    everything = expected_events(job)
    events: list[Event] = []
    stopped: int | None = None
    late: list[str] = []
    for cycle in range(3000):
        assert ctx.get(dut.busy) and not ctx.get(dut.done)
        assert ctx.get(dut.cycles) == cycle
        assert ctx.get(dut.epoch) == events.count(("go",))
        ctx.set(dut.abort, 0)
        if job.cause is not None and cycle == job.at:
            world.go_wrong(ctx, job.cause)
            if job.cause != "abort" or events != everything:  # an abort when all is stored is too late
                stopped = cycle
        world.inputs(ctx)
        assert not ctx.get(dut.clear) and not ctx.get(dut.sizes_start)
        if stopped is not None and cycle > stopped:
            assert not ctx.get(dut.enable), "goes on after an error"
            assert ctx.get(dut.error) == CAUSES[job.cause]
        if ctx.get(dut.epoch_done) and ctx.get(dut.enable):
            stamp = cycle
        idle = world.idle
        new = world.outputs(ctx)
        events += new
        if stopped is not None and cycle > stopped:
            late += [event[0] for event in new]
        if new and new[0][0] in ("record", "go"):
            assert ctx.get(dut.stamp) == stamp
        await ctx.tick()
        if not ctx.get(dut.busy):
            break
    ctx.set(dut.abort, 0)
    assert ctx.get(dut.done) and not ctx.get(dut.busy), "did not end"
    assert len(late) <= 2 and late.count("store") + late.count("record") <= 1 and "load" not in late, "a new phase"
    assert idle == (True, True), "done with something in flight"
    assert ctx.get(dut.cycles) == cycle + 1
    assert not ctx.get(dut.enable)
    assert ctx.get(dut.error) == (
        ErrorCode.CONFIGURATION if job.refused else ErrorCode.NONE if stopped is None else CAUSES[job.cause]
    )
    return events, cycle + 1


@BUILDS
@pytest.mark.parametrize("snapshots", [True, False])
def test_phases(seed: int, snapshots: bool, rows_per_beat: int, outputs: int) -> None:
    """Outputs one after the other, of each all chunks; then the record, and on to the next epoch."""
    rng = Random(seed)
    dut = Control(config(rows_per_beat, outputs))

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        for _ in range(3):
            job = Job(rows_per_beat, outputs, rng.randint(1, 4), rng.randint(1, 3), snapshots)
            events, _ = await do(ctx, dut, world, job)
            assert events == expected_events(job)
            assert ctx.get(dut.epoch) == job.epochs
            if rng.random() < 0.5:
                ctx.set(dut.acknowledge, 1)
                await ctx.tick()
                ctx.set(dut.acknowledge, 0)
                assert not ctx.get(dut.done)

    run(dut, testbench)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("whole", [Job(epochs=3, snapshots=False), Job(rows_per_beat=2, outputs=2)], ids=["one", "two"])
def test_errors_in_every_cycle(seed: int, cause: str, whole: Job) -> None:
    """Ends with the right code, after the burst that was going on; the next run knows nothing of it."""
    dut = Control(whole.config)
    everything = expected_events(whole)

    async def testbench(ctx: Any) -> None:
        world = World(Random(seed), dut)
        at = 0
        while True:
            world.rng = Random(seed)  # the same run each time
            events, cycles = await do(ctx, dut, world, whole)
            assert events == everything
            if at >= cycles:
                break
            world.rng = Random(seed)
            events, stopped = await do(ctx, dut, world, replace(whole, cause=cause, at=at))
            assert events == everything[: len(events)]
            assert stopped <= at + 40
            at += 1

    run(dut, testbench)


@pytest.mark.parametrize("rows_per_beat", [1, 2, 4, 8])
@pytest.mark.parametrize(("outputs", "chunks"), [(1, 1), (3, 2), (15, 1)])
def test_cycles_of_storing(rows_per_beat: int, outputs: int, chunks: int) -> None:
    """With a real writer and a fast memory: 16 / rows_per_beat + 3 cycles a chunk, and 3 more than the record's."""
    job = Job(rows_per_beat, outputs, chunks, epochs=2, snapshots=False)
    m = Module()
    m.submodules.control = control = Control(job.config)
    m.submodules.writer = writer = Writer(job.config)
    connect(m, control.requests, writer.requests)
    m.d.comb += [control.write_idle.eq(writer.idle), control.read_idle.eq(1), control.sizes_done.eq(1)]
    m.d.sync += writer.axi.bvalid.eq(writer.axi.wvalid & writer.axi.wlast)

    async def testbench(ctx: Any) -> None:
        ctx.set(control.settings, settings(job.geometry))
        ctx.set(writer.axi.awready, 1)
        ctx.set(writer.axi.wready, 1)
        ctx.set(control.start, 1)
        await ctx.tick().until(control.enable)
        ctx.set(control.start, 0)
        for models in (0, outputs * chunks):  # the last epoch's are stored
            ctx.set(control.epoch_done, 1)
            await ctx.tick()
            ctx.set(control.epoch_done, 0)
            cycles = 0
            while not ctx.get(control.epoch_go):
                cycles += 1
                assert cycles < 1000
                await ctx.tick()
            assert cycles == models * (16 // rows_per_beat + 3) + job.record_beats + 3
            await ctx.tick().repeat(2)  # an epoch is longer than a cycle
        await ctx.tick().repeat(5)
        assert ctx.get(control.done)

    run(m, testbench)


def test_refused(seed: int) -> None:
    """Nothing happens at all."""
    rng = Random(seed)
    dut = Control(config())

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        for _ in range(3):
            events, cycles = await do(ctx, dut, world, Job(refused=True))
            assert events == []
            assert cycles < 5
            events, _ = await do(ctx, dut, world, Job())
            assert events == expected_events(Job())

    run(dut, testbench)


def test_acknowledge_and_abort_when_idle(seed: int) -> None:
    rng = Random(seed)
    dut = Control(config())

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        await do(ctx, dut, world, Job(cause="abort", at=3))
        for _ in range(3):
            assert ctx.get(dut.done)
            assert ctx.get(dut.error) == ErrorCode.ABORTED
            await ctx.tick()
        ctx.set(dut.acknowledge, 1)
        await ctx.tick()
        ctx.set(dut.acknowledge, 0)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        await ctx.tick()
        ctx.set(dut.abort, 0)
        assert not ctx.get(dut.done)
        assert not ctx.get(dut.busy)
        assert ctx.get(dut.error) == ErrorCode.NONE

    run(dut, testbench)


def test_the_first_error_stays() -> None:
    """While a stopped run waits for its last transfers, later errors change nothing, nor do start and acknowledge."""
    dut = Control(config())

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        for name, value in (("read_response", SLVERR), ("write_response", DECERR), ("start", 1), ("acknowledge", 1)):
            ctx.set(getattr(dut, name), value)
            await ctx.tick()
            assert not ctx.get(dut.clear)
        ctx.set(dut.start, 0)
        ctx.set(dut.acknowledge, 0)
        assert ctx.get(dut.error) == ErrorCode.ABORTED
        assert ctx.get(dut.busy)
        ctx.set(dut.read_idle, 1)
        await ctx.tick()
        assert ctx.get(dut.busy), "the write port is not idle yet"
        ctx.set(dut.write_idle, 1)
        await ctx.tick()
        assert ctx.get(dut.done)
        assert ctx.get(dut.error) == ErrorCode.ABORTED

    run(dut, testbench)


@pytest.mark.parametrize(
    ("read", "write", "abort", "error"),
    [
        (SLVERR, DECERR, 1, ErrorCode.READ_SLAVE),
        (DECERR, SLVERR, 0, ErrorCode.READ_DECODE),
        (OKAY, SLVERR, 1, ErrorCode.WRITE_SLAVE),
    ],
)
def test_errors_at_once(read: int, write: int, abort: int, error: ErrorCode) -> None:
    """A read's goes before a write's, that before an abort."""
    dut = Control(config())

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.read_response, read)
        ctx.set(dut.write_response, write)
        ctx.set(dut.abort, abort)
        await ctx.tick()
        assert ctx.get(dut.error) == error

    run(dut, testbench)
