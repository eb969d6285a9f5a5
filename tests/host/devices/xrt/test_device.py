"""Cards behind a fake XRT: the bits of the reference, the strictness of XRT, and failures that leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import CONTROL_START, IDENTITY, REGISTERS, STATUS_BUSY
from bitlane.devices import Buffer, Device, open_device, opened_devices
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError, DeviceError

SMALL = {"max_features": 512, "row_buffer_beats": 512, "fifo_beats": 64, "address_bits": 64}


def config_of(ports: int, shards: int = 1, outputs: int = 1) -> AcceleratorConfig:
    return AcceleratorConfig(max(64 * ports, 64 * shards), outputs, ports=ports, shards=shards, **SMALL)


def trained(device, rng_seed: int):
    """The bits of a random training: a random shape, and random settings."""
    rng = np.random.default_rng(rng_seed)
    rows, features = int(rng.integers(20, 200)), int(rng.integers(1, 100))
    X = rng.normal(size=(rows, features))
    options = {
        "bits": int(rng.choice([2, 4, 8])),
        "epochs": int(rng.integers(1, 4)),
        "batch_size": int(rng.integers(1, 40)),
        "draws": rng.choice(["epoch", "once"]),
        "learning_rate": 0.01,
        "penalty": rng.choice([None, "l1", "l2"]),
        "alpha": 0.001,
        "random_state": int(rng.integers(1 << 30)),
    }
    y = X @ rng.normal(size=features)
    if rng.integers(2):
        model = SGDClassifier(loss=rng.choice(["hinge", "log_loss"]), **options, device=device).fit(X, y > 0)
    else:
        model = SGDRegressor(**options, device=device).fit(X, y)
    return model.coef_.tobytes(), model.run_.loss.tobytes(), model.run_.saturations


# --- the bits -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("ports", "shards"), [(1, 1), (2, 1), (4, 2), (8, 1)])
def test_a_training_has_the_bits_of_the_reference(fake, tmp_path: Path, seed: int, ports: int, shards: int) -> None:
    config = config_of(ports, shards, outputs=1 + seed % 3)
    made = fake(config)
    path = made.write_files(tmp_path)
    for number in range(3):
        device = open_device(f"xrt://{path}")
        assert trained(device, seed + number) == trained(EmulatorDevice(config), seed + number)
        device.close()
    assert not made.bos and not made.open


def test_ports_can_share_a_memory(fake, tmp_path: Path, seed: int) -> None:
    made = fake(config_of(2), banks=(3, 3))
    device = open_device(f"xrt://{made.write_files(tmp_path)}@0000:65:00.1")
    assert device.capacity_bytes == made.bank_bytes
    assert trained(device, seed) == trained(EmulatorDevice(config_of(2)), seed)
    device.close()


def test_several_outputs_stream_through_a_small_memory(fake, tmp_path: Path, seed: int) -> None:
    made = fake(config_of(2), bank_bytes=1 << 16)
    device = open_device(f"xrt://{made.write_files(tmp_path)}")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 64))
    bits = []
    for each in (device, EmulatorDevice(config_of(2))):
        model = SGDRegressor(bits=8, epochs=2, learning_rate=0.01, device=each, random_state=seed).fit(X, X[:, 0])
        bits.append(model.coef_.tobytes())
    assert bits[0] == bits[1] and made.calls.count("sync") > 10
    device.close()


# --- a buffer -------------------------------------------------------------------------------------
def test_a_buffer_is_in_the_memory_of_its_port(fake, tmp_path: Path, seed: int) -> None:
    made = fake(config_of(4))
    with opened_devices(f"xrt://{made.write_files(tmp_path)}") as (device,):
        assert isinstance(device, Device) and device.name == "xrt (u50)"
        assert device.capacity_bytes == 4 * made.bank_bytes
        rng = np.random.default_rng(seed)
        for port in range(4):
            words = int(rng.integers(1, 3000))
            buffer = device.allocate(8 * words, port)
            assert isinstance(buffer, Buffer) and buffer.array.shape == (words,) and buffer.array.dtype == np.uint64
            assert buffer.device_address % 4096 == 0 and buffer.device_address >> 32
            assert 0 <= buffer.device_address - made.base(2 * port) < made.bank_bytes
            values = rng.integers(0, 1 << 63, words).astype(np.uint64)
            buffer.array[:] = values
            on_card = made.holder(buffer.device_address, words)
            assert not np.array_equal(on_card, values)
            device.flush(buffer)
            assert np.array_equal(on_card, values)
            on_card[:] = ~values
            assert np.array_equal(buffer.array, values)
            device.invalidate(buffer)
            assert np.array_equal(buffer.array, ~values)
            buffer.free()
            buffer.free()
            with pytest.raises(DeviceError, match=r"has been freed, or is another device's"):
                device.flush(buffer)
    assert not made.bos and not made.open


def test_a_full_memory_is_one_line(fake, tmp_path: Path) -> None:
    made = fake(config_of(2))
    with opened_devices(f"xrt://{made.write_files(tmp_path)}") as (device,):
        buffer = device.allocate(made.bank_bytes, 1)
        with pytest.raises(
            DeviceError, match=r"^xrt \(u50\), 8 bytes of memory 2, of port 1: allocating: Failed to all"
        ):
            device.allocate(8, 1)
        device.allocate(8, 0).free()
        buffer.free()
        device.allocate(made.bank_bytes, 1).free()


def test_registers_outside_the_kernel_are_refused(fake, tmp_path: Path) -> None:
    made = fake(config_of(1))
    with opened_devices(f"xrt://{made.write_files(tmp_path)}") as (device,):
        assert device.read(0) == IDENTITY
        with pytest.raises(DeviceError, match=r"the register at 0x1000: reading: Cannot read or write outside"):
            device.read(0x1000)
        with pytest.raises(DeviceError, match=r"the register at 0x1000: writing"):
            device.write(0x1000, 1)
    with pytest.raises(DeviceError, match=r"the card has been closed"):
        device.read(0)
    device.close()


# --- failures -------------------------------------------------------------------------------------
def test_a_failure_at_any_call_leaves_nothing_behind(fake, tmp_path: Path, seed: int) -> None:
    """Each call of XRT fails in turn, from the opening to the end of a training."""
    made = fake(config_of(2))
    spec = f"xrt://{made.write_files(tmp_path)}"
    X, y = np.random.default_rng(seed).normal(size=(20, 10)), np.arange(20.0)

    def train() -> None:
        with opened_devices(spec) as (device,):
            SGDRegressor(bits=4, epochs=1, device=device, random_state=0).fit(X, y)

    train()
    calls = made.calls
    assert calls.count("bo") >= 9 and not made.bos and not made.open
    for number in range(len(calls)):
        made.calls, made.fail_at = [], number
        with pytest.raises(DeviceError, match=f"injected at {calls[number]}$") as raised:
            train()
        assert "\n" not in str(raised.value)
        assert not made.bos and not made.open, (number, calls[number])
    made.calls, made.fail_at = [], -1
    train()


def test_a_run_of_a_killed_process_is_ended(fake, tmp_path: Path) -> None:
    made = fake(config_of(1))
    spec = f"xrt://{made.write_files(tmp_path)}"
    made.core._run = iter([None] * 100)
    with opened_devices(spec) as (device,):
        assert not device.read(REGISTERS["status"].offset) & STATUS_BUSY
    made.core._control = lambda value: None  # it does not end
    made.core._run = iter([None] * 10**9)
    with pytest.raises(DeviceError, match=r"the run of another process does not end: reset the card"):
        open_device(spec)
    assert not made.open


def test_two_devices_on_one_card(fake, tmp_path: Path) -> None:
    made = fake(config_of(1))
    spec = f"xrt://{made.write_files(tmp_path)}"
    with opened_devices(spec), pytest.raises(DeviceError, match=r"^xrt card 0, sgd.xclbin: loading .*resource busy$"):
        open_device(spec)
    with pytest.raises(DataError, match=r"lists a board twice"), opened_devices([spec, spec]):
        pass
    assert not made.open


def test_the_clock_is_that_of_the_build(fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    made = fake(config_of(1))
    with opened_devices(f"xrt://{made.write_files(tmp_path)}") as (device,):
        monkeypatch.setattr("time.sleep", slept.append)
        monkeypatch.setattr("time.monotonic", lambda: 5.0)
        device.write(REGISTERS["control"].offset, CONTROL_START)
        device.wait(300_000_000)
        monkeypatch.setattr("time.monotonic", lambda: 7.0)
        device.wait(300_000_000)
    assert slept == [1.0, 0.0]
