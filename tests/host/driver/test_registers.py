"""Access to registers and their fields by name."""

from __future__ import annotations

import pytest
from tests.helpers.emulators import emulator

from bitlane.contract.registers import FIELDS, REGISTERS
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver import registers


def test_writing_a_field_keeps_the_others() -> None:
    device = emulator(random_rounding=True, encoder=1)
    for register in REGISTERS.values():
        if register.fields:
            registers.write(device, register.name, (1 << register.bits) - 1)
    for name, (home, field) in FIELDS.items():
        registers.write(device, name, 0)
        assert registers.read(device, home.name) == (1 << home.bits) - 1 & ~((1 << field.bits) - 1 << field.low)
        assert registers.read(device, name) == 0
        registers.write(device, name, (1 << field.bits) - 1)
        assert registers.read(device, home.name) == (1 << home.bits) - 1


def test_both_words_of_a_long_register() -> None:
    device = EmulatorDevice()
    registers.write(device, "model_in", 0x1234_5678_9ABC_DEF0)
    offset = REGISTERS["model_in"].offset
    assert (device.read(offset), device.read(offset + 4)) == (0x9ABC_DEF0, 0x1234_5678)
    assert registers.read(device, "model_in") == 0x1234_5678_9ABC_DEF0


@pytest.mark.parametrize(("name", "value"), [("loss", 4), ("base_digits", -1), ("groups", 1 << 32), ("trace", 1 << 64)])
def test_values_that_do_not_fit_are_refused(name: str, value: int) -> None:
    device = EmulatorDevice()
    with pytest.raises(ValueError, match=f"{name}={value} does not fit"):
        registers.write(device, name, value)
    assert registers.read(device, name) == 0


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KeyError):
        registers.read(EmulatorDevice(), "speed")
