"""Random runs behind the memory ports of a chip, and the coverpoints of the adapters.

The runs are those of `bitlane_verify.equivalence.zynq_soak`, each compared with the reference: undisturbed, with
stalls, with errors of the HP ports, and after a reset in the run before, which the ports outlive. What the ports do
comes from the harness's monitor; a length counts the words of one port.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.layout import BURST_BEATS, CHUNK_MODEL_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_hw.zynq.fabric import ADDRESS_BITS
from bitlane_hw.zynq.two_ports import WIDTH
from bitlane_sim.rtl.disturbance import WRITE_ORDERS, Disturbance
from bitlane_verify.equivalence.random_jobs import Random, random_job
from bitlane_verify.equivalence.rig import CAPACITY
from bitlane_verify.equivalence.zynq_soak import ZynqRig

from . import buses
from .covergroup import Covergroup
from .watched_device import PHASES, RunPhases, WatchedDevice, write_bursts

CONFIGS = {
    f"Zynq-7000, {name}": AcceleratorConfig(width, max_features=256, row_buffer_beats=256, address_bits=ADDRESS_BITS)
    for width, name in ((64, "one HP port"), (128, "two HP ports"))
} | {"Zynq UltraScale+, two ports": AcceleratorConfig(WIDTH, max_features=256, row_buffer_beats=256)}
CUT_OFF = ("no write burst", "a write burst")
PAGE_CHUNKS = 4096 // CHUNK_MODEL_BYTES  # chunks of models that fill a page
SKEWS = {0: "with the first", 1: "1 cycle later", 40: "40 cycles later"}  # those of `Disturbance.arbitrary`


def declare(config: AcceleratorConfig) -> Covergroup:
    """Return the coverpoints of a build's adapters, empty."""
    group = Covergroup()
    group.declare("read burst, words", read_lengths(config))
    group.declare("write burst", write_lengths(config))
    buses.declare(group)
    group.cross("write order, reads", WRITE_ORDERS, ("in order", "mixed"))
    if ports(config) > 1:
        group.declare("answers of the second port", SKEWS.values())
    group.declare("end", ("NONE", *buses.MEMORY_ERRORS))
    group.declare("reset, the ports go on", PHASES)
    group.declare("reset, within", CUT_OFF)
    return group


def ports(config: AcceleratorConfig) -> int:
    """Return the number of memory ports."""
    return min(config.rows_per_beat, 2)


def read_lengths(config: AcceleratorConfig) -> tuple[int, ...]:
    """Return the lengths of the read bursts of a port: two ports have pairs of words."""
    return tuple(range(ports(config), BURST_BEATS + 1, ports(config)))


def write_lengths(config: AcceleratorConfig) -> dict[str, int]:
    """Return the words of the write bursts, all of which the first port sends."""
    return {"chunk": config.chunk_beats * ports(config), "record": config.record_beats * ports(config)}


class ResetDevice(WatchedDevice):
    """A WatchedDevice that notes whether its run had ended when it was reset."""

    has_ended = False

    def reset(self, cycles: int = 4) -> None:
        """Reset the design."""
        self.has_ended = self.irq
        super().reset(cycles)


def open_rig(config: AcceleratorConfig, library: Path) -> ZynqRig:
    """Return the rig of a build, with a device for `ZynqStimulus`."""
    timing = MemoryTiming(60, 40)
    return ZynqRig(config, timing, ResetDevice(config, 2 * CAPACITY, timing, library=library))


class ZynqStimulus:
    """Random runs of one build; they fill a covergroup.

    Parameters
    ----------
    rig : ZynqRig
        The build, whose device is a WatchedDevice, and its reference.
    group : Covergroup
        What `declare` returned for it.

    Attributes
    ----------
    failures : list of str
        What was wrong, with the seed.
    """

    def __init__(self, rig: ZynqRig, group: Covergroup):
        self._rig, self._group = rig, group
        self.failures: list[str] = []

    @property
    def device(self) -> ResetDevice:
        """The device of the rig."""
        assert isinstance(self._rig.rtl, ResetDevice)
        return self._rig.rtl

    def run(self, seed: int) -> None:
        """Do a run of a kind that the seed chooses."""
        rng = np.random.default_rng(seed)
        kind = (self._compared, self._compared, self._after_reset, self._failed)[rng.integers(4)]
        wrong = kind(rng)
        if wrong:
            self.failures.append(f"seed {seed}, {kind.__name__.strip('_')}: {wrong}")

    def sample_buses(self) -> None:
        """Sample all that the monitor of the device has seen so far."""
        monitor, config = self.device.monitor, self._rig.config
        for words in read_lengths(config):
            self._group.hit("read burst, words", words, times=monitor.read_lengths[words])
        for name, words in write_lengths(config).items():
            self._group.hit("write burst", name, times=monitor.write_lengths[words])
        buses.sample(self._group, monitor)

    # --- kinds of runs; each returns what was wrong, or ""
    def _compared(self, rng: Random) -> str:
        stalls = Disturbance.arbitrary(int(rng.integers(1 << 31)))
        wrong = self._rig.run(self._job(rng), stalls)[1]
        if not wrong:
            self._group.hit("end", ErrorCode.NONE.name)
            self._group.hit("write order, reads", stalls.write_order, ("in order", "mixed")[stalls.interleave])
            if ports(self._rig.config) > 1:
                self._group.hit("answers of the second port", SKEWS[stalls.skew])
        return "; ".join(wrong)

    def _after_reset(self, rng: Random) -> str:
        """Reset the logic in a run. The write burst that was cut off is one of the first port, which sends them all."""
        phases: list[RunPhases] = []
        first, device = self._job(rng), self.device
        device.on_start = lambda device: phases.append(device.phases(first))
        stalls = Disturbance.arbitrary(int(rng.integers(1 << 31)))
        if rng.integers(2):
            stalls = dataclasses.replace(stalls, stall_w=0.9, stall_b=0.9)
        wrong = self._rig.run_after_reset(rng, first, self._job(rng), stalls)
        if not wrong and not device.has_ended:
            reset = device.monitor.reset
            words = first.geometry.load_beats * ports(self._rig.config)
            self._group.hit("reset, the ports go on", dataclasses.replace(phases[0], load_beats=words).phase(reset))
            self._group.hit("reset, within", CUT_OFF[reset.sending is not None])
        return "; ".join(wrong)

    def _failed(self, rng: Random) -> str:
        job, error = self._job(rng), ("slave", "decode")[rng.integers(2)]
        counts = predict(job.geometry, job.epochs, job.snapshots)
        side: Literal["read", "write"] = "read" if rng.integers(2) else "write"
        bursts = counts.beats // BURST_BEATS + 1 if side == "read" else write_bursts(job)
        which: dict[str, Any] = {f"{side}_error_burst": int(rng.integers(bursts)), "error": error}
        self.device.disturb(dataclasses.replace(Disturbance.arbitrary(int(rng.integers(1 << 31))), **which))
        expected = ErrorCode[f"{side}_{error}".upper()]
        try:
            Driver(self.device).run(job)
        except DeviceError as failure:
            if failure.code != expected:
                return f"{failure.code} instead of {expected}"
            self._group.hit("end", expected.name)
        wrong = self._rig.run(self._job(rng))[1]
        return f"the next run: {'; '.join(wrong)}" if wrong else ""

    # --- helpers
    def _job(self, rng: Random) -> Job:
        rows = 12 * self._rig.config.rows_per_beat
        job = random_job(rng, self._rig.config, features=200, rows=rows, epochs=3)
        if rng.integers(4) == 0:
            return dataclasses.replace(job, snapshots=True, epochs=PAGE_CHUNKS // job.geometry.chunks + 1)
        return job
