"""Waves of the device `rtl`: every signal of the views is in the file, and the bits of a training do not change."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import HELPERS
from tests.helpers.waves import variables

from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DataError, DeviceError
from bitlane_sim.cocotb.__main__ import SMALL
from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import TOP, build_verilog
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.toolchain import Toolchain
from bitlane_sim.rtl.wave_views import MAPPINGS, AxiResponse, wave_groups, write_views
from bitlane_verify.equivalence.random_jobs import random_job


@pytest.mark.slow  # compiles a simulator that writes waves
def test_waves_of_a_run(tmp_path: Path, seed: int) -> None:
    job = random_job(np.random.default_rng(seed), SMALL, features=40, rows=12, epochs=2)
    waves = tmp_path / "run.vcd"
    with RtlDevice(SMALL, waves=waves) as device:
        found = Driver(device).run(job)
        cycles = device.counters.cycles
    expected = Driver(EmulatorDevice(SMALL)).run(job)
    np.testing.assert_array_equal(found.state.master, expected.state.master)
    np.testing.assert_array_equal(found.loss, expected.loss)
    bits = variables(waves)
    groups = wave_groups(SMALL.width, SMALL.address_bits)
    assert {s.name: bits.get(f"TOP.{TOP}.{s.name}") for group in groups.values() for s in group} == {
        s.name: s.bits for group in groups.values() for s in group
    }
    assert f"TOP.{TOP}.clk" in waves.with_suffix(".gtkw").read_text().splitlines()
    times = [int(line[1:]) for line in waves.read_text().splitlines() if line.startswith("#")]
    assert max(times) == 10_000 * (cycles - 1) + 5_000  # ps


def can_write_fst() -> bool:
    try:
        return toolchain.find().can_write_fst()
    except DeviceError:
        return False


@pytest.mark.skipif(not can_write_fst(), reason="needs the headers of lz4 and zlib: apt install liblz4-dev zlib1g-dev")
def test_waves_as_fst(tmp_path: Path) -> None:
    """Of a small design: the file has the header of the format."""
    waves = tmp_path / "run.fst"
    with RtlDevice(library=build_verilog(HELPERS / "mischief.v", waves=".fst"), waves=waves) as device:
        device.run(100)
    header = waves.read_bytes()[:9]
    assert header == bytes([0]) + (329).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("name", "message"),
    [("run.txt", "must end in .fst or .vcd"), ("run", "must end in"), ("none/run.vcd", "there is no folder")],
)
def test_a_bad_name_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        RtlDevice(SMALL, waves=tmp_path / name)


def test_missing_libraries_of_fst_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toolchain, "can_write_fst", lambda self: False)
    with pytest.raises(DeviceError, match=r"apt install liblz4-dev zlib1g-dev.* ends in \.vcd"):
        RtlDevice(SMALL, waves=tmp_path / "run.fst")


def test_views(tmp_path: Path) -> None:
    """GTKWave's groups are closed and its files of words exist; Surfer's commands set formats of the right items."""
    write_views(tmp_path / "run.fst", "top", 64, 40)
    lines = (tmp_path / "run.gtkw").read_text().splitlines()
    names = list(wave_groups(64, 40))
    assert [line for line in lines if line.startswith("-")] == [f"-{name}" for name in names for _ in range(2)]
    assert lines.count("@800200") == lines.count("@1000200") == len(names)
    words = {Path(line.removeprefix("^1 ")) for line in lines if line.startswith("^1 ")}
    assert {path.parent for path in words} == {tmp_path / MAPPINGS} and all(path.exists() for path in words)
    assert (tmp_path / MAPPINGS / "AxiResponse").read_text().split() == [
        text for value in AxiResponse for text in (str(value.value), value.name)
    ]
    assert "top.m_axi_araddr[39:0]" in lines and "top.clk" in lines
    commands = (tmp_path / "run.sucl").read_text().splitlines()
    items = [line for line in commands if line.startswith(("divider_add", "variable_add"))]
    formats = pairwise(commands)
    formatted = {items[number(a.split()[1])]: b.split()[1] for a, b in formats if a.startswith("item_focus ")}
    assert formatted["variable_add top.clk"] == "Clock"
    assert formatted["variable_add top.m_axi_rresp"] == "AxiResponse"
    assert formatted["variable_add top.error"] == "ErrorCode"
    assert set(formatted.values()) == {"Clock", *(path.name for path in words)}


def number(letters: str) -> int:
    """The number of an item, whose letters a to p are hexadecimal digits."""
    assert re.fullmatch("[a-p]+", letters)
    return int("".join(f"{ord(letter) - ord('a'):x}" for letter in letters), 16)
