"""The accelerator in machine code equals the reference: every weight bit, loss word, register and counter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from tests.helpers.compilers import VECTORS, limit_vectors

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import BOUND, STEP_FRACTION
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.state import ModelState
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.machine import plan
from bitlane.machine.library import run_epoch
from bitlane_verify.equivalence.random_jobs import CONFIGS, SOFTWARE_CONFIGS, random_job
from bitlane_verify.equivalence.rig import difference

CAPACITY = 64 << 20
COUNTERS = ("cycles", "stall_memory", "stall_model")
LARGE = AcceleratorConfig(outputs=2, row_buffer_beats=1 << 14, random_rounding=True)
LARGE_TABLE = AcceleratorConfig(128, level_slots=4096)


def wrong_bits(job: Job, config: AcceleratorConfig, launches: int = 1) -> list[str]:
    """The differences between both devices, in words, after some launches: each continues the one before."""
    found: list[str] = []
    for _ in range(launches):
        got, expected = (Driver(kind(config, CAPACITY)).run(job) for kind in (CpuDevice, EmulatorDevice))
        found += difference(got, expected)
        found += [name for name in COUNTERS if getattr(got.counters, name) != getattr(expected.counters, name)]
        found += ["epoch_cycles"] * (not np.array_equal(got.epoch_cycles, expected.epoch_cycles))
        job = dataclasses.replace(job, state=expected.state)
    return found


@pytest.fixture(params=VECTORS)
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Build the engine for each kind of vector instructions."""
    limit_vectors(monkeypatch, request.param)
    run_epoch.cache_clear()
    yield
    run_epoch.cache_clear()


@pytest.mark.parametrize("builds", [CONFIGS, SOFTWARE_CONFIGS], ids=["hardware", "more objectives"])
@pytest.mark.parametrize("runs", [100, pytest.param(2500, marks=pytest.mark.slow)])
def test_random_runs(
    seed: int, runs: int, builds: Sequence[AcceleratorConfig], vectors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 to 512 features, all digits, modes and builds, partial batches and beats, saturation, one or two launches.

    Batches have one tile or many.
    """
    for number in range(seed, seed + runs):
        rng = np.random.default_rng(number)
        config = builds[rng.integers(len(builds))]
        monkeypatch.setattr(plan, "TILE_WORDS", int(rng.choice([1, 64, 8192])))
        monkeypatch.setattr(plan, "CODEBOOK_TILE_LEVELS", int(rng.choice([1, 512, 1 << 15])))
        job = random_job(rng, config)
        wrong = wrong_bits(job, config, int(rng.integers(1, 3)))
        assert wrong == [], f"seed {number}: {job.geometry}, {job.epochs} epochs, {job.state.settings}"


@pytest.mark.parametrize("config", [LARGE, LARGE_TABLE], ids=["digits", "codebooks"])
def test_long_rows(seed: int, config: AcceleratorConfig, vectors: None) -> None:
    """Up to 16,384 features, of which a lane adds up only some before its sum is widened."""
    rng = np.random.default_rng(seed)
    for features in (2048, 2049, 16384):
        job = random_job(rng, config, features=features, rows=20, epochs=2)
        assert wrong_bits(job, config) == [], job.geometry


@pytest.mark.parametrize("bound", [BOUND.minimum, BOUND.maximum])
def test_a_box_moves_weights_to_where_they_saturate(seed: int, bound: int) -> None:
    """From 0 to the end of the range at the end of a batch: the next one must not add up changes unclipped."""
    rng = np.random.default_rng(seed)
    job = random_job(rng, CONFIGS[0], features=40, rows=60, batch=4)
    step = encode_float(0.1, STEP_FRACTION)
    settings = dataclasses.replace(
        job.state.settings, step=step, step_negative=step, loss=Loss.HINGE, prox=Prox.BOX, bounds=(bound, bound)
    )
    job = dataclasses.replace(job, state=ModelState(np.zeros_like(job.state.master), settings), epochs=2)
    assert wrong_bits(job, CONFIGS[0]) == []


def test_a_changed_bit_is_detected(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: one bit of one label differs in the memory of the emulator.

    The weights are 0 at first, so that the label is the residual: no saturation and no penalty can hide the change.
    """
    job = random_job(np.random.default_rng(seed), CONFIGS[0])
    settings = dataclasses.replace(job.state.settings, loss=Loss.SQUARES)
    job = dataclasses.replace(job, state=ModelState(np.zeros_like(job.state.master), settings))
    flush = EmulatorDevice.flush

    def flipped(self, buffer):
        if buffer.array.size == sum(words.size for words in job.base_regions):
            buffer.array[0] ^= np.uint64(1)
        flush(self, buffer)

    monkeypatch.setattr(EmulatorDevice, "flush", flipped)
    assert any(each.startswith("loss: ") for each in wrong_bits(job, CONFIGS[0]))
