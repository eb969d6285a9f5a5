"""The RTL beside the numpy reference, and a comparison of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.harness import Disturbance

from .random_jobs import CONFIGS, Random, random_job

CAPACITY = 16 << 20


TIMINGS = tuple(MemoryTiming(latency) for latency in (1, 7, 30, 60, 100))  # what the prefetch buffers cover


DISTURBED = 0.5  # of the runs have stalls on the buses


@dataclass(frozen=True)
class Variant:
    """Hardware, and a memory behind it."""

    config: AcceleratorConfig
    timing: MemoryTiming


class EquivalenceRig:
    """The RTL in several configurations, each with memories of several timings, the reference, and a comparison."""

    def __init__(
        self,
        configs: Sequence[AcceleratorConfig] = CONFIGS,
        capacity_bytes: int = CAPACITY,
        timings: Sequence[MemoryTiming] = TIMINGS,
        device: Callable[[AcceleratorConfig, int, MemoryTiming], RtlDevice] = RtlDevice,
    ):
        self.rtl = {
            Variant(config, timing): device(config, capacity_bytes, timing) for config in configs for timing in timings
        }
        self.emulators = {config: EmulatorDevice(config, capacity_bytes) for config in configs}

    def run(self, seed: int) -> str:
        """One random run; what was wrong, in words, or empty."""
        chosen = np.random.default_rng(seed)
        variant = self.variant(chosen)
        job = random_job(chosen, variant.config)
        disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
        wrong = self.compare(job, variant, disturbance)
        return (
            f"seed {seed}: {wrong}; {variant}, {job.geometry}, {job.epochs} epochs, {job.state.settings}"
            if wrong
            else ""
        )

    def variant(self, chosen: Random) -> Variant:
        """One of those that there are."""
        return list(self.rtl)[chosen.integers(len(self.rtl))]

    def compare(self, job: Job, variant: Variant, disturbance: Disturbance = Disturbance()) -> str:  # noqa: B008
        """What differs between the RTL's outcome and the reference's, in words; empty when nothing does.

        Cycles and stalls are held against the prediction where nothing disturbs the buses.
        """
        self.rtl[variant].disturb(disturbance)
        got = Driver(self.rtl[variant]).run(job)
        expected = Driver(self.emulators[variant.config]).run(job)
        wrong = difference(got, expected)
        if disturbance == Disturbance():
            wrong += cycle_difference(got, job, variant.timing, variant.config.random_rounding)
        return "; ".join(wrong)

    def close(self) -> None:
        """Free the simulators."""
        for device in self.rtl.values():
            device.close()


def difference(got: JobResult, expected: JobResult) -> list[str]:
    """Which bits, that no memory's speed can change, differ between two outcomes."""
    pairs: dict[str, tuple[object, object]] = {
        "loss": (got.loss, expected.loss),
        "snapshots": (got.snapshots, expected.snapshots),
        "master": (got.state.master, expected.state.master),
        "settings": (got.state.settings, expected.state.settings),
    }
    pairs |= {
        name: (getattr(got.counters, name), getattr(expected.counters, name)) for name in ("beats", "saturations")
    }
    return _different(pairs)


def cycle_difference(got: JobResult, job: Job, timing: MemoryTiming, random: bool = False) -> list[str]:
    """Which times differ from what `bitlane.contract.cycles` predicts, for hardware with random rounding or without."""
    expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, timing, random)
    pairs = {
        name: (getattr(got.counters, name), getattr(expected, name))
        for name in ("cycles", "stall_memory", "stall_model")
    }
    return _different(pairs | {"epoch_cycles": (got.epoch_cycles, expected.epoch_cycles)})


def _different(pairs: dict[str, tuple[object, object]]) -> list[str]:
    return [f"{name}: {a} instead of {b}" for name, (a, b) in pairs.items() if not np.array_equal(a, b)]  # type: ignore[arg-type]
