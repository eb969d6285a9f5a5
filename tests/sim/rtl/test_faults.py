"""Errors, aborts and resets in any cycle of a run: the correct error code, and a correct next run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.contract.cycles import predict
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import REGISTERS
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence.interrupted import Interrupted
from bitlane_verify.equivalence.random_jobs import TESTED, random_job
from bitlane_verify.equivalence.rig import EquivalenceRig, Variant, random_stalls

RUNS = (40, pytest.param(120, marks=pytest.mark.slow))  # of each configuration
CONTROL = REGISTERS["control"].offset


@pytest.fixture(
    scope="module", params=TESTED, ids=lambda config: f"{config.width}x{config.outputs}" + config.table_lanes * " table"
)
def bench(request):
    bench = EquivalenceRig([request.param])
    yield bench
    bench.close()


def small_job(rng: np.random.Generator, variant: Variant) -> Job:
    return random_job(rng, variant.config, features=300, rows=20 * variant.config.rows_per_beat)


def moment(rng: np.random.Generator, job: Job) -> int:
    """Return a cycle of a run: a random one, or one near the start or the end, where the phases are short."""
    cycles = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness).cycles
    choices = (rng.integers(cycles), rng.integers(40), max(0, cycles - int(rng.integers(80))))
    return int(choices[rng.integers(3)])


def bursts(job: Job) -> int:
    """Return about the number of read bursts of a run."""
    return predict(job.geometry, job.epochs, job.snapshots).beats // 16 + 1


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("happening", ["abort", "reset"])
def test_interrupted_at_any_cycle(bench, seed, happening, runs):
    rng = np.random.default_rng(seed)
    ended = []
    for _ in range(runs):
        job = small_job(rng, variant := bench.variant(rng))
        device = bench.rtl[variant]
        device.disturb(random_stalls(rng))
        free = device.free_bytes
        try:
            Driver(Interrupted(device, moment(rng, job), happening)).run(job)
            ended.append(ErrorCode.NONE)
        except DeviceError as error:
            ended.append(error.code)
        assert device.free_bytes == free, "buffers leaked"
        assert bench.compare(job, variant) == "", "the next run is wrong"
    expected = ErrorCode.ABORTED if happening == "abort" else ErrorCode.NONE
    assert expected in ended
    assert set(ended) <= {ErrorCode.NONE, ErrorCode.ABORTED, None}


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("error", ["slave", "decode"])
@pytest.mark.parametrize("side", ["read", "write"])
def test_error_response(bench, seed, side, error, runs):
    rng = np.random.default_rng(seed)
    code = ErrorCode[f"{side}_{error}".upper()]
    hits = 0
    for _ in range(runs // 2):
        job = small_job(rng, variant := bench.variant(rng))
        device = bench.rtl[variant]
        total = bursts(job) if side == "read" else job.epochs
        which = {f"{side}_error_burst": int(rng.integers(total)), "error": error}
        stalls = random_stalls(rng)
        free = device.free_bytes
        device.disturb(dataclasses.replace(stalls, **which))
        try:
            Driver(device).run(job)
        except DeviceError as raised:
            assert raised.code == code
            hits += 1
        assert device.free_bytes == free, "buffers leaked"
        assert bench.compare(job, variant) == "", "the next run is wrong"
    assert hits > runs // 8


def test_read_outside_memory(bench, seed):
    """A region that ends outside the memory: the beats inside are read, the others answer DECERR."""
    rng = np.random.default_rng(seed)
    variant = bench.variant(rng)
    device = bench.rtl[variant]
    device.disturb(Disturbance())
    job = small_job(rng, variant)

    class Elsewhere(Interrupted):
        def write(self, offset: int, value: int) -> None:
            register = REGISTERS["base_address"]
            moved = (1 << 31) if offset == register.offset else value
            self._device.write(offset, moved)

    with pytest.raises(DeviceError) as raised:
        Driver(Elsewhere(device, 0, "")).run(job)
    assert raised.value.code == ErrorCode.READ_DECODE
    assert device.read(REGISTERS["beats"].offset) > 0
    assert bench.compare(job, variant) == ""


@pytest.mark.parametrize("channel", ["stall_ar", "stall_r", "stall_w", "stall_b"])
def test_memory_that_never_answers(bench, seed, channel):
    """The driver times out and frees the buffers; after a reset the next run is correct."""
    rng = np.random.default_rng(seed)
    job = small_job(rng, variant := bench.variant(rng))
    device = bench.rtl[variant]
    free = device.free_bytes
    device.disturb(Disturbance(**{channel: 1 - 1e-9}))
    with pytest.raises(DeviceError, match="no progress"):
        Driver(device, timeout=0.2).run(job)
    assert device.free_bytes == free
    device.reset()
    assert bench.compare(job, variant) == ""
