"""A recorded run of the driver, which a testbench repeats: register writes, and memory before and after."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.registers import CONTROL_START, REGISTERS
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job

Words = npt.NDArray[np.uint64]
CAPACITY = 1 << 20  # bytes of memory; the emulator's starts at a multiple of it
# Registers whose final values do not depend on the timing of the bus.
RESULTS = ("epoch", "step_now", "step_negative_now", "penalty_step_now", "phase_now", "beats", "saturations")


@dataclass(frozen=True)
class Recording:
    """A recorded run.

    Attributes
    ----------
    writes : list of (int, int)
        Offset and value of each register write in order, except those of the control register.
    results : dict of str to int
        Final values of the registers in `RESULTS`.
    record_words : int
        Words of an epoch's trace record.
    before, after : ndarray of uint64, shape (CAPACITY / 8,)
        Memory of the device.
    """

    writes: list[tuple[int, int]]
    results: dict[str, int]
    record_words: int
    before: Words
    after: Words

    def save(self, folder: Path) -> None:
        """Write `recording.json`, `before.npy` and `after.npy`."""
        facts = {"writes": self.writes, "results": self.results, "record_words": self.record_words}
        (folder / "recording.json").write_text(json.dumps(facts))
        np.save(folder / "before.npy", self.before)
        np.save(folder / "after.npy", self.after)

    @classmethod
    def load(cls, folder: Path) -> Recording:
        return cls(
            **json.loads((folder / "recording.json").read_text()),
            before=np.load(folder / "before.npy"),
            after=np.load(folder / "after.npy"),
        )

    def same_memory(self, words: Words) -> Words:
        """Return the indices of words that differ from `after`, except the cycles in the trace."""
        values = {offset: value for offset, value in self.writes}
        trace, epochs = values[REGISTERS["trace"].offset], values[REGISTERS["epochs"].offset]
        differs = words != self.after
        first = trace % CAPACITY // 8
        differs[first : first + self.record_words * epochs : self.record_words] = False
        return np.flatnonzero(differs).astype(np.uint64)


class _Recorder(EmulatorDevice):
    def __init__(self, geometry: Geometry) -> None:
        super().__init__(AcceleratorConfig(geometry.rows_per_beat * WORD_BITS, geometry.outputs), CAPACITY)
        self.writes: list[tuple[int, int]] = []
        self.before: Words | None = None

    def write(self, offset: int, value: int) -> None:
        if offset != REGISTERS["control"].offset:
            self.writes.append((offset, value))
        elif value & CONTROL_START:
            self.before = self._memory.copy()
        super().write(offset, value)

    @property
    def memory(self) -> Words:
        return self._memory


def record(job: Job) -> Recording:
    """Run a job on the emulator and record it."""
    device = _Recorder(job.geometry)
    outcome = Driver(device).run(job)
    assert device.before is not None
    now = outcome.state.settings
    registers = {**asdict(outcome.counters), "epoch": job.epochs, "phase_now": now.phase}
    registers |= {"step_now": now.step, "step_negative_now": now.step_negative, "penalty_step_now": now.penalty_step}
    results = {name: registers[name] for name in RESULTS}
    return Recording(device.writes, results, job.geometry.record_words, device.before, device.memory.copy())
