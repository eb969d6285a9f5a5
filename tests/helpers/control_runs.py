"""Runs of `Control`: their events, its environment, and the checks of every cycle."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.helpers.run_shapes import RunShape, settings, small_config

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import ErrorCode
from bitlane_hw.control.control import Control

OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
MODEL_OUT, TRACE = 0x8000_0080, 0x9000_0080
CAUSES = {
    "abort": ErrorCode.ABORTED,
    "read SLVERR": ErrorCode.READ_SLAVE,
    "read DECERR": ErrorCode.READ_DECODE,
    "write SLVERR": ErrorCode.WRITE_SLAVE,
    "write DECERR": ErrorCode.WRITE_DECODE,
}
Event = tuple[Any, ...]


@dataclass(frozen=True)
class ControlJob:
    """A run: its shape, and the error to inject with its cycle after the start."""

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
        return small_config(self.rows_per_beat, self.outputs)

    @property
    def geometry(self) -> RunShape:
        return RunShape(self.chunks, 1, 0, 1, 1, self.epochs, rows_per_beat=self.rows_per_beat, outputs=self.outputs)

    @property
    def chunk_beats(self) -> int:
        """Beats of a chunk of 16 words."""
        return 16 // self.rows_per_beat

    @property
    def record_beats(self) -> int:
        """Beats of cycles and losses, in a power of two of words."""
        return (
            max(next(words for words in (2, 4, 8, 16) if words > self.outputs), self.rows_per_beat)
            // self.rows_per_beat
        )


def expected_events(job: ControlJob) -> list[Event]:
    """Return the events of a run without errors, in order."""
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


class Environment:
    """The engine, the writer and the region sizes as `Control` sees them, with random delays."""

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
        ctx.set(dut.run.epoch_done, self.training == 1)
        ctx.set(dut.run.requests.ready, self.sending == 0)
        self.idle = (self.reading == 0, self.sending == 0 and self.answer == 0)
        ctx.set(dut.reads.idle, self.idle[0])
        ctx.set(dut.writes.idle, self.idle[1])
        ctx.set(dut.reads.response, self.read_response)
        ctx.set(dut.writes.response, self.write_response)

    def outputs(self, ctx: Any) -> list[Event]:
        """Advance by a cycle; return the requests in it."""
        dut, rng = self.dut, self.rng
        events: list[Event] = []
        self.sizes -= self.sizes > 0
        enabled = ctx.get(dut.run.enable)
        if enabled:
            self.reading = rng.randint(1, 8)
            self.training -= self.training > 0
        else:
            self.reading -= self.reading > 0
        if self.sending:
            assert self._stored(ctx) == self.sent, "the source changed while its beats were sent"
            self.sending -= 1
            if not self.sending:
                self.answer = rng.randint(1, 5)
        else:
            self.answer -= self.answer > 0
        asked = ctx.get(dut.run.requests.valid) and ctx.get(dut.run.requests.ready)
        assert ctx.get(dut.run.store_begin) == asked
        if ctx.get(dut.run.load) and ctx.get(dut.sizes_done):  # before that the sizes are not valid
            events.append(("load",))
        if asked:
            payload = ctx.get(dut.run.requests.payload)
            self.sent = kind, *which = self._stored(ctx)
            events.append((kind, payload.addresses, payload.beats, *which))
            self.sending = rng.randint(1, 4)
        if ctx.get(dut.run.epoch_go):
            events.append(("go",))
            self.training = rng.randint(2, 6)
        if ctx.get(dut.clear):
            self.reset()
        assert len(events) <= 1, "more than one event in a cycle"
        return events

    def _stored(self, ctx: Any) -> Event:
        """Return the source of the next beats."""
        dut = self.dut
        assert ctx.get(dut.run.storing) != ctx.get(dut.run.store_trace)
        if ctx.get(dut.run.store_trace):
            return ("record",)
        return ("store", ctx.get(dut.run.store_output), ctx.get(dut.run.store_chunk))

    def inject(self, ctx: Any, cause: str) -> None:
        kind, _, response = cause.partition(" ")
        if kind == "abort":
            ctx.set(self.dut.abort, 1)
        else:
            setattr(self, f"{kind}_response", {"SLVERR": SLVERR, "DECERR": DECERR}[response])


async def execute(ctx: Any, dut: Control, environment: Environment, job: ControlJob) -> tuple[list[Event], int]:
    """Execute one run and check what must hold in every cycle; return its events and its cycles."""
    ctx.set(dut.settings, settings(job.geometry))
    ctx.set(dut.snapshots, job.snapshots)
    ctx.set(dut.model_out[0], MODEL_OUT)
    ctx.set(dut.trace, TRACE)
    ctx.set(dut.refused, job.refused)
    environment.inputs(ctx)
    ctx.set(dut.start, 1)
    assert not ctx.get(dut.clear)
    await ctx.tick()
    ctx.set(dut.start, 0)
    environment.inputs(ctx)
    assert ctx.get(dut.clear) and not ctx.get(dut.busy)
    environment.outputs(ctx)
    await ctx.tick()

    all_events = expected_events(job)
    events: list[Event] = []
    stopped: int | None = None
    after_stop: list[str] = []
    for cycle in range(3000):
        assert ctx.get(dut.busy) and not ctx.get(dut.done)
        assert ctx.get(dut.cycles) == cycle
        assert ctx.get(dut.epoch) == events.count(("go",))
        ctx.set(dut.abort, 0)
        if job.cause is not None and cycle == job.at:
            environment.inject(ctx, job.cause)
            if job.cause != "abort" or events != all_events:  # an abort after the last store has no effect
                stopped = cycle
        environment.inputs(ctx)
        assert not ctx.get(dut.clear)
        if stopped is not None and cycle > stopped:
            assert not ctx.get(dut.run.enable), "enabled after an error"
            assert ctx.get(dut.error) == CAUSES[job.cause]
        if ctx.get(dut.run.epoch_done) and ctx.get(dut.run.enable):
            stamp = cycle
        idle = environment.idle
        current = environment.outputs(ctx)
        events += current
        if stopped is not None and cycle > stopped:
            after_stop += [event[0] for event in current]
        if current and current[0][0] in ("record", "go"):
            assert ctx.get(dut.run.stamp) == stamp
        await ctx.tick()
        if not ctx.get(dut.busy):
            break
    ctx.set(dut.abort, 0)
    assert ctx.get(dut.done) and not ctx.get(dut.busy), "the run did not end"
    assert (
        len(after_stop) <= 2
        and after_stop.count("store") + after_stop.count("record") <= 1
        and "load" not in after_stop
    ), "a new phase"
    assert idle == (True, True), "done before the end of all transfers"
    assert ctx.get(dut.cycles) == cycle + 1
    assert not ctx.get(dut.run.enable)
    assert ctx.get(dut.error) == (
        ErrorCode.CONFIGURATION if job.refused else ErrorCode.NONE if stopped is None else CAUSES[job.cause]
    )
    return events, cycle + 1
