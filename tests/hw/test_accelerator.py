"""The accelerator against the reference: small runs in the simulator of Amaranth, without a compiler."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.slow_device import CAPACITY, SlowDevice

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.formats import MASTER
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import pack_base
from bitlane.contract.registers import CONTROL_ABORT, CONTROL_START, REGISTERS, STATUS_DONE
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_hw.build_digest import build_digest
from bitlane_verify.equivalence.random_jobs import random_job
from bitlane_verify.equivalence.rig import cycle_difference, difference

TIMING = MemoryTiming(read_latency=13, write_latency=7)
NARROW, WIDE, TABLE, SHARDS, SHARDED_TABLE, PORTS, ALL_PORTS = (
    AcceleratorConfig(
        width,
        outputs,
        max_features=128 * shards,
        row_buffer_beats=128,
        fifo_beats=64,
        level_slots=level_slots,
        shards=shards,
        ports=ports,
    )
    for width, outputs, level_slots, shards, ports in (
        (64, 1, 0, 1, 1),
        (128, 2, 0, 1, 1),
        (64, 1, 64, 1, 1),
        (256, 1, 0, 4, 1),
        (128, 1, 64, 2, 1),
        (128, 1, 0, 2, 2),
        (512, 1, 0, 2, 8),
    )
)


@functools.cache
def device_of(config: AcceleratorConfig) -> SlowDevice:
    """Return the device of a build, compiled once for all tests."""
    return SlowDevice(config, TIMING)


def name(value: AcceleratorConfig | float) -> str:
    if isinstance(value, AcceleratorConfig):
        several = [f" {count} {what}" for what in ("shards", "ports") if (count := getattr(value, what)) > 1]
        return f"{value.width}x{value.outputs}" + value.table_lanes * " table" + "".join(several)
    return str(value)


def random_small_job(rng: np.random.Generator, config: AcceleratorConfig) -> Job:
    """Return a run of two epochs and a few hundred cycles."""
    while True:
        job = random_job(rng, config, features=2 * config.chunk_features, rows=10 * config.words_per_beat, epochs=2)
        if job.epochs == 2 and job.geometry.beats < 120:
            return job


def reference(job: Job, config: AcceleratorConfig):
    return Driver(EmulatorDevice(config, CAPACITY)).run(job)


@pytest.mark.parametrize(
    ("config", "stalls"),
    [
        (NARROW, 0.0),
        (NARROW, 0.4),
        pytest.param(WIDE, 0.0, marks=pytest.mark.slow),
        pytest.param(TABLE, 0.0, marks=pytest.mark.slow),
        pytest.param(TABLE, 0.4, marks=pytest.mark.slow),
        pytest.param(SHARDS, 0.0, marks=pytest.mark.slow),
        pytest.param(SHARDS, 0.4, marks=pytest.mark.slow),
        pytest.param(SHARDED_TABLE, 0.0, marks=pytest.mark.slow),
        pytest.param(PORTS, 0.4, marks=pytest.mark.slow),
        pytest.param(ALL_PORTS, 0.0, marks=pytest.mark.slow),
        pytest.param(ALL_PORTS, 0.4, marks=pytest.mark.slow),
    ],
    ids=name,
)
def test_runs_match_the_reference(config, stalls, seed):
    """All bits match; if the memory does not stall, all cycles match too."""
    rng = np.random.default_rng(seed)
    device = device_of(config)
    device.stalls = stalls
    for _ in range(max(1, 3 // config.rows_per_beat)):
        job = random_small_job(rng, config)
        got = Driver(device, timeout=5).run(job)
        assert difference(got, reference(job, config)) == []
        assert stalls or cycle_difference(got, job, TIMING) == []


def test_all_weights_are_clipped_at_once():
    """The rows of a batch push all weights in the same direction while every row reads weights of 0."""
    geometry = Geometry(features=32, rows=8, base_digits=1, draws=False, batch=8)
    largest = np.full((8, 32), 3, np.uint32), np.full((8, 1), 32767, np.int16)
    steepest = 0xFFFF
    state = ModelState(np.zeros((1, 32), np.int32), Settings(steepest, steepest))
    job = Job(geometry, [pack_base(*largest, geometry)], [], state, epochs=1)
    device = device_of(NARROW)
    device.stalls = 0.0
    got = Driver(device, timeout=5).run(job)
    assert got.counters.saturations >= 32
    assert (got.state.master == MASTER.maximum).all()
    assert difference(got, reference(job, NARROW)) == []


@pytest.mark.parametrize("code", [ErrorCode.READ_SLAVE, ErrorCode.WRITE_SLAVE, ErrorCode.ABORTED], ids=str)
def test_errors(code, seed):
    """A failed run reports its error."""
    rng = np.random.default_rng(seed)
    device = device_of(NARROW)
    device.stalls = 0.0
    device.fails = {ErrorCode.READ_SLAVE: "r", ErrorCode.WRITE_SLAVE: "b"}.get(code, "")
    job = random_small_job(rng, NARROW)
    cycles = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, TIMING).cycles

    class Aborting:
        def __getattr__(self, name):
            return getattr(device, name)

        def write(self, offset, value):
            device.write(offset, value)
            if offset == REGISTERS["control"].offset and value == CONTROL_START:
                device.run(int(rng.integers(1, cycles // 2)))
                device.write(offset, CONTROL_ABORT)

    with pytest.raises(DeviceError) as raised:
        Driver(Aborting() if code == ErrorCode.ABORTED else device, timeout=5).run(job)
    assert raised.value.code == code


def test_irq_and_done_last_until_the_driver_acknowledges(seed):
    device, most = device_of(NARROW), 20_000
    device.stalls, status, seen = 0.0, REGISTERS["status"].offset, []

    def wait_for_irq():
        before = device.cycles
        device.run(most)
        seen.extend((device.read(status), device.cycles - before < most))

    Driver(device, timeout=5).run(random_small_job(np.random.default_rng(seed), NARROW), while_running=wait_for_irq)
    before = device.cycles
    device.run(100)
    assert [*seen, device.read(status), device.cycles - before > 100] == [STATUS_DONE, True, 0, True]


def test_completed_epochs_are_counted_during_the_run(seed):
    device, seen = device_of(NARROW), []
    device.stalls = 0.0

    def watch():
        for _ in range(200):
            seen.append(device.read(REGISTERS["epoch"].offset))
            device.run(10)

    Driver(device, timeout=5).run(random_small_job(np.random.default_rng(seed), NARROW), while_running=watch)
    assert seen == sorted(seen) and set(seen) == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize(("base_digits", "draws", "fits"), [(4, False, True), (3, True, True), (4, True, False)])
def test_the_longest_row_includes_its_draws(base_digits, draws, fits):
    """The device refuses a row that its buffer cannot hold, also if the driver does not."""
    short = replace(NARROW, row_buffer_beats=NARROW.row_buffer_beats - 48)
    assert short.max_row_words == 16

    class TrustingDriver(Driver):
        def check_fit(self, job):
            pass

    geometry = Geometry(features=128, rows=2, base_digits=base_digits, draws=draws, batch=2)
    draw_regions = [np.zeros(geometry.draw_words, np.uint64)] if draws else []
    state = ModelState(np.zeros((1, 128), np.int32), Settings(1 << 15, 1 << 15))
    job = Job(geometry, [np.zeros(geometry.base_words, np.uint64)], draw_regions, state, epochs=1)
    device = device_of(short)
    device.stalls = 0.0
    driver = TrustingDriver(device, timeout=5)
    if fits:
        driver.run(job)
        return
    with pytest.raises(DeviceError) as raised:
        driver.run(job)
    assert raised.value.code == ErrorCode.CONFIGURATION


@pytest.mark.parametrize(
    "config", [NARROW, *(pytest.param(config, marks=pytest.mark.slow) for config in (WIDE, TABLE))], ids=name
)
def test_registers_describe_the_build(config):
    device = device_of(config)
    driver = Driver(device)
    assert driver.build == build_digest(config)
    assert driver.config == replace(config, fifo_beats=driver.config.fifo_beats)  # no register holds it
