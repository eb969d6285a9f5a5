"""The phases of a run, how it ends when something goes wrong in any cycle, and a clean start after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from bitlane_hw.contract import ErrorCode
from bitlane_hw.control import Control

from .support import CONFIG, Run, run, settings

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
MODEL_OUT, TRACE = 0x8000_0080, 0x9000_0010
CAUSES = {
    "abort": ErrorCode.ABORTED,
    "read SLVERR": ErrorCode.READ_SLAVE,
    "read DECERR": ErrorCode.READ_DECODE,
    "write SLVERR": ErrorCode.WRITE_SLAVE,
    "write DECERR": ErrorCode.WRITE_DECODE,
}
Event = tuple[Any, ...]


@dataclass(frozen=True)
class Job:
    """A run: its shape, and what shall go wrong, and when, in cycles after the start."""

    chunks: int = 2
    epochs: int = 2
    snapshots: bool = True
    refused: bool = False
    cause: str | None = None
    at: int = 0


def expected_events(job: Job) -> list[Event]:
    """What a run that nothing stops does, in order."""
    events: list[Event] = [("load",)]
    model = MODEL_OUT
    for epoch in range(job.epochs):
        if job.snapshots or epoch == job.epochs - 1:
            for chunk in range(job.chunks):
                events += [("fetch", chunk), ("capture",), ("request", model, 16)]
                model += 128
        events += [("trace",), ("request", TRACE + 16 * epoch, 2), ("go",)]
    return events


class World:
    """The engine, the writer and the region sizes as `Control` sees them, each taking its time."""

    def __init__(self, rng: Random, dut: Control):
        self.rng = rng
        self.dut = dut
        self.too_late = False  # an abort came when all was over
        self.reset()

    def reset(self) -> None:
        self.sizes = self.rng.randint(1, 4)
        self.training = self.rng.randint(1, 6)
        self.sending = 0
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
            self.sending -= 1
            if not self.sending:
                self.answer = rng.randint(1, 5)
        else:
            self.answer -= self.answer > 0
        if ctx.get(dut.load):
            events.append(("load",))
        if ctx.get(dut.fetch):
            events.append(("fetch", ctx.get(dut.store_chunk)))
        if ctx.get(dut.capture):
            events.append(("capture",))
        if ctx.get(dut.capture_trace):
            events.append(("trace",))
        if ctx.get(dut.requests.valid) and ctx.get(dut.requests.ready):
            payload = ctx.get(dut.requests.payload)
            events.append(("request", payload.address, payload.words))
            self.sending = rng.randint(1, 4)
        if ctx.get(dut.epoch_go):
            events.append(("go",))
            self.training = rng.randint(2, 6)
        if ctx.get(dut.clear):
            self.reset()
        assert len(events) <= 1, "one thing at a time"
        return events

    def go_wrong(self, ctx: Any, cause: str) -> None:
        kind, _, response = cause.partition(" ")
        if kind == "abort":
            ctx.set(self.dut.abort, 1)
        else:
            setattr(self, f"{kind}_response", {"SLVERR": SLVERR, "DECERR": DECERR}[response])


async def do(ctx: Any, dut: Control, world: World, job: Job) -> tuple[list[Event], int]:
    """One run from start to done: its events and its cycles; all that must hold in every cycle is checked."""
    geometry = Run(job.chunks, 1, 0, 1, 1, job.epochs)
    ctx.set(dut.settings, settings(geometry))
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
    ctx.set(dut.refused, 0)

    events: list[Event] = []
    stopped: int | None = None
    late: list[str] = []
    for cycle in range(400):
        assert ctx.get(dut.busy) and not ctx.get(dut.done)
        assert ctx.get(dut.cycles) == cycle
        ctx.set(dut.abort, 0)
        if job.cause is not None and cycle == job.at:
            world.go_wrong(ctx, job.cause)
            world.too_late = job.cause == "abort" and bool(ctx.get(dut.drain))
            if not world.too_late:
                stopped = cycle
        world.inputs(ctx)
        assert not ctx.get(dut.clear) and not ctx.get(dut.sizes_start)
        if stopped is not None and cycle > stopped:
            assert not ctx.get(dut.enable), "goes on after an error"
            assert ctx.get(dut.error) == CAUSES[job.cause]
        if ctx.get(dut.epoch_done) and ctx.get(dut.enable):
            stamp = cycle
        before, idle = list(events), world.idle
        events += world.outputs(ctx)
        if stopped is not None and cycle > stopped:
            late += [event[0] for event in events[len(before) :]]
        if events[-1:] == [("trace",)] and events != before:
            assert ctx.get(dut.stamp) == stamp
        if events[-1:] == [("capture",)] and events != before:
            assert before[-1] == ("fetch", ctx.get(dut.store_chunk))
        await ctx.tick()
        if not ctx.get(dut.busy):
            break
    ctx.set(dut.abort, 0)
    assert ctx.get(dut.done) and not ctx.get(dut.busy), "did not end"
    assert late.count("request") <= 1 and "load" not in late, "a new phase after an error"
    assert idle == (True, True), "done with something in flight"
    assert ctx.get(dut.cycles) == cycle + 1
    assert not ctx.get(dut.enable)
    return events, cycle + 1


@pytest.mark.parametrize("snapshots", [True, False])
def test_phases(seed: int, snapshots: bool) -> None:
    rng = Random(seed)
    dut = Control(CONFIG)

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        for _ in range(6):
            job = Job(rng.randint(1, CONFIG.max_chunks), rng.randint(1, 4), snapshots)
            events, _ = await do(ctx, dut, world, job)
            assert events == expected_events(job)
            assert ctx.get(dut.epoch) == job.epochs
            assert ctx.get(dut.error) == ErrorCode.NONE
            if rng.random() < 0.5:
                ctx.set(dut.acknowledge, 1)
                await ctx.tick()
                ctx.set(dut.acknowledge, 0)
                assert not ctx.get(dut.done)

    run(dut, testbench)


@pytest.mark.parametrize("cause", CAUSES)
def test_errors_in_every_cycle(seed: int, cause: str) -> None:
    """Ends with the right code, after the burst that was going on; the next run knows nothing of it."""
    rng = Random(seed)
    dut = Control(CONFIG)
    whole = Job()
    everything = expected_events(whole)

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        at = 0
        phases = set()
        while True:
            world.rng = Random(seed)  # the same run each time
            events, cycles = await do(ctx, dut, world, whole)
            assert events == everything
            assert ctx.get(dut.error) == ErrorCode.NONE
            if at >= cycles:
                break
            world.rng = Random(seed)  # the same run each time
            job = replace(whole, cause=cause, at=at)
            events, stopped = await do(ctx, dut, world, job)
            if world.too_late:
                assert ctx.get(dut.error) == ErrorCode.NONE and events == everything
            else:
                assert ctx.get(dut.error) == CAUSES[cause]
            assert events == everything[: len(events)]
            phases.add(events[-1][0] if events else "check")
            assert stopped <= at + 40
            at += 1
        assert phases >= {"load", "request", "go"}

    run(dut, testbench)


def test_refused(seed: int) -> None:
    rng = Random(seed)
    dut = Control(CONFIG)

    async def testbench(ctx: Any) -> None:
        world = World(rng, dut)
        for _ in range(3):
            events, cycles = await do(ctx, dut, world, Job(refused=True))
            assert events == []
            assert cycles < 5
            assert ctx.get(dut.error) == ErrorCode.CONFIGURATION
            events, _ = await do(ctx, dut, world, Job())
            assert events == expected_events(Job())
            assert ctx.get(dut.error) == ErrorCode.NONE

    run(dut, testbench)


def test_acknowledge_and_abort_when_idle(seed: int) -> None:
    rng = Random(seed)
    dut = Control(CONFIG)

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
    dut = Control(CONFIG)

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
