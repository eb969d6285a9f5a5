"""Codebooks: least variance for the stored values, all values inside the range, and integer units."""

import numpy as np
import pytest
from tests.helpers.levels_oracle import best_costs, cost_of

from bitlane.contract.formats import LEVEL
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.levels import codebooks as module
from bitlane.levels.codebooks import choose_precision, codebook_values, fit_codebook
from bitlane.quantization.scaling import fit_scaling

TABLES = [Precision(bits, "double", codebook=True) for bits in (3, 4, 5)]


def columns(rng, rows):
    """Return columns with a heavy tail in large units, image bytes, a constant and two values, and their scaling."""
    X = np.column_stack(
        [
            1e6 * rng.lognormal(size=rows),
            rng.integers(0, 256, rows) * (rng.random(rows) < 0.3),
            np.full(rows, 7.0),
            np.where(np.arange(rows) % 3, 0.1, -3.0),
            rng.normal(size=rows).astype(np.float32),
        ]
    )
    return X, fit_scaling(X, np.zeros((rows, 1)), margins=True, intercept_value=1.0)


@pytest.mark.parametrize("precision", TABLES, ids=str)
def test_optimal_codebooks_have_the_least_variance(seed, precision):
    X, scaling = columns(np.random.default_rng(seed), 200)
    table, values = fit_codebook(X, scaling, precision, "optimal"), scaling.values(X)
    assert table.dtype == np.int32 and table.shape == (precision.levels, 5)  # with the intercept, without the constant
    assert (np.diff(table, axis=0) >= 0).all() and np.abs(table).max() <= 1 << LEVEL.fraction
    assert (table[:, -1] == 1 << LEVEL.fraction).all()
    levels = codebook_values(table)
    assert (levels[0] <= values.min(axis=0)).all() and (levels[-1] >= values.max(axis=0)).all()
    step = 2.0**-LEVEL.fraction
    for j, column in enumerate(values.T[:-1]):
        best = best_costs(column, precision.levels - 1)[-1]
        assert best - 1e-9 <= cost_of(levels[:, j], column) <= best + 200 * 4 * step


@pytest.mark.parametrize("precision", TABLES, ids=str)
def test_uniform_codebooks_have_equal_intervals(seed, precision):
    X, scaling = columns(np.random.default_rng(seed), 50)
    table = fit_codebook(X, scaling, precision, "uniform")
    intervals = precision.levels - 1
    assert table.shape == (precision.levels, 5)
    assert (table == (2 * np.arange(precision.levels)[:, None] - intervals) * (1 << LEVEL.fraction) // intervals).all()


def test_the_order_of_rows_and_the_dtype_do_not_matter(seed):
    X, scaling = columns(np.random.default_rng(seed), 300)
    table = fit_codebook(X, scaling, TABLES[1], "optimal")
    assert np.array_equal(fit_codebook(X[::-1], scaling, TABLES[1], "optimal"), table)
    whole = np.round(X / 10).astype(np.int64)
    scaling = fit_scaling(whole, np.zeros((300, 1)))
    table = fit_codebook(whole, scaling, TABLES[1], "optimal")
    assert np.array_equal(fit_codebook(whole.astype(np.float64), scaling, TABLES[1], "optimal"), table)


def test_many_rows_use_the_approximate_method(seed, monkeypatch):
    X, scaling = columns(np.random.default_rng(seed), 20_000)
    values = scaling.values(X)
    exact = codebook_values(fit_codebook(X, scaling, TABLES[2], "optimal"))
    monkeypatch.setattr(module, "EXACT", 10_000)
    near = codebook_values(fit_codebook(X, scaling, TABLES[2], "optimal"))
    assert not np.array_equal(near, exact)
    for j in (0, 4):
        assert cost_of(near[:, j], values[:, j]) <= 1.0001 * cost_of(exact[:, j], values[:, j])
    assert (near[0] <= values.min(axis=0)).all() and (near[-1] >= values.max(axis=0)).all()


@pytest.mark.parametrize(
    ("bits", "sampling", "levels", "table"),
    [
        (4, "double", "uniform", False),
        (3, "double", "uniform", True),
        (5, "double", "uniform", True),
        (32, "full", "uniform", False),
        (6, "nearest", "uniform", False),
        (3, "double", "optimal", True),
        (4, "double", "optimal", True),
    ],
)
def test_precisions_with_and_without_codebooks(bits, sampling, levels, table):
    assert choose_precision(bits, sampling, levels) == Precision(bits, sampling, table)


@pytest.mark.parametrize(
    ("bits", "sampling", "levels", "message"),
    [
        (4, "double", "best", "levels='best' is unknown: choose one of uniform, optimal"),
        (6, "double", "optimal", "levels='optimal' needs double sampling with 3, 4 or 5 bits; got bits=6"),
        (2, "double", "optimal", "levels='optimal' needs .* got bits=2"),
        (4, "nearest", "optimal", "levels='optimal' needs double sampling .*; got sampling='nearest'"),
        (3, "nearest", "uniform", "bits=3 cannot be stored"),
        (7, "double", "uniform", "bits=7 cannot be stored"),
    ],
)
def test_unsupported_precisions_are_refused(bits, sampling, levels, message):
    with pytest.raises(DataError, match=message):
        choose_precision(bits, sampling, levels)


def test_a_precision_without_codebooks_has_no_levels():
    X, scaling = columns(np.random.default_rng(0), 20)
    assert fit_codebook(X, scaling, Precision(4), "uniform") is None
    with pytest.raises(DataError, match="levels='optimal' needs a precision with codebooks; got"):
        fit_codebook(X, scaling, Precision(4), "optimal")
