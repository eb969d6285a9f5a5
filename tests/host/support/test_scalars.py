"""Validation of scalar arguments."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number, is_integer


def test_integers_in_range_are_accepted() -> None:
    assert [is_integer(value) for value in (1, np.int8(1), True, 1.0, "1", None)] == [True, True, *[False] * 4]
    assert as_integer("n", np.uint8(3), 1, 3) == 3 and type(as_integer("n", np.uint8(3), 1)) is int


@pytest.mark.parametrize(
    ("value", "message"), [(0, "n=0"), (4, "n=4"), (True, "n=True"), (1.0, "n=1.0"), ("2", "n='2'")]
)
def test_other_values_are_refused_as_integers(value: object, message: str) -> None:
    with pytest.raises(DataError, match=f"{message}: it must be an integer from 1 to 3"):
        as_integer("n", value, 1, 3)
    if value != 4:
        with pytest.raises(DataError, match=f"{message}: it must be an integer of at least 1"):
            as_integer("n", value, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, 1j])
def test_other_values_are_refused_as_numbers(value: object) -> None:
    assert as_number("x", 1) == 1.0 and type(as_number("x", np.float32(1))) is float
    with pytest.raises(DataError, match=r"x=.*: it must be a finite number"):
        as_number("x", value)
