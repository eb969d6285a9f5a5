"""bitlane's programs: `LinearRegressor` and `LinearClassifier`, from floats or an encoded table, a search, and SGD."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from bitlane import LinearClassifier, LinearRegressor, SGDClassifier, SGDRegressor, __version__
from bitlane.encoded.table import EncodedTable
from bitlane.solvers.cross_validation import solve_path
from bitlane.solvers.held_out import Folds
from bitlane.solvers.problem import Problem

from .contender import FittedModels, Program
from .problems import FitProblem
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


def searched(problem: FitProblem, tolerance: float, stored: EncodedTable | None) -> FittedModels:
    """Solve for all folds and penalties as `LinearRegressorCV` and `LinearClassifierCV` do."""
    rows: Any = stored or problem.X
    l1_ratio = float(problem.penalty == "l1")
    alpha, targets = max(problem.alphas), problem.y.astype(np.float64)
    whole = Problem(rows, targets, problem.loss, alpha, l1_ratio=l1_ratio, tol=tolerance)
    kept = np.stack([problem.kept(fold) for fold in range(problem.folds)], 1)
    path = sorted(problem.alphas, reverse=True)
    found = solve_path(whole, path, Folds(kept, ~kept))
    order = [path.index(alpha) for alpha in problem.alphas]
    coef, intercept = found.coef[order].swapaxes(0, 1), found.intercept[order].swapaxes(0, 1)
    return FittedModels(coef, intercept, found.solutions[0].bytes_read)


def sgd(problem: FitProblem, epochs: int, given: Any) -> FittedModels:
    """Fit `SGDRegressor` or `SGDClassifier` with 8 bits, everything else by default."""
    settings: dict[str, Any] = {"bits": 8, "epochs": epochs, "device": "cpu", "random_state": 0}
    if problem.loss == "squared_error":
        model: Any = SGDRegressor(**settings).fit(problem.X, problem.y[:, 0])
    else:
        model = SGDClassifier(loss=problem.loss, **settings).fit(problem.X, problem.y[:, 0])
    return FittedModels(np.asarray(model.coef_), np.asarray(model.intercept_), model.run_.bytes_read)


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of bitlane that fit the problem."""
    make = partial(Program, version=__version__, ours=True)
    ladder = always(TOLERANCES)
    if problem.folds > 1:
        yield make("bitlane, search", searched, ladder)
        yield make("bitlane, search, encoded", searched, ladder, encoded, GIVEN)
        return
    yield make("bitlane, auto", estimator, ladder)
    yield make("bitlane, auto, encoded", estimator, ladder, encoded, GIVEN)
    if problem.penalty == "l2" and problem.y.shape[1] == 1:
        yield make("bitlane, SGD, 8 bits", sgd, always(EPOCHS))
