"""The exported core in a LiteX SoC trains digits through LiteDRAM with the bits of the reference."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from litedram.init import get_sdram_phy_py_header

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane_verify.litex.digits import BUILD, DigitsModel, train_digits
from bitlane_verify.litex.run import train_on_soc
from bitlane_verify.litex.soc import ADDRESS, BANK, COMMAND, CONTROL, CONTROLLER, ISSUE, AcceleratorSoc

pytestmark = pytest.mark.litex


@pytest.fixture(scope="module")
def reference() -> DigitsModel:
    return train_digits(EmulatorDevice(BUILD), 0)


@pytest.mark.slow
def test_digits_have_the_bits_of_the_reference(tmp_path: Path, seed: int) -> None:
    run = train_on_soc(tmp_path, seed)
    expected = train_digits(EmulatorDevice(BUILD), seed)
    assert run.model.differences(expected) == []
    assert run.model.accuracy == expected.accuracy > 0.9
    assert run.violations == []
    assert expected.cycles < run.model.cycles < 2 * expected.cycles  # refresh, opened rows, and latency


def test_a_port_of_another_width_is_refused() -> None:
    with pytest.raises(DataError, match=r"width=64, ports=1: .* 128 bits"):
        AcceleratorSoc(AcceleratorConfig())
    with pytest.raises(DataError, match="width=128, ports=2"):
        AcceleratorSoc(AcceleratorConfig(128, ports=2))


def test_the_host_starts_the_dram_as_litedram_says() -> None:
    """Against the Python file that LiteDRAM writes for hosts: the first two commands are those of `CONTROL`."""
    soc = AcceleratorSoc(BUILD)
    header: dict[str, list[tuple[str, int, int, int, int]]] = {}
    exec(get_sdram_phy_py_header(soc.sdrphy.settings, soc.sdrphy.module.timing_settings), {}, header)
    expected: list[tuple[str, int, int]] = []
    for number, (_comment, address, bank, bits, cycles) in enumerate(header["init_sequence"]):
        if number < 2:
            expected.append((CONTROL, bits, cycles))
        else:
            expected += [(ADDRESS, address, 0), (BANK, bank, 0), (COMMAND, bits, 0), (ISSUE, 1, cycles)]
    assert soc.dram_start == [*expected, (CONTROL, CONTROLLER, 0)]


def test_a_changed_weight_is_found(reference: DigitsModel, tmp_path: Path) -> None:
    reference.save(tmp_path / "model.npz")
    loaded = DigitsModel.load(tmp_path / "model.npz")
    assert loaded.differences(reference) == []
    changed = reference.snapshots.copy()
    changed[1, 9, 3] = np.nextafter(changed[1, 9, 3], 1)
    assert dataclasses.replace(loaded, snapshots=changed).differences(reference) == ["snapshots"]
