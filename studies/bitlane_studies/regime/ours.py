"""bitlane's programs: a Gram matrix of codes and Newton's method on codes, from floats or an encoded table; SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import bitlane
from bitlane.encoded.coded_rows import CodedRows, CodeScale
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
SAMPLE = 4096  # rows that deviations of columns are taken from
GIVEN = "the encoded table"


class StandardUnits:
    """Coded rows whose scale is that of standardised columns: penalties are then in those units, and no row changes.

    Parameters
    ----------
    coded : CodedRows
    spread : float64 array [m]
        Standard deviations of the stored columns.
    """

    def __init__(self, coded: CodedRows, spread: Doubles):
        self._coded, self.spread = coded, spread
        self.shape, self.bits = coded.shape, coded.bits
        self.scale = CodeScale(coded.scale.center / spread, coded.scale.unit / spread)
        self.blocks = coded.blocks


def encoded(problem: FitProblem) -> tuple[EncodedTable, Doubles]:
    """Return the table with 8 bits, and deviations of its stored columns from a sample of the rows."""
    table = EncodedTable.of(problem.X, bits=8, threads=1)
    active = table.coded.column_codes.active
    step = max(1, len(problem.X) // SAMPLE)
    spread = problem.X[::step].std(0, dtype=np.float64)[active]
    span = (table.ranges.high - table.ranges.low)[active]
    return table, np.maximum(spread, span / np.sqrt(len(problem.X)))


def squares(problem: FitProblem, rung: Any, given: Any) -> FittedModels:
    """Solve ridge regressions from exact integer Gram matrices of the codes, one for each fold, in one read."""
    table, spread = given or encoded(problem)
    rows = StandardUnits(table.coded, spread)
    folds = np.zeros(len(problem.X), np.intp)
    for fold in range(problem.folds if problem.folds > 1 else 0):
        folds[~problem.kept(fold)] = fold
    pieces = coded_fold_moments(rows, problem.y, folds, threads=1)
    total = sum(pieces[1:], start=pieces[0])
    coef, intercept = _empty(problem)
    for fold in range(problem.folds):
        moments: Moments = total if problem.folds == 1 else total - pieces[fold]
        for place, found in enumerate(ridge_path(moments, [alpha * moments.weight for alpha in problem.alphas])):
            coef[fold, place][:, table.coded.column_codes.active] = found.coefficients.T / spread
            intercept[fold, place] = found.intercepts
    return FittedModels(coef, intercept, _bytes(problem, table, given))


def newton(problem: FitProblem, tolerance: float, given: Any) -> FittedModels:
    """Fit all models to the codes by Newton's method with Hessians of sampled rows."""
    table, spread = given or encoded(problem)
    models = list(product(range(problem.folds), problem.alphas, range(problem.y.shape[1])))
    masks = np.stack([problem.kept(fold) for fold in range(problem.folds)], 1) if problem.folds > 1 else None
    chosen = linear_models(
        problem.y,
        problem.loss,
        [alpha for _, alpha, _ in models],
        float(problem.penalty == "l1"),
        masks,
        [target for _, _, target in models],
        [fold for fold, _, _ in models] if problem.folds > 1 else None,
    )
    found = solve_centered(StandardUnits(table.coded, spread), chosen, tol=tolerance, threads=1)
    coef = _empty(problem)[0]
    flat = coef.reshape(len(models), -1)
    flat[:, table.coded.column_codes.active] = found.coefficients / spread
    return FittedModels(coef, found.intercepts, found.bytes_read + _bytes(problem, None, given))


def sgd(problem: FitProblem, epochs: int, given: Any) -> FittedModels:
    """Fit `SGDRegressor` or `SGDClassifier` with 8 bits, everything else by default."""
    settings: dict[str, Any] = {"bits": 8, "epochs": epochs, "device": "cpu", "random_state": 0}
    if problem.loss == "squared_error":
        model: Any = bitlane.SGDRegressor(**settings).fit(problem.X, problem.y[:, 0])
    else:
        model = bitlane.SGDClassifier(loss=problem.loss, **settings).fit(problem.X, problem.y[:, 0])
    return FittedModels(np.asarray(model.coef_), np.asarray(model.intercept_), model.run_.bytes_read)


def _empty(problem: FitProblem) -> tuple[Doubles, Doubles]:
    return np.zeros((*problem.shape_of_models, problem.X.shape[1])), np.zeros(problem.shape_of_models)


def _bytes(problem: FitProblem, table: EncodedTable | None, given: Any) -> int:
    """Return the bytes of two reads of the floats, unless they were encoded before, and of a read of the codes."""
    return (0 if given else 2 * problem.X.nbytes) + (table.nbytes if table else 0)


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of bitlane that fit the problem."""
    make = partial(Program, version=str(getattr(bitlane, "__version__", "")), ours=True)
    solvers: dict[str, tuple[Callable[..., FittedModels], tuple[Any, ...]]] = {}
    if problem.loss == "squared_error" and problem.penalty == "l2":
        solvers["Gram"] = squares, (0,)
    solvers["Newton"] = newton, TOLERANCES
    for name, (fit, ladder) in solvers.items():
        yield make(f"bitlane, {name}, 8 bits", fit, always(ladder))
        yield make(f"bitlane, {name}, encoded", fit, always(ladder), encoded, GIVEN)
    if problem.penalty == "l2" and len(problem.alphas) == problem.folds == problem.y.shape[1] == 1:
        yield make("bitlane, SGD, 8 bits", sgd, lambda _: EPOCHS)
