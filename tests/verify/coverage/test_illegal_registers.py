"""Registers that a build must refuse: the emulator refuses each of them too, and takes the run without them."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import level_slots
from bitlane.contract.modes import ErrorCode
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import CONTROL_START, REGISTERS, STATUS_ERROR_SHIFT
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver import registers
from bitlane.driver.driver import Driver
from bitlane_verify.coverage.illegal_registers import illegal_registers
from bitlane_verify.equivalence.random_jobs import SMALL, SMALL_TABLE, random_job

STATUS, CONTROL = (REGISTERS[name].offset for name in ("status", "control"))


def ended(device: EmulatorDevice) -> int:
    """How a run with the registers as they are ends."""
    device.write(CONTROL, CONTROL_START)
    while (status := device.read(STATUS)) & 1:
        pass
    return status >> STATUS_ERROR_SHIFT


@pytest.mark.parametrize("config", [SMALL, SMALL_TABLE], ids=["digit lanes", "table lanes"])
def test_the_emulator_refuses_them_too(config: AcceleratorConfig, seed: int) -> None:
    device = EmulatorDevice(config)
    Driver(device).run(random_job(np.random.default_rng(seed), config, features=40, rows=20))
    for rule, values in illegal_registers(config).items():
        kept = {name: registers.read(device, name) for name in values}
        write(device, values)
        assert ended(device) == ErrorCode.CONFIGURATION, rule
        write(device, kept)


def write(device: EmulatorDevice, values: dict[str, int]) -> None:
    for name, value in values.items():
        registers.write(device, name, value)


def test_rules_of_table_lanes_and_rounding() -> None:
    rules = illegal_registers(SMALL_TABLE)
    assert {rule: rules[rule] for rule in ("no base bits", "base bits", "no draws")} == {
        "no base bits": {"base_digits": 0},
        "base bits": {"base_digits": 4},
        "no draws": {"draws": 0},
    }
    for bits in (2, 3):
        wanted = rules.get(f"levels of {bits} bits")
        room = SMALL_TABLE.level_slots // level_slots(bits) * 32
        assert wanted is None if room >= SMALL_TABLE.max_features else wanted["features"] == room + 1
    cuts = {values[name] for values in rules.values() for name in values if name.endswith("_cut")}
    assert cuts == {MAX_CUT + 1}
    assert not any("cut" in rule or "bits" in rule for rule in illegal_registers(SMALL))
