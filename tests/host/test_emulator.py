"""The emulator as its bus sees it: registers, memory, checks, and where results are written."""

import numpy as np
import pytest

from bitlane.contract import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    IDENTITY,
    MAX_EPOCHS,
    MAX_ROWS,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    VERSION,
    ErrorCode,
)
from bitlane.cycles import predict
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DeviceError
from bitlane.layout import pack_master
from bitlane.reference import run_epochs

from .machines import random_job, settings_of


def read(device, name):
    register = REGISTERS[name]
    return sum(device.read(register.offset + 4 * i) << 32 * i for i in range(register.words))


def write(device, name, value):
    register = REGISTERS[name]
    for i in range(register.words):
        device.write(register.offset + 4 * i, value >> 32 * i & 0xFFFFFFFF)


def filled(device, *regions):
    buffer = device.allocate(8 * sum(map(len, regions)))
    buffer.array[:] = np.concatenate(regions)
    device.flush(buffer)
    return buffer


def prepare(device, job):
    """Writes a job's registers by hand; the buffers for models and trace."""
    geometry = job.geometry
    models = device.allocate(job.epochs * geometry.model_bytes)
    trace = device.allocate(job.epochs * 16)
    values = {
        "features": geometry.features,
        "rows": geometry.rows,
        "base_digits": geometry.base_digits,
        "draws": int(geometry.draws),
        "sets": job.sets,
        "base_address": filled(device, *job.base).device_address,
        "base_stride": 8 * geometry.base_words if len(job.base) > 1 else 0,
        "draw_address": filled(device, *job.draws).device_address if job.draws else 0,
        "draw_stride": 8 * geometry.draw_words,
        "model_in": filled(device, pack_master(job.master)).device_address,
        "model_out": models.device_address,
        "trace": trace.device_address,
    }
    for name in ("epochs", "batch", "step", "rate", "decay", "shrink", "phase", "snapshots"):
        values[name] = int(getattr(job, name))
    for name, value in values.items():
        write(device, name, value)
    return models, trace


def finish(device):
    """Polls until done; the error code."""
    while True:
        status = read(device, "status")
        if status & STATUS_DONE:
            assert not status & STATUS_BUSY
            return ErrorCode(status >> 8)


def start(device):
    write(device, "control", CONTROL_START)
    return finish(device)


def test_identity_and_capabilities():
    device = EmulatorDevice(max_features=64, max_row_words=100)
    assert (read(device, "identity"), read(device, "version")) == (IDENTITY, VERSION)
    assert (read(device, "max_features"), read(device, "max_row_words")) == (64, 100)
    assert read(device, "port_bits") == 64


def test_registers_keep_their_bits_and_nothing_else():
    device = EmulatorDevice()
    for register in REGISTERS.values():
        if register.name in ("control", "status"):
            continue
        before = read(device, register.name)
        write(device, register.name, 0xFFFF_FFFF_FFFF_FFFF)
        assert read(device, register.name) == ((1 << register.bits) - 1 if register.writable else before)
    write(device, "model_out", 0x1234_5678_9ABC_DEF0)
    assert device.read(REGISTERS["model_out"].offset) == 0x9ABC_DEF0
    device.write(0xFFC, 1)
    assert device.read(0xFFC) == 0


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("snapshots", [True, False])
def test_results_lie_where_the_design_says(seed, draws, snapshots):
    job, samples = random_job(np.random.default_rng(seed), draws=draws, snapshots=snapshots)
    device = EmulatorDevice()
    models, trace = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    device.invalidate(trace)

    counts = predict(job.geometry, epochs=job.epochs, batch=job.batch, snapshots=snapshots)
    rows = (samples[epoch % job.sets] for epoch in range(job.epochs))
    epochs = list(run_epochs(rows, job.geometry, settings_of(job), job.master))
    words = job.geometry.model_words
    for number, epoch in enumerate(epochs):
        expected = [epoch.loss, int(counts.epoch_cycles[number])]
        assert trace.array[2 * number : 2 * number + 2].view(np.int64).tolist() == expected
        if snapshots:
            stored = models.array[number * words : (number + 1) * words]
            assert stored.tolist() == pack_master(epoch.master).tolist()
    if not snapshots:
        assert models.array[:words].tolist() == pack_master(epochs[-1].master).tolist()
        assert not models.array[words:].any()
    last = epochs[-1]
    assert read(device, "epoch") == job.epochs
    assert read(device, "saturations") == last.saturations
    after = last.settings
    assert [read(device, f"{name}_now") for name in ("step", "rate", "phase")] == [
        after.step,
        after.rate,
        after.phase,
    ]
    assert (read(device, "cycles"), read(device, "beats")) == (counts.cycles, counts.beats)


def test_every_status_read_is_an_epoch(seed):
    job, _ = random_job(np.random.default_rng(seed), epochs=3)
    device = EmulatorDevice()
    prepare(device, job)
    write(device, "control", CONTROL_START)
    seen = []
    for _ in range(3):
        status = read(device, "status")
        seen.append((read(device, "epoch"), status & 3))
        write(device, "control", CONTROL_START)  # ignored while busy
        if status & STATUS_DONE:
            break
        write(device, "batch", 1)  # not looked at before the next start
    assert seen == [(1, STATUS_BUSY), (2, STATUS_BUSY), (3, STATUS_DONE)]


def test_acknowledge_and_start_again(seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = EmulatorDevice()
    models, _ = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    first = models.array.copy()
    write(device, "control", CONTROL_ACKNOWLEDGE)
    assert read(device, "status") == 0
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    assert np.array_equal(models.array, first)


def test_abort(seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = EmulatorDevice()
    prepare(device, job)
    write(device, "control", CONTROL_ABORT)  # nothing runs
    assert read(device, "status") == 0
    write(device, "control", CONTROL_START)
    read(device, "status")
    write(device, "control", CONTROL_ABORT)
    assert finish(device) == ErrorCode.ABORTED
    assert read(device, "epoch") == 1
    assert start(device) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "value"),
    [("features", 0), ("features", 65), ("rows", 0), ("rows", MAX_ROWS + 1), ("epochs", 0), ("batch", 0)]
    + [
        ("epochs", MAX_EPOCHS + 1),
        ("batch", MAX_ROWS + 1),
        ("sets", 0),
        ("base_digits", 17),
        ("base_digits", 5),
    ]
    + [(name, 0x1000_0004) for name in ("base_address", "base_stride", "draw_address", "draw_stride")]
    + [(name, 0x1000_0040) for name in ("model_in", "model_out")]
    + [("trace", 0x1000_0008), ("decay", (1 << 15) - 1), ("decay", (1 << 16) + 1)]
    + [(name, 1 << 40) for name in ("base_address", "draw_stride", "model_in", "model_out", "trace")],
)
def test_configurations_that_the_hardware_refuses(seed, name, value):
    job, _ = random_job(np.random.default_rng(seed))
    device = EmulatorDevice(max_features=64, max_row_words=2 * 5)
    prepare(device, job)
    write(device, name, value)
    assert start(device) == ErrorCode.CONFIGURATION
    assert read(device, "epoch") == 0


def test_no_digits_at_all(seed):
    job, _ = random_job(np.random.default_rng(seed), base_digits=0)
    device = EmulatorDevice()
    prepare(device, job)
    assert start(device) == ErrorCode.NONE  # a draw digit alone is a precision
    write(device, "draws", 0)
    assert start(device) == ErrorCode.CONFIGURATION


@pytest.mark.parametrize("address", [0, 0x1000_0000 + (1 << 20) - 8 * 16, 1 << 39])
@pytest.mark.parametrize("name", ["base_address", "draw_address", "model_in", "model_out", "trace"])
def test_addresses_without_memory(seed, name, address):
    job, _ = random_job(np.random.default_rng(seed), epochs=10)
    device = EmulatorDevice(capacity_bytes=1 << 20)
    prepare(device, job)
    write(device, name, address)
    writes = name in ("model_out", "trace")
    assert start(device) == (ErrorCode.WRITE_DECODE if writes else ErrorCode.READ_DECODE)


def test_what_is_not_flushed_is_not_there(seed):
    device = EmulatorDevice()
    buffer = device.allocate(20)
    assert len(buffer.array) == 3
    buffer.array[:] = 7
    device.invalidate(buffer)
    assert buffer.array.tolist() == [0, 0, 0]
    buffer.array[:] = 7
    device.flush(buffer)
    buffer.array[:] = 0
    device.invalidate(buffer)
    assert buffer.array.tolist() == [7, 7, 7]


def test_memory_is_given_back():
    device = EmulatorDevice(capacity_bytes=3 * 4096)
    first, second, third = (device.allocate(size) for size in (1, 4096, 4000))
    assert [b.device_address % 4096 for b in (first, second, third)] == [0, 0, 0]
    with pytest.raises(DeviceError, match="no room"):
        device.allocate(1)
    second.free()
    second.free()
    assert device.allocated == 2
    assert device.allocate(4096).device_address == second.device_address
    device.close()
    assert device.allocated == 0
