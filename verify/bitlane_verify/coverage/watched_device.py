"""The RTL as a device that can be disturbed during a run, and that knows the phase of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_ENCODE,
    CONTROL_START,
    REGISTERS,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
)
from bitlane.driver import registers
from bitlane.driver.job import Job
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.harness import Moment, Monitor

CONTROL, TRACE = (REGISTERS[name].offset for name in ("control", "trace"))
PHASES = ("loading", "training", "storing", "record", "draining")


@dataclass(frozen=True)
class RunPhases:
    """The limits between the phases of a run.

    Attributes
    ----------
    begin : Moment
        When the run was started.
    load_beats : int
        Read beats of the models and codebooks, of all ports.
    trace : int
        Address of the first record.
    write_bursts : int
        Bursts that the run writes.
    """

    begin: Moment
    load_beats: int
    trace: int
    write_bursts: int

    def phase(self, moment: Moment) -> str:
        """Return which of PHASES a moment is in.

        A write burst in progress means "storing" or "record". Otherwise a run that has sent all of its bursts waits for
        responses; before that it trains once the last beat of its models and codebooks was read.
        """
        if moment.sending is not None:
            return "storing" if moment.sending < self.trace else "record"
        if moment.write_bursts - self.begin.write_bursts >= self.write_bursts:
            return "draining"
        return "loading" if moment.base_beats - self.begin.base_beats < self.load_beats else "training"


class WatchedDevice(RtlDevice):
    """An RtlDevice that calls a function when a run or an encoding starts, and records when that was.

    Attributes
    ----------
    on_start : callable or None
        Called once, after the next start.
    run_start : Moment
        When the last run or encoding was started.
    """

    on_start: Callable[[WatchedDevice], None] | None = None
    run_start = Moment(None, 0, 0)
    _trace = 0

    @property
    def monitor(self) -> Monitor:
        """What the harness saw on the buses."""
        return self._harness.monitor

    def write_coverage(self, path: Path) -> None:
        """Write Verilator's counts to a file, see `Harness.write_coverage`."""
        self._harness.write_coverage(path)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""
        super().write(offset, value)
        if offset == TRACE:
            self._trace = value  # the memory lies below 2**32
        if offset == CONTROL and value & (CONTROL_START | CONTROL_ENCODE):
            self.run_start = self.monitor.written
            on_start, self.on_start = self.on_start, None
            if on_start is not None:
                on_start(self)

    def abort(self) -> None:
        """Abort the run as the driver does."""
        self.write(CONTROL, CONTROL_ABORT)

    def value(self, name: str) -> int:
        """Return the value of a register or of a field."""
        return registers.read(self, name)

    def refuses(self, command: int, values: dict[str, int]) -> str:
        """Give a command with these values in registers and fields, which then get the old ones back.

        Return what was wrong, or "" if the command ended as an illegal configuration, without an access to memory.
        """
        saved = {name: self.value(name) for name in values}
        self._set(values)
        before = self.counters.read_beats, self.counters.write_bursts
        self.write(CONTROL, command)
        self.run(1000)
        status = self.value("status")
        self.write(CONTROL, CONTROL_ACKNOWLEDGE)
        self._set(saved)
        refused = status & STATUS_DONE and status >> STATUS_ERROR_SHIFT == ErrorCode.CONFIGURATION
        untouched = (self.counters.read_beats, self.counters.write_bursts) == before
        return "" if refused and untouched else f"status {status:#x} after a start that must be refused"

    def _set(self, values: dict[str, int]) -> None:
        for name, value in values.items():
            registers.write(self, name, value)

    def phases(self, job: Job) -> RunPhases:
        """Return the phases of the last run, which was of this job."""
        beats = job.geometry.load_beats * job.geometry.ports
        return RunPhases(self.run_start, beats, self._trace, write_bursts(job))


def write_bursts(job: Job) -> int:
    """Return the number of bursts that a run writes: chunks of models on each port, and records on the first."""
    return first_port_bursts(job) * job.geometry.ports - job.epochs * (job.geometry.ports - 1)


def first_port_bursts(job: Job) -> int:
    """Return the bursts that a run writes on the first port; the others write no records."""
    models = job.epochs if job.snapshots else 1
    return models * job.geometry.outputs * job.geometry.chunks + job.epochs
