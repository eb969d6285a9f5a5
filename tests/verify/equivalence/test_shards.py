"""Builds with shards and several memory ports have the bits of a build without that has as many rows a beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BEAT_WIDTHS, PORTS, SHARDS
from bitlane.contract.packing import pack_base, pack_draws, unpack_base, unpack_draws
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane_verify.equivalence.random_jobs import SEVERAL_PORTS, SHARDED, grid, random_job
from bitlane_verify.equivalence.rig import EquivalenceRig, difference

CAPACITY = 16 << 20
SIDE_BY_SIDE = [(shards, rows) for shards in (1, 2, 4, 8) for rows in (1, 2, 4, 8) if shards * rows > 1]


def without_shards(config: AcceleratorConfig) -> AcceleratorConfig:
    return replace(config, width=config.shard_width, shards=1, ports=1)


def sharded(job: Job, config: AcceleratorConfig) -> Job:
    """Return a job with the same rows for a build with shards and ports."""
    geometry = replace(job.geometry, shards=config.shards, ports=config.ports)
    bases = [pack_base(*unpack_base(words, job.geometry), geometry) for words in job.base_regions]
    draws = [pack_draws(unpack_draws(words, job.geometry), geometry) for words in job.draw_regions]
    return replace(job, geometry=geometry, base_regions=bases, draw_regions=draws)


def wrong_bits(job: Job, config: AcceleratorConfig, device: type[EmulatorDevice] | type[CpuDevice]) -> list[str]:
    """Return what differs between a job on the reference without shards and on a device with shards."""
    expected = Driver(EmulatorDevice(without_shards(config), CAPACITY)).run(job)
    got = Driver(device(config, CAPACITY)).run(sharded(job, config))
    return [found for found in difference(got, expected) if not found.startswith("beats")]


@pytest.mark.parametrize("device", [EmulatorDevice, CpuDevice])
@pytest.mark.parametrize("slots", [0, 128])
def test_devices_in_software(seed: int, slots: int, device: type[EmulatorDevice] | type[CpuDevice]) -> None:
    rng = np.random.default_rng(seed)
    for shards, rows in SIDE_BY_SIDE:
        outputs = int(rng.integers(1, 4))
        config = AcceleratorConfig(
            64 * shards * rows,
            outputs,
            512,
            512,
            level_slots=slots,
            random_rounding=bool(rng.integers(2)),
            shards=shards,
            ports=int(rng.choice([ports for ports in PORTS if shards * rows // ports in (1, 2, 4, 8)])),
        )
        assert Driver(device(config, CAPACITY)).config == config
        for _ in range(3):
            job = random_job(rng, without_shards(config), features=200, rows=60, epochs=2)
            if 2 * sharded(job, config).geometry.chunks > config.max_chunks:
                job = replace(job, state=replace(job.state, settings=replace(job.state.settings, staleness=0)))
            assert wrong_bits(job, config, device) == [], (config, job.geometry)


def name(config: AcceleratorConfig) -> str:
    options = config.table_lanes * " table" + config.random_rounding * " random"
    options += f" on {config.ports} ports" * (config.ports > 1)
    return f"{config.shards} shards of {config.rows_per_beat} rows x{config.outputs}{options}"


def test_the_grid_has_every_number_of_shards_and_ports() -> None:
    """Counted by hand: beats of 1, 2, 4, 8, 16, 32, 64 words, rows and words of a port at most 8; two lanes each."""
    assert [len(grid([width])) for width in BEAT_WIDTHS] == [2, 8, 18, 32, 24, 12, 4]
    builds = grid(BEAT_WIDTHS)
    assert {config.shards for config in builds} == {*SHARDS} and {config.ports for config in builds} == {*PORTS}


@pytest.mark.slow
@pytest.mark.parametrize("config", [*SHARDED, *SEVERAL_PORTS], ids=name)
def test_random_runs_of_the_rtl(seed: int, config: AcceleratorConfig) -> None:
    """All digits and modes, partial batches and beats, chunks that do not divide, stalls; cycles as predicted."""
    bench = EquivalenceRig([config])
    for number in range(seed, seed + 150):
        assert bench.run(number) == ""
    bench.close()
