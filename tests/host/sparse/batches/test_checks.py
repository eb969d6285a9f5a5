"""Checks of labels and values, and the words of their errors."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.checks import RowLocation, check_finite, check_labels, check_task, near_names, one_line

LOCATION = RowLocation("clicks.csv", 101)


def test_places_count_from_the_first_row() -> None:
    assert str(LOCATION.error(4, "bad")) == "clicks.csv, row 105: bad"
    assert str(LOCATION.after(10).error(0, "bad")) == "clicks.csv, row 111: bad"
    assert str(RowLocation("a", 1, "line").after(2).error(0, "bad")) == "a, line 3: bad"


def test_classes_become_zero_and_one() -> None:
    found = check_labels(np.array([0.0, 1.0, -1.0, -0.0]), "classification", LOCATION)
    assert found.dtype == np.float32
    assert found.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("wrong", [2.0, 0.5, -2.0, np.nan, np.inf])
def test_other_labels_are_no_classes(wrong: float) -> None:
    with pytest.raises(DataError, match=r"clicks.csv, row 103: label .* is neither 0 nor 1"):
        check_labels(np.array([0.0, 1.0, wrong, 7.0]), "classification", LOCATION)


def test_regression_takes_finite_float32() -> None:
    assert check_labels(np.array([2.5, -7.0]), "regression", LOCATION).tolist() == [2.5, -7.0]
    for wrong in (np.nan, np.inf, 1e39):
        with pytest.raises(DataError, match=r"clicks.csv, row 102: label .* is not a finite float32"):
            check_labels(np.array([1.0, wrong]), "regression", LOCATION)


def test_the_first_value_that_is_not_finite_is_named() -> None:
    check_finite(np.array([1.0, 2.0]), None, "price", LOCATION)
    with pytest.raises(DataError, match=r"clicks.csv, row 102: price is nan"):
        check_finite(np.array([1.0, np.nan, np.inf]), None, "price", LOCATION)
    with pytest.raises(DataError, match=r"clicks.csv, row 110: price is inf"):
        check_finite(np.array([1.0, np.inf]), np.array([3, 9]), "price", LOCATION)


def test_tasks() -> None:
    check_task("regression")
    with pytest.raises(DataError, match=r"task='ranking' is unknown; choose 'classification' or 'regression'"):
        check_task("ranking")


def test_names_that_are_near() -> None:
    assert near_names("lable", ["label", "user"]) == "; did you mean 'label'?"
    assert near_names("xyz", ["label", "user"]) == "; there are label, user"
    assert near_names("xyz", map(str, range(30))).endswith("18, 19, ...")
    assert near_names("xyz", []) == "; there are no columns"


def test_messages_have_one_line() -> None:
    assert one_line(ValueError("first. \nsecond")) == "first"
    assert one_line(KeyError()) == "KeyError"
