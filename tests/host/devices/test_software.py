"""Devices in software on their bus: registers, memory, configuration checks, and addresses of results."""

from functools import partial

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.machines import SETTINGS_REGISTERS, random_job

from bitlane.contract.cycles import predict
from bitlane.contract.layout import MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import pack_master
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    FIELDS,
    IDENTITY,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    VERSION,
    absent_registers,
)
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError, DeviceError
from bitlane.reference.machine import run_epochs


@pytest.fixture(params=[EmulatorDevice, CpuDevice])
def opened(request):
    """Opens a device with these options of `AcceleratorConfig`."""
    return partial(emulator, kind=request.param)


def read(device, name):
    register, field = FIELDS.get(name) or (REGISTERS[name], None)
    value = sum(device.read(register.offset + 4 * i) << 32 * i for i in range(register.words))
    return value >> field.low & (1 << field.bits) - 1 if field else value


def write(device, name, value):
    register, field = FIELDS.get(name) or (REGISTERS[name], None)
    if field:
        value = read(device, register.name) & ~((1 << field.bits) - 1 << field.low) | value << field.low
    for i in range(register.words):
        device.write(register.offset + 4 * i, value >> 32 * i & 0xFFFFFFFF)


def filled(device, *regions):
    buffer = device.allocate(8 * sum(map(len, regions)))
    buffer.array[:] = np.concatenate(regions)
    device.flush(buffer)
    return buffer


def prepare(device, job):
    """Write the registers of a job directly; return the buffers of models and trace."""
    geometry, settings = job.geometry, job.state.settings
    levels = [pack_master(job.levels)] if geometry.codebook else []
    models = device.allocate(job.epochs * geometry.model_bytes)
    trace = device.allocate(job.epochs * 8 * geometry.record_words)
    values = {
        "features": geometry.features,
        "groups": geometry.groups,
        "batch_groups": geometry.batch_groups,
        "batch_tail": geometry.tails[0],
        "epoch_tail": geometry.tails[1],
        "base_digits": geometry.base_bits if geometry.codebook else geometry.base_digits,
        "draws": int(geometry.draws),
        "draw_sets": job.draw_sets,
        "base_address": filled(device, *job.base_regions).device_address,
        "base_stride": 8 * geometry.base_words if len(job.base_regions) > 1 else 0,
        "draw_address": filled(device, *job.draw_regions).device_address if job.draw_regions else 0,
        "draw_stride": 8 * geometry.draw_words,
        "model_in": filled(device, pack_master(job.state.master), *levels).device_address,
        "model_out": models.device_address,
        "trace": trace.device_address,
    }
    values |= {name: int(getattr(job, name)) for name in ("epochs", "snapshots")}
    low, high = settings.bounds
    values["bounds"] = low & 0xFFFF | (high & 0xFFFF) << 16
    for name in SETTINGS_REGISTERS:
        values[name] = int(getattr(settings, name))
    values["weight_exponent"] = settings.weight_exponent & 15
    for name, value in values.items():
        write(device, name, value)
    return models, trace


def finish(device):
    """Poll until the run is done; return the error code."""
    while True:
        status = read(device, "status")
        if status & STATUS_DONE:
            assert not status & STATUS_BUSY
            return ErrorCode(status >> 8)


def start(device):
    write(device, "control", CONTROL_START)
    return finish(device)


def test_identity_and_capabilities(opened):
    device = opened(max_features=64, row_buffer_beats=164, width=256, outputs=3, level_slots=32)
    assert (read(device, "identity"), read(device, "version")) == (IDENTITY, VERSION)
    assert (read(device, "max_features"), read(device, "max_row_words")) == (64, 100)
    assert (read(device, "port_bits"), read(device, "outputs"), read(device, "level_slots")) == (256, 3, 32)
    assert read(opened(), "level_slots") == 0


@pytest.mark.parametrize(
    "sizes",
    [{"width": 96}, {"width": 1024}, {"outputs": 0}, {"outputs": 16}]
    + [{"level_slots": slots} for slots in (1, 8, 24, 4095)],
)
def test_illegal_builds_are_refused(opened, sizes):
    with pytest.raises(DataError, match=f"{next(iter(sizes))}="):
        opened(**sizes)


def test_registers_keep_only_their_bits(opened):
    device = opened(random_rounding=True, encoder=8)
    absent = absent_registers(True, True, 8)
    for register in REGISTERS.values():
        if register.name in ("control", "status", *absent):
            continue
        before = read(device, register.name)
        write(device, register.name, 0xFFFF_FFFF_FFFF_FFFF)
        assert read(device, register.name) == ((1 << register.bits) - 1 if register.writable else before)
    write(device, "model_out", 0x1234_5678_9ABC_DEF0)
    assert device.read(REGISTERS["model_out"].offset) == 0x9ABC_DEF0
    device.write(0xFFC, 1)
    assert device.read(0xFFC) == 0


def test_registers_missing_in_a_build_read_as_zero(opened):
    device = opened()
    for name in absent_registers(False, False, 0):
        write(device, name, 0x3FF)
        assert read(device, name) == 0


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (2, 3), (4, 15), (8, 1)])
def test_results_are_at_the_documented_addresses(opened, seed, draws, snapshots, rows_per_beat, outputs):
    rng = np.random.default_rng(seed)
    batch = int(rng.integers(1, 40))
    job, samples = random_job(
        rng, draws=draws, snapshots=snapshots, rows_per_beat=rows_per_beat, outputs=outputs, batch=batch
    )
    device = opened(width=64 * rows_per_beat, outputs=outputs)
    models, trace = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    device.invalidate(trace)

    counts = predict(job.geometry, job.epochs, snapshots, job.state.settings.staleness)
    rows = (samples[epoch % job.draw_sets] for epoch in range(job.epochs))
    epochs = list(run_epochs(rows, job.geometry, job.state))
    words = job.geometry.model_words
    for number, epoch in enumerate(epochs):
        record = trace.array.view(np.int64).reshape(job.epochs, -1)[number].tolist()
        assert record[: 1 + outputs] == [counts.epoch_cycles[number], *epoch.loss]
        assert len(record) >= rows_per_beat and not any(record[1 + outputs :])
        if snapshots:
            stored = models.array[number * words : (number + 1) * words]
            assert stored.tolist() == pack_master(epoch.state.master).tolist()
    if not snapshots:
        assert models.array[:words].tolist() == pack_master(epochs[-1].state.master).tolist()
        assert not models.array[words:].any()
    last = epochs[-1]
    assert read(device, "epoch") == job.epochs
    assert read(device, "saturations") == last.saturations
    for name in ("step", "step_negative", "penalty_step", "phase"):
        assert read(device, f"{name}_now") == getattr(last.state.settings, name)
    assert (read(device, "cycles"), read(device, "beats")) == (counts.cycles, counts.beats)


@pytest.mark.parametrize("table_bits", [1, 2, 3])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (2, 3), (8, 1)])
def test_levels_follow_the_models_in_memory(opened, seed, table_bits, rows_per_beat, outputs):
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 100))
    job, samples = random_job(
        rng, table_bits=table_bits, features=features, rows_per_beat=rows_per_beat, outputs=outputs
    )
    device = opened(width=64 * rows_per_beat, outputs=outputs, level_slots=64)
    models, _ = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    rows = (samples[epoch % job.draw_sets] for epoch in range(job.epochs))
    *_, last = run_epochs(rows, job.geometry, job.state, job.levels)
    assert models.array[: job.geometry.model_words].tolist() == pack_master(last.state.master).tolist()
    assert read(device, "saturations") == last.saturations
    counts = predict(job.geometry, job.epochs, False, job.state.settings.staleness)
    assert (read(device, "cycles"), read(device, "beats")) == (counts.cycles, counts.beats)


def test_every_status_read_completes_an_epoch(opened, seed):
    job, _ = random_job(np.random.default_rng(seed), epochs=3)
    device = opened()
    prepare(device, job)
    write(device, "control", CONTROL_START)
    seen = []
    for _ in range(3):
        status = read(device, "status")
        seen.append((read(device, "epoch"), status & 3))
        write(device, "control", CONTROL_START)  # ignored while busy
        if status & STATUS_DONE:
            break
        write(device, "batch_groups", 1)  # has no effect before the next start
    assert seen == [(1, STATUS_BUSY), (2, STATUS_BUSY), (3, STATUS_DONE)]


def test_acknowledge_and_start_again(opened, seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = opened()
    models, _ = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    first = models.array.copy()
    write(device, "control", CONTROL_ACKNOWLEDGE)
    assert read(device, "status") == 0
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    assert np.array_equal(models.array, first)


def test_abort(opened, seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = opened()
    prepare(device, job)
    write(device, "control", CONTROL_ABORT)  # no run is active
    assert read(device, "status") == 0
    write(device, "control", CONTROL_START)
    read(device, "status")
    write(device, "control", CONTROL_ABORT)
    assert finish(device) == ErrorCode.ABORTED
    assert read(device, "epoch") == 1
    assert start(device) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "value"),
    [("features", 0), ("features", 129), ("groups", 0), ("groups", MAX_ROWS + 1), ("epochs", 0)]
    + [
        ("epochs", MAX_EPOCHS + 1),
        ("batch_groups", 0),
        ("batch_groups", MAX_ROWS + 1),
        ("draw_sets", 0),
        ("base_digits", 17),
        ("base_digits", 5),
        ("loss", 3),
        ("bounds", 5 | 4 << 16),
        ("bounds", 0 | 0xFFFF << 16),
    ]
    + [(name, rows) for name in ("batch_tail", "epoch_tail") for rows in (0, 3, 15)]
    + [(name, 0x1000_0008) for name in ("base_address", "base_stride", "draw_address", "draw_stride")]
    + [(name, 0x1000_0040) for name in ("model_in", "model_out")]
    + [("trace", 0x1000_0010), ("decay", (1 << 15) - 1), ("decay", (1 << 16) + 1)]
    + [(name, 1 << 40) for name in ("base_address", "draw_address", "model_in", "model_out", "trace")],
)
def test_illegal_configurations_are_refused(opened, seed, name, value):
    """The build has a port of two words and records of four words; two of four chunks are legal with staleness 1."""
    job, _ = random_job(np.random.default_rng(seed), rows_per_beat=2, outputs=3, staleness=1)
    device = opened(max_features=128, row_buffer_beats=64 + 2 * 5, width=128, outputs=3)
    prepare(device, job)
    before = read(device, name)
    write(device, name, value)
    assert start(device) == ErrorCode.CONFIGURATION
    assert read(device, "epoch") == 0
    write(device, name, before)
    assert start(device) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "value"), [("base_digits", bits) for bits in (0, 3, 4, 16)] + [("draws", 0), ("features", 129)]
)
def test_illegal_codebook_configurations_are_refused(opened, seed, name, value):
    """Four chunks of 5 levels fill the codebook memory; a fifth chunk or 9 levels do not fit."""
    job, _ = random_job(np.random.default_rng(seed), table_bits=2, features=128, staleness=0)
    device = opened(max_features=256, level_slots=32)
    prepare(device, job)
    before = read(device, name)
    write(device, name, value)
    assert start(device) == ErrorCode.CONFIGURATION
    write(device, name, before)
    assert start(device) == ErrorCode.NONE


@pytest.mark.parametrize(("table_bits", "words"), [(1, 8), (2, 10), (3, 13)])
def test_half_digit_words_count_in_the_row_buffer(opened, seed, table_bits, words):
    """A row has five chunks."""
    job, _ = random_job(np.random.default_rng(seed), table_bits=table_bits, features=130)
    for max_row_words, code in ((words - 1, ErrorCode.CONFIGURATION), (words, ErrorCode.NONE)):
        device = opened(row_buffer_beats=64 + max_row_words, level_slots=128)
        prepare(device, job)
        assert start(device) == code


def test_staleness_halves_the_model_memory(opened, seed):
    job, _ = random_job(np.random.default_rng(seed), features=65, staleness=1)
    device = opened(max_features=128)
    prepare(device, job)
    assert start(device) == ErrorCode.CONFIGURATION
    write(device, "staleness", 0)
    assert start(device) == ErrorCode.NONE


def test_a_last_group_longer_than_the_others_is_refused(opened, seed):
    """No geometry has such register values; the hardware accepts them, but the emulator does not."""
    job, _ = random_job(np.random.default_rng(seed), rows=32, batch=8, rows_per_beat=4)
    device = opened(width=256)
    prepare(device, job)
    write(device, "batch_tail", 3)
    write(device, "epoch_tail", 4)
    assert start(device) == ErrorCode.CONFIGURATION
    write(device, "batch_tail", 4)
    write(device, "epoch_tail", 3)
    assert start(device) == ErrorCode.NONE


@pytest.mark.parametrize("rows_per_beat", [1, 4])
def test_a_batch_of_more_groups_than_the_data_has(opened, seed, rows_per_beat):
    job, _ = random_job(np.random.default_rng(seed), rows=32, batch=33, rows_per_beat=rows_per_beat)
    device = opened(width=64 * rows_per_beat)
    models, _ = prepare(device, job)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    expected = models.array.copy()
    write(device, "batch_groups", 1000)
    write(device, "batch_tail", 1)
    write(device, "epoch_tail", rows_per_beat)
    assert start(device) == ErrorCode.NONE
    device.invalidate(models)
    assert np.array_equal(models.array, expected)


def test_a_row_needs_a_digit(opened, seed):
    job, _ = random_job(np.random.default_rng(seed), base_digits=0)
    device = opened()
    prepare(device, job)
    assert start(device) == ErrorCode.NONE  # a draw digit without base digits is a valid precision
    write(device, "draws", 0)
    assert start(device) == ErrorCode.CONFIGURATION


@pytest.mark.parametrize("address", [0, 0x1000_0000 + (1 << 20) - 8 * 16, 1 << 39])
@pytest.mark.parametrize("name", ["base_address", "draw_address", "model_in", "model_out", "trace"])
def test_addresses_outside_the_memory_are_errors(opened, seed, name, address):
    job, _ = random_job(np.random.default_rng(seed), epochs=10)
    device = opened(capacity_bytes=1 << 20)
    prepare(device, job)
    write(device, name, address)
    writes = name in ("model_out", "trace")
    assert start(device) == (ErrorCode.WRITE_DECODE if writes else ErrorCode.READ_DECODE)


def test_freed_memory_is_reused(opened):
    device = opened(capacity_bytes=3 * 4096)
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
