"""The phases of a run, its end after an error in any cycle, and a clean start of the next run."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module
from tests.helpers.control_runs import (
    CAUSES,
    DECERR,
    OKAY,
    SLVERR,
    ControlJob,
    Environment,
    execute,
    expected_events,
)
from tests.helpers.run_shapes import settings, small_config
from tests.helpers.simulation import run

from bitlane.contract.modes import ErrorCode
from bitlane_hw.control.control import Control
from bitlane_hw.memory.writer import Writer

BUILDS = pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (2, 3), (8, 2), (8, 15)])


@BUILDS
@pytest.mark.parametrize("snapshots", [True, False])
def test_phases(seed: int, snapshots: bool, rows_per_beat: int, outputs: int) -> None:
    """All chunks of each output, one output after the other; then the record, and the next epoch."""
    rng = Random(seed)
    dut = Control(small_config(rows_per_beat, outputs))

    async def testbench(ctx: Any) -> None:
        environment = Environment(rng, dut)
        for _ in range(3):
            job = ControlJob(rows_per_beat, outputs, rng.randint(1, 4), rng.randint(1, 3), snapshots)
            events, _ = await execute(ctx, dut, environment, job)
            assert events == expected_events(job)
            assert ctx.get(dut.epoch) == job.epochs
            if rng.random() < 0.5:
                ctx.set(dut.acknowledge, 1)
                await ctx.tick()
                ctx.set(dut.acknowledge, 0)
                assert not ctx.get(dut.done)

    run(dut, testbench)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize(
    "job", [ControlJob(epochs=3, snapshots=False), ControlJob(rows_per_beat=2, outputs=2)], ids=["one", "two"]
)
def test_an_error_in_any_cycle_ends_the_run(seed: int, cause: str, job: ControlJob) -> None:
    """The run ends with the right code after the current burst; the next run is not affected."""
    dut = Control(job.config)
    all_events = expected_events(job)

    async def testbench(ctx: Any) -> None:
        environment = Environment(Random(seed), dut)
        at = 0
        while True:
            environment.rng = Random(seed)  # the same run each time
            events, cycles = await execute(ctx, dut, environment, job)
            assert events == all_events
            if at >= cycles:
                break
            environment.rng = Random(seed)
            events, stopped = await execute(ctx, dut, environment, replace(job, cause=cause, at=at))
            assert events == all_events[: len(events)]
            assert stopped <= at + 40
            at += 1

    run(dut, testbench)


@pytest.mark.parametrize("rows_per_beat", [1, 2, 4, 8])
@pytest.mark.parametrize(("outputs", "chunks"), [(1, 1), (3, 2), (15, 1)])
def test_cycles_to_store_models_and_record(rows_per_beat: int, outputs: int, chunks: int) -> None:
    """16 / rows_per_beat + 2 cycles a chunk, and 2 more than the beats of the record, with a fast memory."""
    job = ControlJob(rows_per_beat, outputs, chunks, epochs=2, snapshots=False)
    m = Module()
    m.submodules.control = control = Control(job.config)
    m.submodules.writer = writer = Writer(job.config)
    requests = control.run.requests
    m.d.comb += [
        writer.requests.valid.eq(requests.valid),
        writer.requests.payload.address.eq(requests.payload.addresses),
        writer.requests.payload.beats.eq(requests.payload.beats),
        requests.ready.eq(writer.requests.ready),
    ]
    m.d.comb += [control.writes.idle.eq(writer.idle), control.reads.idle.eq(1), control.sizes_done.eq(1)]
    m.d.sync += writer.axi.bvalid.eq(writer.axi.wvalid & writer.axi.wlast)

    async def testbench(ctx: Any) -> None:
        ctx.set(control.settings, settings(job.geometry))
        ctx.set(writer.axi.awready, 1)
        ctx.set(writer.axi.wready, 1)
        ctx.set(control.start, 1)
        await ctx.tick().until(control.run.enable)
        ctx.set(control.start, 0)
        for models in (0, outputs * chunks):  # the models of the last epoch are stored
            ctx.set(control.run.epoch_done, 1)
            await ctx.tick()
            ctx.set(control.run.epoch_done, 0)
            cycles = 0
            while not ctx.get(control.run.epoch_go):
                cycles += 1
                assert cycles < 1000
                await ctx.tick()
            assert cycles == models * (16 // rows_per_beat + 2) + job.record_beats + 2
            await ctx.tick().repeat(2)  # an epoch takes more than one cycle
        await ctx.tick().repeat(5)
        assert ctx.get(control.done)

    run(m, testbench)


def test_a_refused_run_does_nothing(seed: int) -> None:
    """A refused run has no event."""
    rng = Random(seed)
    dut = Control(small_config())

    async def testbench(ctx: Any) -> None:
        environment = Environment(rng, dut)
        for _ in range(3):
            events, cycles = await execute(ctx, dut, environment, ControlJob(refused=True))
            assert events == []
            assert cycles < 5
            events, _ = await execute(ctx, dut, environment, ControlJob())
            assert events == expected_events(ControlJob())

    run(dut, testbench)


def test_acknowledge_and_abort_when_idle(seed: int) -> None:
    rng = Random(seed)
    dut = Control(small_config())

    async def testbench(ctx: Any) -> None:
        environment = Environment(rng, dut)
        await execute(ctx, dut, environment, ControlJob(cause="abort", at=3))
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


def test_the_first_error_is_reported() -> None:
    """While a stopped run waits for its last transfers, later errors, start and acknowledge have no effect."""
    dut = Control(small_config())

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await ctx.tick()
        ctx.set(dut.abort, 1)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        for signal, value in (
            (dut.reads.response, SLVERR),
            (dut.writes.response, DECERR),
            (dut.start, 1),
            (dut.acknowledge, 1),
        ):
            ctx.set(signal, value)
            await ctx.tick()
            assert not ctx.get(dut.clear)
        ctx.set(dut.start, 0)
        ctx.set(dut.acknowledge, 0)
        assert ctx.get(dut.error) == ErrorCode.ABORTED
        assert ctx.get(dut.busy)
        ctx.set(dut.reads.idle, 1)
        await ctx.tick()
        assert ctx.get(dut.busy), "the write port is not idle yet"
        ctx.set(dut.writes.idle, 1)
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
def test_priority_of_simultaneous_errors(read: int, write: int, abort: int, error: ErrorCode) -> None:
    """A read error precedes a write error, and a write error an abort."""
    dut = Control(small_config())

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await ctx.tick()
        ctx.set(dut.reads.response, read)
        ctx.set(dut.writes.response, write)
        ctx.set(dut.abort, abort)
        await ctx.tick()
        assert ctx.get(dut.error) == error

    run(dut, testbench)


@pytest.mark.parametrize("cause", [None, *CAUSES, "refused"])
def test_encoding(seed: int, cause: str | None) -> None:
    """The encoder alone works, until it is done or something fails; a training after it is not affected."""
    rng = Random(seed)
    dut = Control(replace(small_config(), encoder=1))

    async def testbench(ctx: Any) -> None:
        for signal in (dut.reads.idle, dut.writes.idle, dut.sizes_done):
            ctx.set(signal, 1)
        for _ in range(4):
            ctx.set(dut.encode, 1)
            await ctx.tick()
            ctx.set(dut.encode, 0)
            assert ctx.get(dut.clear) and ctx.get(dut.encoding)
            await ctx.tick().repeat(2)
            while not ctx.get(dut.encode_enable):
                await ctx.tick()
            for _ in range(rng.randint(1, 50)):
                assert ctx.get(dut.busy) and ctx.get(dut.encode_enable) and not ctx.get(dut.run.enable)
                await ctx.tick()
            signal, value = {
                None: (dut.encoded, 1),
                "abort": (dut.abort, 1),
                "read SLVERR": (dut.reads.response, SLVERR),
                "read DECERR": (dut.reads.response, DECERR),
                "write SLVERR": (dut.writes.response, SLVERR),
                "write DECERR": (dut.writes.response, DECERR),
                "refused": (dut.refused, 1),
            }[cause]
            ctx.set(signal, value)
            ctx.set(dut.reads.idle, 0)
            await ctx.tick()
            if cause is not None:
                assert not ctx.get(dut.encode_enable)
            await ctx.tick().repeat(3)
            assert ctx.get(dut.busy)  # a burst is outstanding
            ctx.set(dut.reads.idle, 1)
            await ctx.tick().repeat(2)
            code = ErrorCode.CONFIGURATION if cause == "refused" else CAUSES.get(cause or "", ErrorCode.NONE)
            assert ctx.get(dut.done) and not ctx.get(dut.busy) and ctx.get(dut.error) == code.value
            ctx.set(signal, 0)
            ctx.set(dut.acknowledge, 1)
            await ctx.tick()
            ctx.set(dut.acknowledge, 0)
        ctx.set(dut.settings, settings(ControlJob().geometry))
        ctx.set(dut.start, 1)
        ctx.set(dut.encode, 1)  # a start goes first
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.encode, 0)
        assert not ctx.get(dut.encoding)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.run.enable) and not ctx.get(dut.encode_enable)

    run(dut, testbench)


@pytest.mark.parametrize("kind", ["start", "encode"])
def test_a_start_during_a_run_does_not_change_what_runs(seed: int, kind: str) -> None:
    """Neither in the cycle before the run is busy, nor in any later one; without a run both begin what they say."""
    rng = Random(seed)
    dut = Control(replace(small_config(), encoder=1))

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, settings(ControlJob().geometry))
        ctx.set(dut.sizes_done, 1)
        ctx.set(getattr(dut, kind), 1)
        await ctx.tick()
        ctx.set(getattr(dut, kind), 0)
        assert ctx.get(dut.clear)
        for _ in range(30):
            for name in ("start", "encode"):
                ctx.set(getattr(dut, name), rng.random() < 0.5)
            await ctx.tick()
            assert ctx.get(dut.busy) and ctx.get(dut.encoding) == (kind == "encode")

    run(dut, testbench)
