"""The RTL and the numpy reference side by side, and a comparison of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult
from bitlane_sim.rtl.device import BASE_ADDRESS, RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance

from .random_jobs import CONFIGS, Random, random_job

CAPACITY = 16 << 20


TIMINGS = tuple(
    MemoryTiming(latency) for latency in (1, 7, 30, 60, 100)
)  # read latencies that the prefetch buffers cover


DISTURBED = 0.5  # share of the runs with stalls on the buses


def random_stalls(chosen: Random) -> Disturbance:
    """Return stalls on the buses, or none, as often."""
    return Disturbance.arbitrary(int(chosen.integers(1 << 31))) if chosen.integers(2) else Disturbance()


def rtl_device(config: AcceleratorConfig, capacity_bytes: int, timing: MemoryTiming) -> RtlDevice:
    """Return the RTL with a memory; with an even read latency it ends at the end of the address space."""
    top = (1 << config.address_bits) - capacity_bytes
    return RtlDevice(config, capacity_bytes, timing, base_address=BASE_ADDRESS if timing.read_latency % 2 else top)


@dataclass(frozen=True)
class Variant:
    """A build and the timing of its memory."""

    config: AcceleratorConfig
    timing: MemoryTiming


class EquivalenceRig:
    """The RTL of several builds with memories of several timings, and the reference of each build.

    Parameters
    ----------
    configs : sequence of AcceleratorConfig
        The builds.
    capacity_bytes : int
        Size of each device's memory.
    timings : sequence of MemoryTiming
        The memories of each build.
    open_device : callable
        `open_device(config, capacity_bytes, timing)` opens the RTL.

    Attributes
    ----------
    rtl : dict of Variant to RtlDevice
    emulators : dict of AcceleratorConfig to EmulatorDevice
    """

    def __init__(
        self,
        configs: Sequence[AcceleratorConfig] = CONFIGS,
        capacity_bytes: int = CAPACITY,
        timings: Sequence[MemoryTiming] = TIMINGS,
        open_device: Callable[[AcceleratorConfig, int, MemoryTiming], RtlDevice] = rtl_device,
    ):
        self.rtl = {
            Variant(config, timing): open_device(config, capacity_bytes, timing)
            for config in configs
            for timing in timings
        }
        self.emulators = {config: EmulatorDevice(config, capacity_bytes) for config in configs}

    def run(self, seed: int) -> str:
        """Run one random job. Return the differences in words with everything to repeat it, or ""."""
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
        """Return a random variant."""
        return list(self.rtl)[chosen.integers(len(self.rtl))]

    def compare(self, job: Job, variant: Variant, disturbance: Disturbance = Disturbance()) -> str:  # noqa: B008
        """Run a job on the RTL and on the reference. Return the differences in words, or "".

        Without a disturbance, cycles and stalls are compared with the prediction too.
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
    """Return the differences between the bits of two results: everything that does not depend on memory timing."""
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
    """Return the differences between measured cycles and the prediction of `bitlane.contract.cycles`.

    `random`: whether the build has random rounding.
    """
    expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, timing, random)
    pairs = {
        name: (getattr(got.counters, name), getattr(expected, name))
        for name in ("cycles", "stall_memory", "stall_model")
    }
    return _different(pairs | {"epoch_cycles": (got.epoch_cycles, expected.epoch_cycles)})


def _different(pairs: dict[str, tuple[object, object]]) -> list[str]:
    return [f"{name}: {a} instead of {b}" for name, (a, b) in pairs.items() if not np.array_equal(a, b)]  # type: ignore[arg-type]
