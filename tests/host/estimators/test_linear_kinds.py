"""Fits of ordinary tables of many kinds, as floats or encoded, reach the optimum, or warn."""

import warnings

import numpy as np
import pytest
from tests.helpers.linear_tables import KINDS, excess, labels_of, table

from bitlane import EncodedTable, LinearClassifier, LinearRegressor
from bitlane.support.sklearn_compat import ConvergenceWarning


def encoded(X, bits):
    """The table with so many bits a value; columns with outliers are clipped, which it would tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EncodedTable.of(X, bits=bits)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_reached_or_its_distance_is_told(seed, kind):
    random = np.random.default_rng(seed)
    rows, loss = int(random.integers(30, 3000)), str(random.choice(["log_loss", "squared_hinge", "squared_error"]))
    X, score = table(random, kind, rows, int(random.integers(1, 20)))
    labels = labels_of(random, kind, loss, score)
    weights = [np.ones(rows), random.uniform(0.1, 2, rows)][random.integers(2)]
    alpha, tol = float(random.choice([1e-5, 1e-3, 1e-1])), float(random.choice([1e-3, 1e-4]))
    kind_of_model = LinearRegressor if loss == "squared_error" else LinearClassifier
    solver = str(random.choice(["auto", "centered"]))
    given = X if random.integers(2) else encoded(X, int(random.choice([2, 6, 8, 10, 16])))
    X = np.asarray(given)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = kind_of_model(loss=loss, alpha=alpha, tol=tol, solver=solver).fit(given, labels, weights)
    over, over_nothing = excess(model, X, labels, weights, alpha)
    assert over <= 5 * tol or any(issubclass(each.category, ConvergenceWarning) for each in told), (
        over,
        loss,
        solver,
        type(given),
    )
    assert over_nothing <= 1 + 1e-6
