"""Random runs of one build: undisturbed ones, and ones with aborts, resets, errors and register accesses.

Most of the disturbances aim at short phases, in which a model or a record is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.layout import BURST_BEATS
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import (
    CONTROL_START,
    FIELDS,
    REGISTERS,
)
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.harness import Moment
from bitlane_verify.equivalence.random_jobs import Random, random_job
from bitlane_verify.equivalence.rig import EquivalenceRig, Variant, random_stalls

from . import ports
from .covergroup import Covergroup
from .functional import sample_reference, sample_registers
from .illegal_registers import illegal_registers
from .reference_events import reference_events
from .watched_device import WatchedDevice, first_port_bursts, write_bursts

RUN_REGISTERS = tuple(
    name for name, register in REGISTERS.items() if register.writable and name not in ("control", "irq_enable")
)
UNKNOWN = 0xFF0  # an address without a register
LAST_CYCLES = 80  # of a run, in which the last results are stored
Action = Callable[[WatchedDevice], None]  # during a run


class Stimulus:
    """Random runs of one build, each checked against the reference; they fill a covergroup.

    Parameters
    ----------
    rig : EquivalenceRig
        WatchedDevices of the build, and its emulator.
    config : AcceleratorConfig
        The build.
    group : Covergroup
        What `functional.declare` returned for it.

    Attributes
    ----------
    failures : list of str
        What was wrong, with the seed.
    """

    def __init__(self, rig: EquivalenceRig, config: AcceleratorConfig, group: Covergroup):
        self._rig = rig
        self._config = config
        self._group = group
        self.failures: list[str] = []
        self._kinds: list[Callable[[Random], str]] = [
            *[self._undisturbed] * 8,
            *[self._aborted] * 3,
            *[self._reset] * 3,
            *[self._read_error] * 4,
            *[self._write_error] * 2,
            self._refused,
            self._accessed,
        ]

    def run(self, seed: int) -> None:
        """Do a run of a kind that the seed chooses."""
        rng = np.random.default_rng(seed)
        kind = self._kinds[rng.integers(len(self._kinds))]
        self._note(seed, kind.__name__.strip("_"), kind(rng))

    def run_undisturbed(self, seed: int) -> None:
        """Do a run with stalls at most."""
        self._note(seed, "undisturbed", self._undisturbed(np.random.default_rng(seed)))

    def devices(self) -> list[WatchedDevice]:
        """Return all devices of the rig."""
        return [self._device(variant) for variant in self._rig.rtl]

    def close(self) -> None:
        """Free the simulators."""
        self._rig.close()

    def _note(self, seed: int, kind: str, wrong: str) -> None:
        if wrong:
            self.failures.append(f"seed {seed}, {kind}: {wrong}")

    # --- kinds of runs; each returns what was wrong, or ""
    def _undisturbed(self, rng: Random) -> str:
        job = random_job(rng, self._config)
        if rng.integers(16) == 0:
            job = self._largest(rng)
        return self._compare(job, self._rig.variant(rng), random_stalls(rng))

    def _largest(self, rng: Random) -> Job:
        """Return a job with the most features and several snapshots: models fill pages."""
        while True:
            job = random_job(rng, self._config, rows=8)
            if job.geometry.features == self._config.max_features and job.epochs > 1:
                return dataclasses.replace(job, snapshots=True)

    def _aborted(self, rng: Random) -> str:
        def abort(device: WatchedDevice) -> None:
            wait(device)
            has_ended = device.irq
            device.abort()
            at.append((has_ended, device.monitor.written))

        at: list[tuple[bool, Moment]] = []
        job, variant = self._small(rng)
        wait = self._wait(rng, job)
        code = self._run_with(rng, job, variant, abort)
        has_ended, written = at[0]
        phase = self._device(variant).phases(job).phase(written)
        if code == ErrorCode.ABORTED:
            self._group.hit("end", code.name)
            if phase != "draining":
                self._group.hit("error, phase", code.name, phase)
        elif code == ErrorCode.NONE and phase == "draining" and not has_ended:
            self._group.hit("abort too late", phase)
        elif code != ErrorCode.NONE:
            return f"an abort ended with {code}"
        return self._recovers(rng, variant)

    def _reset(self, rng: Random) -> str:
        def reset(device: WatchedDevice) -> None:
            wait(device)
            has_ended.append(device.irq)
            device.reset()

        has_ended: list[bool] = []
        job, variant = self._small(rng)
        wait = self._wait(rng, job)
        self._run_with(rng, job, variant, reset)
        device = self._device(variant)
        if not has_ended[0]:
            self._group.hit("reset", device.phases(job).phase(device.monitor.reset))
        return self._recovers(rng, variant)

    def _read_error(self, rng: Random) -> str:
        """In any burst, or in one of the first beats that are read while an epoch's results are stored."""
        job, variant = self._small(rng)
        counts = predict(job.geometry, job.epochs, job.snapshots)
        if job.epochs == 1 or rng.integers(2):
            which = {"read_error_burst": int(rng.integers(counts.beats // BURST_BEATS + 1))}
            return self._error(rng, job, variant, "read", which, random_stalls(rng))
        load = job.geometry.load_beats
        epoch = (counts.beats - load) // job.epochs
        which = {"read_error_beat": load + epoch * int(rng.integers(1, job.epochs)) + int(64 ** rng.random())}
        return self._error(rng, job, variant, "read", which, self._slow_stores(rng))

    def _write_error(self, rng: Random) -> str:
        job, variant = self._small(rng)
        which = {"write_error_burst": int(rng.integers(first_port_bursts(job)))}
        stalls = self._slow_stores(rng) if rng.integers(2) else random_stalls(rng)
        return self._error(rng, job, variant, "write", which, stalls)

    def _error(
        self, rng: Random, job: Job, variant: Variant, side: str, which: dict[str, Any], stalls: Disturbance
    ) -> str:
        error: Literal["slave", "decode"] = "slave" if rng.integers(2) else "decode"
        expected = ErrorCode[f"{side}_{error}".upper()]
        device = self._device(variant)
        disturbance = dataclasses.replace(stalls, error=error, **which)
        code = self._run(job, device, disturbance)
        if code == expected:
            self._group.hit("end", code.name)
            ports.sample_error(self._group, self._config, disturbance, code.name)
            phase = device.phases(job).phase(device.monitor.error_moment)
            if side == "write" or phase != "draining":
                self._group.hit("error, phase", code.name, phase)
        elif code != ErrorCode.NONE:
            return f"{error} error, {which}, ended with {code}"
        return self._recovers(rng, variant)

    def _refused(self, rng: Random) -> str:
        """A run without an error, and then each rule in turn broken in its registers."""
        job, variant = self._small(rng)
        if wrong := self._compare(job, variant, Disturbance()):
            return wrong
        device = self._device(variant)
        for rule, values in illegal_registers(self._config).items():
            if wrong := device.refuses(CONTROL_START, values):
                return f"{rule}: {wrong}"
            self._group.hit("refused", rule)
            self._group.hit("end", ErrorCode.CONFIGURATION.name)
        return self._recovers(rng, variant)

    def _accessed(self, rng: Random) -> str:
        """Every register read and written during a run: nothing of the run changes."""

        def access(device: WatchedDevice) -> None:
            before = {name: device.value(name) for name in RUN_REGISTERS}
            for register in REGISTERS.values():
                for word in range(register.words):
                    if register.name not in ("control", "irq_enable"):
                        device.write(register.offset + 4 * word, int(rng.integers(1 << 32)))
            device.write(UNKNOWN, 1)
            values = {name: device.value(name) for name in REGISTERS}
            if device.irq:
                return  # the run ended meanwhile, so the registers took the values
            if any(values[name] != value for name, value in before.items()):
                problems.append("a register changed during the run")
            if device.read(UNKNOWN):
                problems.append("an address without a register did not read 0")
            was_busy.append(True)

        problems: list[str] = []
        was_busy: list[bool] = []
        variant = self._rig.variant(rng)
        device = self._device(variant)
        device.on_start = access
        wrong = self._compare(random_job(rng, self._config), variant, Disturbance(stall_lite=0.1), sample=False)
        if was_busy and not problems and not wrong:
            for name in ("written in a run", "read in a run", "unknown"):
                self._group.hit("registers", name)
        return "; ".join([*problems, *([wrong] if wrong else [])])

    # --- helpers
    def _compare(self, job: Job, variant: Variant, disturbance: Disturbance, sample: bool = True) -> str:
        """Compare a run with the reference, and sample it when they are equal."""
        device = self._device(variant)
        before = device.monitor
        with reference_events(job.state.settings, self._config.rows_per_beat) as events:
            wrong = self._rig.compare(job, variant, disturbance)
        if not wrong and sample:
            names = (*RUN_REGISTERS, *FIELDS, "level_slots")
            sample_registers(self._group, {name: device.value(name) for name in names}, self._config)
            sample_reference(self._group, events)
            ports.sample_stalls(self._group, self._config, disturbance, before, device.monitor)
            self._group.hit("end", ErrorCode.NONE.name)
        return wrong

    def _recovers(self, rng: Random, variant: Variant) -> str:
        """Compare the run after one that was interrupted."""
        wrong = self._compare(self._small(rng)[0], variant, Disturbance())
        return f"the next run: {wrong}" if wrong else ""

    def _run_with(self, rng: Random, job: Job, variant: Variant, action: Action) -> ErrorCode:
        """Do a run with an action; return how it ended."""
        device = self._device(variant)
        device.on_start = action
        return self._run(job, device, self._slow_stores(rng) if rng.integers(4) == 0 else random_stalls(rng))

    def _run(self, job: Job, device: WatchedDevice, disturbance: Disturbance) -> ErrorCode:
        """Return how a run ended; NONE when the driver found the device reset."""
        device.disturb(disturbance)
        try:
            Driver(device).run(job)
        except DeviceError as error:
            return ErrorCode(error.code)
        finally:
            device.on_start = None
        return ErrorCode.NONE

    def _small(self, rng: Random) -> tuple[Job, Variant]:
        job = random_job(rng, self._config, features=200, rows=12 * self._config.rows_per_beat, epochs=3)
        return job, self._rig.variant(rng)

    def _device(self, variant: Variant) -> WatchedDevice:
        device = self._rig.rtl[variant]
        assert isinstance(device, WatchedDevice)
        return device

    @staticmethod
    def _slow_stores(rng: Random) -> Disturbance:
        alone = (None, int(rng.integers(8)))[rng.integers(2)]
        return Disturbance(int(rng.integers(1 << 31)), stall_r=0.8, stall_aw=0.9, stall_w=0.9, alone=alone)

    @staticmethod
    def _wait(rng: Random, job: Job) -> Action:
        """Wait for a cycle: anywhere, near the start or near the end; or until some bursts were written."""

        def for_cycle(device: WatchedDevice) -> None:
            device.run(cycles)

        def for_bursts(device: WatchedDevice) -> None:
            start = device.counters.write_bursts
            while not device.irq and device.counters.write_bursts - start < bursts:
                device.run(1)

        expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness)
        bursts = int(rng.integers(1, write_bursts(job), endpoint=True))
        cycles = (
            int(rng.integers(expected.cycles)),
            int(rng.integers(40)),
            max(0, expected.cycles - int(rng.integers(LAST_CYCLES))),
        )[rng.integers(3)]
        return for_bursts if rng.integers(2) else for_cycle
