"""Labels that are missing, in every form in which users have them, are refused in one line; "nan" is a label."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.helpers.estimator_tables import classifier, regressor

from bitlane import DataError

ROWS = 40
MISSING = r"^y holds \d+ (missing|NaN or infinite) value\(s\): drop or fill them$"


def spoiled(rng: np.random.Generator, values: list[Any], missing: Any) -> list[Any]:
    """A list of labels of which one to all but two are missing."""
    labels = [values[i % len(values)] for i in range(ROWS)]
    for i in rng.choice(np.arange(2, ROWS), rng.integers(1, ROWS - 2), replace=False):
        labels[i] = missing
    return labels


DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
KINDS = {  # labels, what is missing, and what is made of the list
    "None among numbers": ([0, 1], None, list),
    "None among text": (["a", "b"], None, list),
    "NaN among text": (["a", "b"], float("nan"), list),
    "NaN among bytes": ([b"a", b"b"], np.float32("nan"), tuple),
    "NaN among objects": ([0, 1], float("nan"), lambda y: np.array(y, object)),
    "NaN": ([0.0, 1.0], float("nan"), np.array),
    "NaT": (DAYS, None, lambda y: np.array(y, "datetime64[s]")),
    "NaT of a time span": ([1, 2], "NaT", lambda y: np.array(y, "timedelta64[s]")),
    "NaT among objects": (DAYS, np.datetime64("NaT"), lambda y: np.array(y, object)),
    "decimal NaN": ([Decimal(0), Decimal(1)], Decimal("nan"), list),
    "a mask": ([0, 1], 2, lambda y: np.ma.masked_equal(y, 2)),
    "a mask in an object array": ([0, 1], np.ma.masked, lambda y: np.array([*y, None], object)[:-1]),
    "a column": ([0, 1], None, lambda y: np.array(y, object)[:, None]),
}
PANDAS = {
    "Int64": [0, 1],
    "UInt8": [0, 1],
    "Float32": [0.0, 1.0],
    "boolean": [False, True],
    "string": ["a", "b"],
    "object": [0, 1],
    "category": ["a", "b"],
    "datetime64[ns]": ["2020-01-01", "2021-01-01"],
    "timedelta64[ns]": [1, 2],
    "float64": [0.0, 1.0],
}


def refused(y: Any, rows: int = ROWS) -> None:
    """Both estimators refuse the labels in each method that takes some, and the model stays as it is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    for model in (classifier(), regressor()):
        good = np.arange(rows) % 2
        before = model.fit(X, good).coef_.tolist()
        for method in (model.fit, model.partial_fit, model.score):
            with pytest.raises(DataError, match=MISSING):
                method(X, y)
        assert model.coef_.tolist() == before


@pytest.mark.parametrize("kind", KINDS)
def test_missing_labels(kind: str, seed: int) -> None:
    values, missing, make = KINDS[kind]
    refused(make(spoiled(np.random.default_rng(seed), values, missing)))


@pytest.mark.parametrize("dtype", PANDAS)
@pytest.mark.parametrize("missing", ["None", "NA", "NaN"])
@pytest.mark.parametrize("framed", [False, True])
def test_missing_labels_of_pandas(dtype: str, missing: str, framed: bool, seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    value = {"None": None, "NA": pandas.NA, "NaN": float("nan")}[missing]
    if missing == "NA" and dtype in ("float64", "timedelta64[ns]"):
        value = None  # pandas itself refuses NA here
    y = pandas.Series(spoiled(np.random.default_rng(seed), PANDAS[dtype], value), dtype=dtype)
    refused(pandas.DataFrame({"y": y}) if framed else y)


def test_missing_labels_of_arrow(seed: int) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for values in ([0, 1], ["a", "b"], [False, True]):
        refused(pyarrow.array(spoiled(np.random.default_rng(seed), values, None)))


@pytest.mark.parametrize("value", [0.5, -1e-9, np.float32(2.25), float("inf"), float("-inf"), np.float64("inf")])
def test_objects_are_no_labels_with_a_fraction_or_infinite(value: Any, seed: int) -> None:
    """As they are in an array of floats."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(ROWS, 2)), spoiled(rng, [0, 1.0, np.int8(1)], value)
    message = r"\d+ value\(s\) with a fraction: use a" if np.isfinite(value) else r"\d+ NaN or infinite value\(s\)"
    for labels in (np.array(y, object), np.array(y, np.float64)):
        with pytest.raises(DataError, match=message):
            classifier().fit(X, labels)
    whole = np.array([0, 1.0, np.int8(1), 1e300] * 10, object)
    assert classifier(epochs=1).fit(X, whole).classes_.tolist() == [0, 1, 1e300]


def test_missing_classes(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(4, 2))
    for classes in ([0, 1, None], ["a", float("nan")], [0.0, float("nan")]):
        with pytest.raises(DataError, match=r"^classes holds 1 (missing|NaN or infinite)"):
            classifier().partial_fit(X, [0, 1, 0, 1], classes=classes)


@pytest.mark.parametrize("make", [list, np.array, lambda y: np.array(y, object)])
def test_the_text_nan_is_a_label(make: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 2))
    y = make([str(label) for label in rng.permutation(["nan", "None", "NaT", "<NA>"] * 10)])
    model = classifier().fit(X, y)
    assert model.classes_.tolist() == sorted({"nan", "None", "NaT", "<NA>"})
    assert model.score(X, model.predict(X).tolist()) == 1


def test_labels_that_cannot_be_sorted(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(4, 2))
    with pytest.raises(DataError, match=r"^Unknown label type: y mixes values that cannot be sorted"):
        classifier().fit(X, np.array([0, "a", 1, "b"], object))
