"""The RTL as a device that knows in which phase of a run something happened to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bitlane.contract.registers import CONTROL_ABORT, CONTROL_START, REGISTERS
from bitlane.driver import registers
from bitlane.driver.job import Job
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.harness import Moment, Monitor

CONTROL, TRACE = (REGISTERS[name].offset for name in ("control", "trace"))
PHASES = ("loading", "training", "storing", "record", "draining")


@dataclass(frozen=True)
class Run:
    """What tells the phases of a run apart, from its registers and its start."""

    start: Moment
    model_beats: int
    trace: int
    write_bursts: int

    def phase(self, moment: Moment) -> str:
        """One of PHASES.

        A burst under way on the write port says "storing" or "record". Otherwise a run that has sent all of its
        bursts waits for answers; before that it trains once the last beat of its models is there.
        """
        if moment.sending is not None:
            return "storing" if moment.sending < self.trace else "record"
        if moment.write_bursts - self.start.write_bursts >= self.write_bursts:
            return "draining"
        return "loading" if moment.base_beats - self.start.base_beats < self.model_beats else "training"


class WatchedDevice(RtlDevice):
    """An RtlDevice to which something may happen while it runs.

    Members
    -------
    on_start: called once, after the next start of a run; None for nothing.
    run_start: when the last run was started.
    """

    on_start: Callable[[WatchedDevice], None] | None = None
    run_start = Moment(None, 0, 0)
    _trace = 0

    @property
    def monitor(self) -> Monitor:
        """What has been seen on the buses."""
        return self._harness.monitor

    def write_coverage(self, path: Path) -> None:
        """See `Harness.write_coverage`."""
        self._harness.write_coverage(path)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""
        super().write(offset, value)
        if offset == TRACE:
            self._trace = value  # the memory lies below 2**32
        if offset == CONTROL and value & CONTROL_START:
            self.run_start = self.monitor.written
            happening, self.on_start = self.on_start, None
            if happening is not None:
                happening(self)

    def abort(self) -> None:
        """Ask for the end of the run, as the driver would."""
        self.write(CONTROL, CONTROL_ABORT)

    def value(self, name: str) -> int:
        """A whole register, or a field."""
        return registers.read(self, name)

    def this_run(self, job: Job) -> Run:
        """The run that started last, of this job."""
        return Run(self.run_start, job.geometry.load_beats, self._trace, write_bursts(job))


def write_bursts(job: Job) -> int:
    """Bursts that a run writes: chunks of models, and records."""
    models = job.epochs if job.snapshots else 1
    return models * job.geometry.outputs * job.geometry.chunks + job.epochs
