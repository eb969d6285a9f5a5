"""Errors can be caught as what they are and as what Python calls them."""

import pytest

import bitlane
from bitlane.contract.modes import ErrorCode


def test_families():
    for error, builtin in ((bitlane.DataError, ValueError), (bitlane.DeviceError, RuntimeError)):
        assert issubclass(error, bitlane.BitlaneError) and issubclass(error, builtin)
    with pytest.raises(ValueError, match="why"):
        raise bitlane.DataError("why")


def test_device_error_has_a_code():
    assert bitlane.DeviceError("x").code == ErrorCode.NONE
    assert bitlane.DeviceError("x", ErrorCode.ABORTED).code is ErrorCode.ABORTED


def test_names_are_lazy_and_unknown_ones_fail():
    assert bitlane.SGDRegressor.__name__ in dir(bitlane)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = bitlane.nothing_such
