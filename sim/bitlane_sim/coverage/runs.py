"""The runs that fill the bins: random ones, and random ones to which something happens.

Those to which something happens are aimed at what is rare: the few cycles in which a model or a record is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.layout import BURST_BEATS
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import (
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    FIELDS,
    REGISTERS,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
)
from bitlane.driver import registers
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_sim.equivalence.random_jobs import Random, random_job
from bitlane_sim.equivalence.rig import EquivalenceRig, Variant
from bitlane_sim.rtl.harness import Disturbance, Moment

from .bins import Bins
from .clipping import watched
from .device import CONTROL, WatchedDevice, write_bursts
from .functional import observe_modes, observe_values, refused

RUN_REGISTERS = tuple(
    name for name, register in REGISTERS.items() if register.writable and name not in ("control", "irq_enable")
)
UNKNOWN = 0xFF0  # no register is there
AFTER = 80  # cycles in which the last results are stored
Happening = Callable[[WatchedDevice], None]


class CoverageRuns:
    """Random runs of one configuration, each checked, and the bins that they fill.

    Parameters
    ----------
    bench: with WatchedDevices for one configuration, and its emulator.
    bins: `functional.declared` of it.
    """

    def __init__(self, bench: EquivalenceRig, config: AcceleratorConfig, bins: Bins):
        self._bench, self._config, self._bins = bench, config, bins
        self.wrong: list[str] = []
        self._kinds: list[Callable[[Random], str]] = [
            *[self._well] * 8,
            *[self._aborted] * 3,
            *[self._reset] * 3,
            *[self._failed_read] * 2,
            *[self._failed_write] * 2,
            self._refused,
            self._touched,
        ]

    def one(self, seed: int) -> None:
        """A run that the seed chooses; what was wrong with it is added to `wrong`."""
        chosen = np.random.default_rng(seed)
        kind = self._kinds[chosen.integers(len(self._kinds))]
        self._note(seed, kind.__name__.strip("_"), kind(chosen))

    def one_well(self, seed: int) -> None:
        """The same, but nothing other than stalls happens to it."""
        self._note(seed, "well", self._well(np.random.default_rng(seed)))

    def _note(self, seed: int, kind: str, wrong: str) -> None:
        if wrong:
            self.wrong.append(f"seed {seed}, {kind}: {wrong}")

    def devices(self) -> list[WatchedDevice]:
        """All that were used."""
        return [self._device(variant) for variant in self._bench.rtl]

    def close(self) -> None:
        """Free the simulators."""
        self._bench.close()

    # --- what may happen
    def _well(self, chosen: Random) -> str:
        job = random_job(chosen, self._config)
        if chosen.integers(16) == 0:
            job = self._largest(chosen)
        return self._compare(job, self._bench.variant(chosen), self._disturbance(chosen))

    def _largest(self, chosen: Random) -> Job:
        """The most features and several snapshots: models fill pages."""
        while True:
            job = random_job(chosen, self._config, rows=8)
            if job.geometry.features == self._config.max_features and job.epochs > 1:
                return dataclasses.replace(job, snapshots=True)

    def _aborted(self, chosen: Random) -> str:
        def abort(device: WatchedDevice) -> None:
            wait(device)
            ended = device.irq
            device.abort()
            at.append((ended, device.monitor.written))

        at: list[tuple[bool, Moment]] = []
        job, variant = self._small(chosen)
        wait = self._wait(chosen, job)
        code = self._interrupted(chosen, job, variant, abort)
        device = self._device(variant)
        ended, written = at[0]
        phase = device.this_run(job).phase(written)
        if code == ErrorCode.ABORTED:
            self._bins.hit("end", code.name)
            if phase != "draining":
                self._bins.hit("error, phase", code.name, phase)
        elif code == ErrorCode.NONE and phase == "draining" and not ended:
            self._bins.hit("abort too late", phase)
        elif code != ErrorCode.NONE:
            return f"an abort ended with {code}"
        return self._next(chosen, variant)

    def _reset(self, chosen: Random) -> str:
        def reset(device: WatchedDevice) -> None:
            wait(device)
            ended.append(device.irq)
            device.reset()

        ended: list[bool] = []
        job, variant = self._small(chosen)
        wait = self._wait(chosen, job)
        self._interrupted(chosen, job, variant, reset)
        device = self._device(variant)
        if not ended[0]:
            self._bins.hit("reset", device.this_run(job).phase(device.monitor.reset))
        return self._next(chosen, variant)

    def _failed_read(self, chosen: Random) -> str:
        """A burst anywhere, or a beat that is read while an epoch's results are stored: its first after that."""
        job, variant = self._small(chosen)
        counts = predict(job.geometry, job.epochs, job.snapshots)
        if job.epochs == 1 or chosen.integers(2):
            which = {"read_error_burst": int(chosen.integers(counts.beats // BURST_BEATS + 1))}
            return self._failed(chosen, job, variant, "read", which, self._disturbance(chosen))
        models = job.geometry.load_beats
        epoch = (counts.beats - models) // job.epochs
        which = {"read_error_beat": models + epoch * int(chosen.integers(1, job.epochs)) + int(64 ** chosen.random())}
        return self._failed(chosen, job, variant, "read", which, self._slow(chosen))

    def _failed_write(self, chosen: Random) -> str:
        job, variant = self._small(chosen)
        which = {"write_error_burst": int(chosen.integers(write_bursts(job)))}
        stalls = self._slow(chosen) if chosen.integers(2) else self._disturbance(chosen)
        return self._failed(chosen, job, variant, "write", which, stalls)

    def _failed(
        self, chosen: Random, job: Job, variant: Variant, side: str, which: dict[str, int], stalls: Disturbance
    ) -> str:
        error: Literal["slave", "decode"] = "slave" if chosen.integers(2) else "decode"
        expected = ErrorCode[f"{side}_{error}".upper()]
        device = self._device(variant)
        stalls = dataclasses.replace(stalls, error=error, **which)
        code = self._run(job, device, stalls)
        if code == expected:
            self._bins.hit("end", code.name)
            phase = device.this_run(job).phase(device.monitor.error)
            if side == "write" or phase != "draining":
                self._bins.hit("error, phase", code.name, phase)
        elif code != ErrorCode.NONE:
            return f"{error} error, {which}, ended with {code}"
        return self._next(chosen, variant)

    def _refused(self, chosen: Random) -> str:
        """A run that ends well, and then each rule in turn broken in its registers."""
        job, variant = self._small(chosen)
        if wrong := self._compare(job, variant, Disturbance()):
            return wrong
        device = self._device(variant)
        for rule, values in refused(self._config).items():
            kept = {name: device.value(name) for name in values}
            self._set(device, values)
            beats = device.counters.read_beats
            device.write(CONTROL, CONTROL_START)
            device.run(1000)
            status = device.value("status")
            device.write(CONTROL, CONTROL_ACKNOWLEDGE)
            code = status >> STATUS_ERROR_SHIFT
            if not status & STATUS_DONE or code != ErrorCode.CONFIGURATION or device.counters.read_beats != beats:
                return f"{rule}: status {status:#x} after a start that should be refused"
            self._bins.hit("refused", rule)
            self._bins.hit("end", ErrorCode.CONFIGURATION.name)
            self._set(device, kept)
        return self._next(chosen, variant)

    def _touched(self, chosen: Random) -> str:
        """Every register read and written while a run goes on: nothing of it changes."""

        def touch(device: WatchedDevice) -> None:
            before = {name: device.value(name) for name in RUN_REGISTERS}
            for register in REGISTERS.values():
                for word in range(register.words):
                    if register.name not in ("control", "irq_enable"):
                        device.write(register.offset + 4 * word, int(chosen.integers(1 << 32)))
            device.write(UNKNOWN, 1)
            values = {name: device.value(name) for name in REGISTERS}
            if device.irq:
                return  # it ended meanwhile, so the registers took what was written
            if any(values[name] != value for name, value in before.items()):
                found.append("a register changed during the run")
            if device.read(UNKNOWN):
                found.append("an address without a register did not read 0")
            busy.append(True)

        found: list[str] = []
        busy: list[bool] = []
        variant = self._bench.variant(chosen)
        device = self._device(variant)
        device.on_start = touch
        wrong = self._compare(random_job(chosen, self._config), variant, Disturbance(stall_lite=0.1), watch=False)
        if busy and not found and not wrong:
            for name in ("written in a run", "read in a run", "unknown"):
                self._bins.hit("registers", name)
        return "; ".join([*found, *([wrong] if wrong else [])])

    # --- parts of these
    def _compare(self, job: Job, variant: Variant, disturbance: Disturbance, watch: bool = True) -> str:
        """A run that ends well, held against the reference."""
        with watched(job.state.settings) as seen:
            wrong = self._bench.compare(job, variant, disturbance)
        if not wrong and watch:
            device = self._device(variant)
            observe_modes(self._bins, {name: device.value(name) for name in (*RUN_REGISTERS, *FIELDS)}, self._config)
            observe_values(self._bins, seen)
            self._bins.hit("end", ErrorCode.NONE.name)
        return wrong

    def _next(self, chosen: Random, variant: Variant) -> str:
        """The run after one that did not end well."""
        wrong = self._compare(self._small(chosen)[0], variant, Disturbance())
        return f"the next run: {wrong}" if wrong else ""

    def _interrupted(self, chosen: Random, job: Job, variant: Variant, happening: Happening) -> ErrorCode | None:
        device = self._device(variant)
        device.on_start = happening
        return self._run(job, device, self._slow(chosen) if chosen.integers(4) == 0 else self._disturbance(chosen))

    def _run(self, job: Job, device: WatchedDevice, disturbance: Disturbance) -> ErrorCode | None:
        """How it ended; None where the driver found the device reset."""
        device.disturb(disturbance)
        try:
            Driver(device).run(job)
        except DeviceError as error:
            return ErrorCode(error.code)
        finally:
            device.on_start = None
        return ErrorCode.NONE

    def _small(self, chosen: Random) -> tuple[Job, Variant]:
        job = random_job(chosen, self._config, features=200, rows=12 * self._config.rows_per_beat, epochs=3)
        return job, self._bench.variant(chosen)

    def _device(self, variant: Variant) -> WatchedDevice:
        device = self._bench.rtl[variant]
        assert isinstance(device, WatchedDevice)
        return device

    @staticmethod
    def _disturbance(chosen: Random) -> Disturbance:
        return Disturbance.arbitrary(int(chosen.integers(1 << 31))) if chosen.integers(2) else Disturbance()

    @staticmethod
    def _slow(chosen: Random) -> Disturbance:
        """Storing takes long."""
        return Disturbance(int(chosen.integers(1 << 31)), stall_r=0.8, stall_aw=0.9, stall_w=0.9)

    @staticmethod
    def _wait(chosen: Random, job: Job) -> Happening:
        """Until a cycle of the run: anywhere, near its beginning or its end; or until so many bursts were written."""

        def at_cycle(device: WatchedDevice) -> None:
            device.run(cycles)

        def written(device: WatchedDevice) -> None:
            start = device.counters.write_bursts
            while not device.irq and device.counters.write_bursts - start < bursts:
                device.run(1)

        expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness)
        bursts = int(chosen.integers(1, write_bursts(job), endpoint=True))
        cycles = (
            int(chosen.integers(expected.cycles)),
            int(chosen.integers(40)),
            max(0, expected.cycles - int(chosen.integers(AFTER))),
        )[chosen.integers(3)]
        return written if chosen.integers(2) else at_cycle

    @staticmethod
    def _set(device: WatchedDevice, values: dict[str, int]) -> None:
        for name, value in values.items():
            registers.write(device, name, value)
