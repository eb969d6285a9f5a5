"""The driver: its register writes, its errors, and that it always frees buffers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.machines import SETTINGS_REGISTERS, Recorded, random_job

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.further import FurtherLoss, SoftwareConfig
from bitlane.contract.modes import ErrorCode, Prox
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_START,
    FIELDS,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    absent_registers,
)
from bitlane.driver.driver import Driver
from bitlane.driver.job import job_bytes, loss_value
from bitlane.driver.programming import check_addresses
from bitlane.errors import DataError, DeviceError
from bitlane.reference.machine import run_epochs


def expected_epochs(job, samples):
    rows = (samples[epoch % job.draw_sets] for epoch in range(job.epochs))
    return list(run_epochs(rows, job.geometry, job.state, job.levels))


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (1, 3), (4, 15), (8, 1)])
def test_a_run_equals_the_reference(seed, draws, snapshots, rows_per_beat, outputs):
    rng = np.random.default_rng(seed)
    batch = int(rng.integers(1, 50))
    job, samples = random_job(
        rng, draws=draws, snapshots=snapshots, rows_per_beat=rows_per_beat, outputs=outputs, batch=batch
    )
    device = emulator(kind=Recorded, width=64 * rows_per_beat, outputs=outputs)
    reported = []
    outcome = Driver(device).run(job, lambda epoch, loss: reported.append((epoch, loss.tolist())))
    epochs = expected_epochs(job, samples)
    assert outcome.loss.tolist() == [epoch.loss.tolist() for epoch in epochs]
    assert reported == list(enumerate(outcome.loss.tolist()))
    assert outcome.loss.shape == (4, outputs) and outcome.state.master.shape == (outputs, 40)
    assert outcome.state.master.tolist() == epochs[-1].state.master.tolist()
    if snapshots:
        assert outcome.snapshots.tolist() == [epoch.state.master.tolist() for epoch in epochs]
    else:
        assert outcome.snapshots is None
    assert outcome.state.settings == epochs[-1].state.settings
    assert outcome.counters.saturations == epochs[-1].saturations
    assert outcome.counters.cycles >= outcome.epoch_cycles[-1] > outcome.epoch_cycles[0] > 0
    assert device.allocated == 0
    assert device.written.count(("control", CONTROL_START)) == 1
    assert not device.read(0x24) & STATUS_DONE, "not acknowledged"


@pytest.mark.parametrize("table_bits", [1, 2, 3])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (4, 3)])
def test_a_run_with_codebooks_equals_the_reference(seed, table_bits, rows_per_beat, outputs):
    """With three chunks the half digits of the last chunk have a word to themselves."""
    rng = np.random.default_rng(seed)
    job, samples = random_job(rng, features=70, table_bits=table_bits, rows_per_beat=rows_per_beat, outputs=outputs)
    device = emulator(kind=Recorded, width=64 * rows_per_beat, outputs=outputs, level_slots=64)
    outcome = Driver(device).run(job)
    epochs = expected_epochs(job, samples)
    assert outcome.loss.tolist() == [epoch.loss.tolist() for epoch in epochs]
    assert outcome.state.master.tolist() == epochs[-1].state.master.tolist()
    assert outcome.counters.saturations == epochs[-1].saturations
    assert device.allocated == 0


def test_a_resumed_run_equals_an_uninterrupted_run(seed):
    rng = np.random.default_rng(seed)
    job, _ = random_job(rng, sets=2, epochs=4)
    accelerator = Driver(Recorded())
    whole = accelerator.run(job)
    for _ in range(2):
        outcome = accelerator.run(replace(job, epochs=2))
        job = replace(job, state=outcome.state)
    assert outcome.state.master.tolist() == whole.state.master.tolist()
    assert outcome.loss.tolist() == whole.loss[2:].tolist()
    assert outcome.state.settings == whole.state.settings


def test_unit_of_the_loss():
    assert loss_value(3 << 31) == 1.5


@pytest.mark.parametrize(
    "samples", [{"rows": 600}, {"rows": 600, "draws": False}, {"rows": 30, "features": 140, "table_bits": 3}]
)
@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (8, 3)])
def test_job_bytes_equals_the_allocated_bytes(seed, samples, snapshots, rows_per_beat, outputs):
    shape = {"rows_per_beat": rows_per_beat, "outputs": outputs, "batch": samples["rows"]} | samples
    job, _ = random_job(np.random.default_rng(seed), snapshots=snapshots, epochs=300, **shape)
    needed = job_bytes(job.geometry, 300, len(job.base_regions), len(job.draw_regions), snapshots)
    hardware = {"width": 64 * rows_per_beat, "outputs": outputs, "level_slots": 128 if job.geometry.codebook else 0}
    Driver(emulator(kind=Recorded, capacity_bytes=needed, **hardware)).run(job)
    device = emulator(kind=Recorded, capacity_bytes=needed - 4096, **hardware)
    with pytest.raises(DeviceError, match="no room"):
        Driver(device).run(job)
    assert device.allocated == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("identity", 0, "no bitlane accelerator"),
        ("version", 5 << 16, r"register map has version 5\.0, but this driver needs 4\.0"),
        ("version", 1 << 16, r"register map has version 1\.0"),
    ],
)
def test_unknown_devices_and_versions_are_refused(name, value, message):
    with pytest.raises(DeviceError, match=message):
        Driver(Recorded(answers={name: lambda _: value}))


@pytest.mark.parametrize("over", [0, 8])
@pytest.mark.parametrize("name", ["base", "draws", "model_in", "model_out", "trace"])
def test_a_buffer_beyond_the_addresses_is_refused(name, over):
    """A region may end at the end of the address space; beyond it, the addresses of the hardware start again at 0."""
    words = np.zeros(16, np.uint64)
    near, far = (
        SimpleNamespace(device_address=address, array=words) for address in (4096, (1 << 32) - words.nbytes + over)
    )
    parts = {**dict.fromkeys(("base", "draws", "model_in", "model_out"), (near, near)), "trace": near}
    parts[name] = far if name == "trace" else (near, far)
    buffers, config = SimpleNamespace(**parts), AcceleratorConfig(address_bits=32)
    if not over:
        check_addresses(buffers, buffers, config)
        return
    with pytest.raises(DeviceError, match="a buffer ends at 0x100000008, beyond the 32 address bits"):
        check_addresses(buffers, buffers, config)


def test_a_newer_minor_version_is_accepted():
    Driver(Recorded(answers={"version": lambda version: version + 1}))


def test_rows_too_long_for_the_hardware_are_refused(seed):
    job, _ = random_job(np.random.default_rng(seed), features=70, base_digits=3, staleness=0)
    with pytest.raises(DataError, match="X has 70 features, but emulator holds 64"):
        Driver(emulator(kind=Recorded, max_features=64)).run(job)
    with pytest.raises(DataError, match=r"takes 12 words, but emulator buffers 7: lower bits to 4"):
        Driver(emulator(kind=Recorded, row_buffer_beats=64 + 7)).run(job)


def test_codebooks_need_table_lanes_and_table_lanes_need_codebooks(seed):
    rng = np.random.default_rng(seed)
    uniform, table = random_job(rng)[0], random_job(rng, table_bits=3)[0]
    device, lanes = Recorded(), emulator(kind=Recorded, level_slots=64)
    assert (Driver(device).config.table_lanes, Driver(lanes).config.table_lanes) == (False, True)
    with pytest.raises(DataError, match=r"features have codebooks, but emulator has no table lanes.*level_slots=4096"):
        Driver(device).run(table)
    with pytest.raises(DataError, match=r"uniform levels, but emulator has table lanes.*level_slots=0"):
        Driver(lanes).run(uniform)
    assert not device.written and not lanes.written


def test_codebooks_too_large_for_the_hardware_are_refused(seed):
    job, _ = random_job(np.random.default_rng(seed), table_bits=3, features=70)
    message = "X has 70 features, but emulator holds codebooks of 9 levels for 64: remove features, .*level_slots=64"
    with pytest.raises(DataError, match=message):
        Driver(emulator(kind=Recorded, level_slots=32)).run(job)
    Driver(emulator(kind=Recorded, level_slots=64)).run(job)
    with pytest.raises(DataError, match="takes 8 words, but emulator buffers 7: lower bits to 4 or below"):
        Driver(emulator(kind=Recorded, level_slots=64, row_buffer_beats=64 + 7)).run(job)


def test_levels_must_match_the_geometry(seed):
    rng = np.random.default_rng(seed)
    uniform, table = random_job(rng)[0], random_job(rng, table_bits=2)[0]
    with pytest.raises(DataError, match=r"levels has shape None, but the geometry says \(5, 40\)"):
        replace(table, levels=None)
    with pytest.raises(DataError, match=r"shape \(4, 40\), but the geometry says \(5, 40\)"):
        replace(table, levels=table.levels[:4])
    with pytest.raises(DataError, match=r"shape \(5, 40\), but the geometry says None"):
        replace(uniform, levels=table.levels)
    for level, name in ((-(1 << 17) - 1, "from -131073 "), (1 << 17, " to 131072,")):
        levels = table.levels.copy()
        levels[3, 7] = level
        with pytest.raises(DataError, match=f"{name}.*keep them within -131072 and 131071"):
            replace(table, levels=levels)


def test_staleness_needs_room_for_two_models(seed):
    job, _ = random_job(np.random.default_rng(seed), features=65, staleness=1)
    with pytest.raises(DataError, match=r"65 features, but with staleness=1 emulator holds 64: use staleness=0"):
        Driver(emulator(kind=Recorded, max_features=128)).run(job)
    Driver(emulator(kind=Recorded, max_features=256)).run(job)
    Driver(emulator(kind=Recorded, max_features=128)).run(
        replace(job, state=replace(job.state, settings=replace(job.state.settings, staleness=0)))
    )


@pytest.mark.parametrize("hardware", [{"width": 64}, {"width": 256}, {"width": 128, "outputs": 2}])
def test_data_for_other_hardware_is_refused(seed, hardware):
    job, _ = random_job(np.random.default_rng(seed), rows_per_beat=2)
    device = emulator(kind=Recorded, **hardware)
    accelerator = Driver(device)
    assert (accelerator.config.width, accelerator.config.outputs) == (hardware["width"], hardware.get("outputs", 1))
    with pytest.raises(
        DataError, match=r"packed for width=128 and outputs=1, but emulator has width=\d+ and outputs=\d: open a device"
    ):
        accelerator.run(job)
    assert not device.written


def test_every_setting_is_written(seed):
    """Two runs with different settings: no register keeps a value of the previous run."""
    rng = np.random.default_rng(seed)
    device = Recorded()
    for bounds in ((-3, 5), (-(1 << 15), -2)):
        job, _ = random_job(rng, bounds=bounds, unpenalized_intercept=bounds[0] < -3, rows=int(rng.integers(1, 50)))
        Driver(device).run(job)
        written = dict(device.written)
        written |= REGISTERS["mode"].unpack(written["mode"])
        assert written["bounds"] == (bounds[0] % 65536) | (bounds[1] % 65536) << 16
        assert written["groups"] == job.geometry.rows
        assert written["batch_groups"] == min(8, job.geometry.rows)
        assert (written["batch_tail"], written["epoch_tail"]) == job.geometry.tails == (1, 1)
        assert (written["base_digits"], written["draws"]) == (job.geometry.base_digits, job.geometry.draws)
        assert written["snapshots"] == job.snapshots
        for name in SETTINGS_REGISTERS:
            assert written[name] == getattr(job.state.settings, name)
        assert written["weight_exponent"] == job.state.settings.weight_exponent % 16
    writable = {register.name for register in REGISTERS.values() if register.writable} - {
        *absent_registers(True, False, 0)
    }
    assert writable == set(written) - {None, *FIELDS}  # None stands for the high words of long registers


def test_further_objectives_need_a_device_that_has_them(seed):
    """It is refused before a register is written; with the option the registers get the settings."""
    rng = np.random.default_rng(seed)
    more = {"further_loss": FurtherLoss.HUBER, "epsilon": 5, "prox": Prox.L1, "shrink_step": 7, "shrink_phase": 9}
    for changed in (more, more | {"further_loss": FurtherLoss.NONE}):
        job, _ = random_job(rng, **changed)
        device = Recorded()
        with pytest.raises(DataError, match=r"emulator has no (loss='huber'|penalty='elasticnet'): use device='cpu'"):
            Driver(device).run(job)
        assert device.written == [] and device.allocated == 0
    device = Recorded(SoftwareConfig())
    driver = Driver(device)
    driver.run(job)
    assert driver.config == SoftwareConfig()
    assert {(name, changed.get(name)) for name in changed} - {("prox", Prox.L1)} <= set(device.written)


def test_random_rounding_registers_are_written_if_the_build_has_them(seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = emulator(kind=Recorded, random_rounding=True)
    settings = replace(job.state.settings, model_cut=9, scaled_gradient_cut=3, seed=seed % (1 << 32))
    outcome = Driver(device).run(replace(job, state=replace(job.state, settings=settings)))
    written = dict(device.written)
    assert (written["cuts"], written["seed"]) == (9 | 3 << 5, seed % (1 << 32))
    batches = job.epochs * job.geometry.batches
    assert outcome.state.settings.seed == (seed + batches * 0x9E3779B9) % (1 << 32)


def test_a_busy_device_is_left_alone(seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = Recorded(answers={"status": lambda _: STATUS_BUSY})
    with pytest.raises(DeviceError, match="busy"):
        Driver(device).run(job)
    assert not device.written


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("draw_address", 0, ErrorCode.READ_DECODE),
        ("model_out", 0, ErrorCode.WRITE_DECODE),
        ("trace", 8, ErrorCode.CONFIGURATION),
    ],
)
def test_hardware_errors_have_a_code_and_a_message(seed, name, value, code):
    job, _ = random_job(np.random.default_rng(seed))
    device = Recorded(twists={name: lambda _: value})
    with pytest.raises(DeviceError, match=f"{code.name}: .*[a-z]") as caught:
        Driver(device).run(job)
    assert caught.value.code is code
    assert device.allocated == 0
    device.twists.clear()
    Driver(device).run(job)


def test_a_device_without_progress_times_out(seed):
    job, _ = random_job(np.random.default_rng(seed))
    device = Recorded()
    accelerator = Driver(device, timeout=0.02)
    device.answers = {
        "status": lambda _: STATUS_BUSY if ("control", CONTROL_START) in device.written else 0,
        "epoch": lambda _: 1,
        "beats": lambda _: 5,
    }
    with pytest.raises(DeviceError, match=r"no progress for 0\.02 seconds in epoch 1, after 5 beats"):
        accelerator.run(job)
    assert ("control", CONTROL_ABORT) in device.written
    assert device.allocated == 0


def test_a_slow_device_does_not_time_out(seed):
    """The run takes much longer than the timeout, but the count of beats keeps increasing."""
    job, _ = random_job(np.random.default_rng(seed))
    polls = iter(range(10**9))
    device = Recorded()
    accelerator = Driver(device, timeout=0.02)
    started = ("control", CONTROL_START)
    device.answers = {
        "status": lambda status: STATUS_BUSY if started in device.written and next(polls) < 20_000 else status,
        "beats": lambda _: next(polls),
    }
    accelerator.run(job)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_aborts_the_run_and_frees_buffers(seed, error):
    job, _ = random_job(np.random.default_rng(seed))
    device = Recorded()

    def interrupt(epoch, loss):
        raise error

    with pytest.raises(error):
        Driver(device).run(job, interrupt)
    assert ("control", CONTROL_ABORT) in device.written
    assert device.read(0x24) & (STATUS_BUSY | STATUS_DONE) == 0
    assert device.allocated == 0
    Driver(device).run(job)
