"""What stops a card from being opened: one line that names the file, the register or the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices import available_devices, open_device
from bitlane.errors import DataError, DeviceError

CONFIG = AcceleratorConfig(128, ports=2, address_bits=64)


def refused(spec: str, made=None) -> str:
    with pytest.raises(DeviceError) as raised:
        open_device(spec)
    assert made is None or (not made.open and not made.bos)
    message = str(raised.value)
    assert "\n" not in message
    return message


def change(path: Path, **values: object) -> None:
    beside = path.with_suffix(".json")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | values))


def test_without_xrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake) -> None:
    path = fake(CONFIG).write_files(tmp_path)
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    message = refused(f"xrt://{path}")
    assert message == (
        "device='xrt://...' cannot be used: XRT is not installed: install it and source its setup.sh, which sets "
        "XILINX_XRT"
    )


def test_the_list_of_devices_looks_for_xrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake) -> None:
    fake(CONFIG)
    reasons = {each.name: each.reason for each in available_devices()}
    assert reasons["xrt://FILE.xclbin"] == ""
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    reasons = {each.name: each.reason for each in available_devices()}
    assert reasons["xrt://FILE.xclbin"].startswith("XRT is not installed: ")


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake) -> None:
    path = fake(CONFIG).write_files(tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "there is no C++ compiler no-such-compiler: install one, or set CXX" in refused(f"xrt://{path}")


def test_an_xrt_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake) -> None:
    path = fake(CONFIG).write_files(tmp_path)
    header = tmp_path / "include" / "xrt" / "xrt_device.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setenv("XILINX_XRT", str(tmp_path))
    assert f"cannot be built with the XRT in {tmp_path}: the C++ compiler c++ failed" in refused(f"xrt://{path}")


@pytest.mark.parametrize("suffix", [".xclbin", ".json"])
def test_a_missing_file(tmp_path: Path, fake, suffix: str) -> None:
    made = fake(CONFIG)
    path = made.write_files(tmp_path)
    path.with_suffix(suffix).unlink()
    message = refused(f"xrt://{path}", made)
    assert message.startswith(f"{path.with_suffix(suffix)} is missing: ") and made.calls == []


def test_damaged_files(tmp_path: Path, fake) -> None:
    made = fake(CONFIG)
    path = made.write_files(tmp_path)
    path.with_suffix(".json").write_text("{")
    assert "is damaged (" in refused(f"xrt://{path}", made)
    path.with_suffix(".json").write_text("{}")
    assert "lacks kernel, card, clock_mhz, version, build" in refused(f"xrt://{path}", made)
    made.write_files(tmp_path)
    path.write_bytes(b"text")
    assert refused(f"xrt://{path}", made) == "xrt card 0, sgd.xclbin: reading the .xclbin: Invalid xclbin"


@pytest.mark.parametrize("name", ["build", "port_bits", "outputs", "shards", "ports"])
def test_another_build(tmp_path: Path, fake, name: str) -> None:
    made = fake(AcceleratorConfig(512, ports=4, address_bits=64))
    path = made.write_files(tmp_path)
    actual = json.loads(path.with_suffix(".json").read_text())[name]
    change(path, **{name: 2 if name != "outputs" else 3})
    message = refused(f"xrt://{path}", made)
    assert f"the register {name} holds {actual:#x} instead of" in message
    assert message.endswith("sgd.xclbin and its .json are of different builds")


def test_another_release_and_another_kernel(tmp_path: Path, fake) -> None:
    made = fake(CONFIG)
    path = made.write_files(tmp_path)
    change(path, version=0x10000)
    assert "is of register map 0x10000, but this driver needs 0x" in refused(f"xrt://{path}", made)
    made.write_files(tmp_path)
    change(path, kernel="other")
    assert "loading the .xclbin: No IP matching 'other'" in refused(f"xrt://{path}", made)
    made.write_files(tmp_path)
    made.core._values["identity"] = 5
    assert "the register identity holds 0x5 instead of" in refused(f"xrt://{path}", made)


def test_a_port_without_memory(tmp_path: Path, fake) -> None:
    made = fake(CONFIG, banks=(0,))
    message = refused(f"xrt://{made.write_files(tmp_path)}", made)
    assert "the kernel has no memory for base_address_1: link it with the link.cfg of its export" in message


def test_another_card(tmp_path: Path, fake) -> None:
    made = fake(CONFIG)
    message = refused(f"xrt://{made.write_files(tmp_path)}@1", made)
    assert message == "xrt card 1, sgd.xclbin: opening the card: No such device with index '1'"


@pytest.mark.parametrize("address", ["u50", "a.bit", "a.xclbin@", "a.xclbin@x y"])
def test_an_address_of_another_form(address: str) -> None:
    with pytest.raises(DataError, match=f"device='xrt://{address}': name a file FILE.xclbin"):
        open_device(f"xrt://{address}")
