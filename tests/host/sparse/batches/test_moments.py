"""Standardised numbers: against numpy on all rows, with outliers, constants and any units."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.schema import Schema, schema_from_json
from bitlane.sparse.batches.source import open_source

pa = pytest.importorskip("pyarrow")

from bitlane.sparse.batches.columns import batch_of_columns  # noqa: E402
from bitlane.sparse.batches.moments import edges_of, long_tails, scales_of, unlike  # noqa: E402

LOCATION = RowLocation("x")


def scale_of(numbers: object) -> tuple[float, float]:
    ((_, center, scale),) = scales_of(pa.record_batch({"n": pa.array(numbers)}), ["n"], LOCATION)
    return center, scale


def test_any_units_have_equal_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(30):
        numbers = rng.normal(size=int(rng.integers(3, 500)))
        unit, offset = 10.0 ** rng.integers(-30, 30), float(rng.normal()) * 10.0 ** rng.integers(0, 4)
        center, scale = scale_of(numbers)
        moved = scale_of(unit * (numbers + offset))
        usual = np.clip(numbers, *np.quantile(numbers, (0.01, 0.99)))
        assert (center, scale) == pytest.approx((usual.mean(), usual.std()), rel=1e-9, abs=1e-12)
        assert moved == pytest.approx((unit * (center + offset), unit * scale), rel=1e-6)


def test_one_outlier_hides_nothing(seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(5, 2, 1_000)
    numbers[7] = 1e12
    center, scale = scale_of(numbers)
    assert center == pytest.approx(5, abs=0.5) and scale == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([4.0] * 5, (4.0, 4.0)),
        ([0.0] * 5, (0.0, 1.0)),
        ([None, None], (0.0, 1.0)),
        ([0.0] * 999 + [1.0], None),
        ([1e308, -1e308, 0.0], None),
    ],
)
def test_columns_without_a_spread(numbers: list[float | None], wanted: tuple[float, float] | None) -> None:
    center, scale = scale_of(pa.array(numbers, pa.float64()))
    assert np.isfinite(center) and 0 < scale < np.inf
    assert wanted is None or (center, scale) == wanted


def test_a_file_is_standardised_by_its_first_rows(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(1e6, 1e3, 300)
    lines = [f"{rng.integers(2)},{number!r}" for number in numbers.tolist()]
    (tmp_path / "a.csv").write_text("label,n\n" + "\n".join([*lines, "1,"]) + "\n")
    source = open_source(tmp_path / "a.csv")
    assert isinstance(source.schema, Schema)
    schema = source.fitted(source.schema)
    (_, center, scale) = schema.scales[0]
    assert schema_from_json(schema.as_json()) == schema
    found = np.concatenate([batch.values for batch in open_source(tmp_path / "a.csv", schema=schema).batches(0)])
    np.testing.assert_allclose(found, (numbers - center) / scale, rtol=1e-5, atol=1e-6)
    assert abs(found.mean()) < 0.2 and 0.8 < found.std() < 1.3
    assert schema.text() == f"label label; numeric n ({center:.3g} +- {scale:.3g})"


def test_a_number_far_from_the_first_rows_is_told() -> None:
    schema = Schema(numeric=("n",), scales=(("n", 10.0, 2.0),))
    rows = pa.record_batch({"label": [0, 1], "n": [11.0, 5_000.0]})
    with pytest.warns(UserWarning, match=r"numeric column 'n' has 5000, 2\.5e\+03 times the spread of its first rows"):
        found = batch_of_columns(rows, schema, location=LOCATION)
    assert found.values.tolist() == [0.5, 2495.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch_of_columns(rows.slice(0, 1), schema, location=LOCATION)


@pytest.mark.parametrize("scale", [("n", 0.0, 0.0), ("n", np.nan, 1.0), ("n", 0.0, np.inf), ("c", 0.0, 1.0)])
def test_scales_that_cannot_be_used(scale: tuple[str, float, float]) -> None:
    with pytest.raises(DataError, match="must be a numeric column, with a finite centre and a scale above 0"):
        Schema(categorical=("c",), numeric=("n",), scales=(scale,))


def test_edges_share_out_the_first_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(categorical=("n",))
    for count in (2, 5, 10):
        numbers = rng.permutation(100 * count).astype(float) / 4
        rows = pa.record_batch({"n": pa.array([*numbers, None])})
        edges = edges_of(rows, "n", count, LOCATION, schema)
        sizes = [sum(low <= x < high for x in numbers) for low, high in pairwise([-np.inf, *edges, np.inf])]
        assert len(sizes) == count and max(sizes) - min(sizes) <= 2, sizes
    zeros = pa.record_batch({"n": pa.array(["0"] * 65 + ["7"] * 30 + ["9"] * 5)})
    assert edges_of(zeros, "n", 10, LOCATION, schema) == (7.0,)
    assert edges_of(pa.record_batch({"n": pa.array([3.0, 3.0])}), "n", 4, LOCATION, schema) == ()
    assert edges_of(pa.record_batch({"n": pa.array([None], pa.float64())}), "n", 4, LOCATION, schema) == ()


def test_scales_are_those_of_transformed_numbers(seed: int) -> None:
    numbers = np.random.default_rng(seed).lognormal(3, 2, 500)
    rows = pa.record_batch({"n": numbers})
    schema = Schema(numeric=("n",), transforms=(("n", "log1p", ()), ("n", "clip", (1.0, 50.0))))
    logs = [math.log(1 + min(max(number, 1.0), 50.0)) for number in numbers]
    ((_, center, scale),) = scales_of(rows, ["n"], LOCATION, schema)
    assert center == pytest.approx(np.mean(logs), rel=0.02) and scale == pytest.approx(np.std(logs), rel=0.05)


def test_a_long_tail_is_seen(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = {"long": rng.lognormal(3, 2.5, 2000), "even": rng.random(2000), "bell": rng.normal(0, 5, 2000)}
    rows = pa.record_batch(numbers)
    assert [*long_tails(rows, [*numbers], LOCATION, Schema(numeric=tuple(numbers)))] == ["long"]
    logs = Schema(numeric=tuple(numbers), transforms=(("long", "log1p", ()),))
    assert not long_tails(rows, [*numbers], LOCATION, logs)


def test_declared_moments_that_are_not_those_of_the_rows_are_told(seed: int) -> None:
    rows = pa.record_batch({"n": np.random.default_rng(seed).lognormal(3, 1, 500)})
    right = Schema(numeric=("n",), scales=scales_of(rows, ["n"], LOCATION))
    assert unlike(rows, right, LOCATION) == []
    (line,) = unlike(rows, replace(right, transforms=(("n", "log1p", ()),)), LOCATION)
    assert line.startswith("numeric column 'n' has centre ") and line.endswith("standard = true takes these")
