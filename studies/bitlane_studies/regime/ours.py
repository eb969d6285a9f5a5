"""bitlane's programs: `LinearRegressor` and `LinearClassifier`, from floats or an encoded table, a search, and SGD."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from bitlane import LinearClassifier, LinearRegressor, SGDClassifier, SGDRegressor, __version__
from bitlane.encoded.table import EncodedTable
from bitlane.solvers.centered import solve_centered
from bitlane.solvers.least_squares import ridge_path
from bitlane.solvers.linear_models import linear_models
from bitlane.solvers.moments import Moments, coded_fold_moments

from .contender import FittedModels, Program
from .problems import Doubles, FitProblem
from .with_numpy import EPOCHS
from .with_scikit import always

TOLERANCES = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
GIVEN = "the encoded table"


def encoded(problem: FitProblem) -> EncodedTable:
    """Return the table with 8 bits."""
    return EncodedTable.of(problem.X, bits=8, threads=1)


def estimator(problem: FitProblem, tolerance: float, stored: EncodedTable | None) -> FittedModels:
    """Fit `LinearRegressor` or `LinearClassifier` with the solver that it chooses."""
    rows = stored or problem.X
    settings: dict[str, Any] = {"penalty": problem.penalty, "alpha": problem.alphas[0], "tol": tolerance}
    if problem.loss == "squared_error":
        model: Any = LinearRegressor(**settings).fit(rows, problem.y)
    else:
        labels = problem.y[:, 0] if problem.y.shape[1] == 1 else problem.y.argmax(1)
        model = LinearClassifier(loss=problem.loss, **settings).fit(rows, labels)
    return FittedModels(model.coef_, model.intercept_, model.solution_.bytes_read)


def searched_squares(problem: FitProblem, rung: Any, stored: EncodedTable | None) -> FittedModels:
    """Solve ridge regressions from exact integer Gram matrices of codes, one for each fold, in one read."""
    table = stored or encoded(problem)
    folds = np.zeros(len(problem.X), np.intp)
    for fold in range(problem.folds):
        folds[~problem.kept(fold)] = fold
    pieces = coded_fold_moments(table.coded, problem.y, folds, threads=1)
    total = sum(pieces[1:], start=pieces[0])
    coef, intercept = _empty(problem)
    for fold in range(problem.folds):
        moments: Moments = total - pieces[fold]
        for place, found in enumerate(ridge_path(moments, [alpha * moments.weight for alpha in problem.alphas])):
            coef[fold, place][:, table.column_codes.active] = found.coefficients.T
            intercept[fold, place] = found.intercepts
    return FittedModels(coef, intercept, _bytes(problem, stored) + table.stored_bytes)


def searched(problem: FitProblem, tolerance: float, stored: EncodedTable | None) -> FittedModels:
    """Fit all folds and penalties side by side, by passes over the codes."""
    table = stored or encoded(problem)
    models = list(product(range(problem.folds), problem.alphas, range(problem.y.shape[1])))
    chosen = linear_models(
        problem.y,
        problem.loss,
        [alpha for _, alpha, _ in models],
        float(problem.penalty == "l1"),
        np.stack([problem.kept(fold) for fold in range(problem.folds)], 1),
        [target for _, _, target in models],
        [fold for fold, _, _ in models],
    )
    found = solve_centered(table.coded, chosen, tol=tolerance, threads=1)
    coef = _empty(problem)[0]
    coef.reshape(len(models), -1)[:, table.column_codes.active] = found.coefficients
    return FittedModels(coef, found.intercepts, found.bytes_read + _bytes(problem, stored))


def sgd(problem: FitProblem, epochs: int, given: Any) -> FittedModels:
    """Fit `SGDRegressor` or `SGDClassifier` with 8 bits, everything else by default."""
    settings: dict[str, Any] = {"bits": 8, "epochs": epochs, "device": "cpu", "random_state": 0}
    if problem.loss == "squared_error":
        model: Any = SGDRegressor(**settings).fit(problem.X, problem.y[:, 0])
    else:
        model = SGDClassifier(loss=problem.loss, **settings).fit(problem.X, problem.y[:, 0])
    return FittedModels(np.asarray(model.coef_), np.asarray(model.intercept_), model.run_.bytes_read)


def _empty(problem: FitProblem) -> tuple[Doubles, Doubles]:
    return np.zeros((*problem.shape_of_models, problem.X.shape[1])), np.zeros(problem.shape_of_models)


def _bytes(problem: FitProblem, stored: EncodedTable | None) -> int:
    """Return the bytes of two reads of the floats, unless they were encoded before."""
    return 0 if stored else 2 * problem.X.nbytes


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of bitlane that fit the problem."""
    make = partial(Program, version=__version__, ours=True)
    ladder = always((TOLERANCES[-1],) if problem.loss == "squared_error" and problem.penalty == "l2" else TOLERANCES)
    if problem.folds > 1:
        fit = searched_squares if len(ladder(problem)) == 1 else searched
        yield make("bitlane, search", fit, ladder)
        yield make("bitlane, search, encoded", fit, ladder, encoded, GIVEN)
        return
    yield make("bitlane, auto", estimator, ladder)
    yield make("bitlane, auto, encoded", estimator, ladder, encoded, GIVEN)
    if problem.penalty == "l2" and problem.y.shape[1] == 1:
        yield make("bitlane, SGD, 8 bits", sgd, always(EPOCHS))
