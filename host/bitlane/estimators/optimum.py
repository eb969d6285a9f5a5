"""What estimators that look for an optimum share: parameters, checks, warnings, and the start at the last fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bitlane.encoded.coded_rows import CODE_BITS
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.solvers.problem import PENALTIES, Problem
from bitlane.solvers.solution import Solution
from bitlane.solvers.solve import solve
from bitlane.support.scalars import as_boolean, as_integer, as_number, as_python
from bitlane.support.sklearn_compat import ConvergenceWarning
from bitlane.support.user_warnings import warn_user

from .linear_data import LinearData
from .predictions import LinearModel
from .validation import as_coefficients

LOOKED_AT = 2_048  # rows
NAMED = 10  # columns that a warning names

STRENGTH = """alpha : float, default={alpha}
    Strength of the penalty: the objective is ``mean(loss) + alpha * R(coef_)``. R is ``1/2 |w|**2``, or ``|w|_1``, or
    ``l1_ratio * |w|_1 + (1 - l1_ratio) / 2 * |w|**2``, in user units, as in scikit-learn: the models are those of
    ``Ridge(alpha * rows)`` and ``LogisticRegression(C=1 / (alpha * rows))``. The intercept is not penalised. A warning
    names columns whose values are so small that the penalty outweighs the data."""

PARAMETERS = """Parameters
----------
loss : {losses}
penalty : {None, "l2", "l1", "elasticnet"}, default="l2"
{strength}
l1_ratio : float, default=0.15
    Share of the L1 part of elastic net, 0 to 1; unused with other penalties.
bits : int, default=8
    Bits of a value in the rows that a solver stores and reads many times: even, 2 to 8. An `EncodedTable` has its own.
solver : {solvers}, default="auto"
    {told}
    "auto" takes the quickest; `solution_.solver` names it.
tol : float, default=1e-4
    The objective may still fall by about this part of itself.
max_iter : int, default=1000
    Iterations, after which a ConvergenceWarning says how far the optimum may be.
fit_intercept : bool, default=True"""


def documented(losses: str, solvers: str, alpha: str, told: str, strength: str = STRENGTH) -> Any:
    """Return a decorator that puts the shared parameters into the docstring of an estimator."""

    def put(kind: type) -> type:
        text = PARAMETERS.replace("{strength}", strength)
        for name, word in {"losses": losses, "solvers": solvers, "alpha": alpha, "told": told}.items():
            text = text.replace(f"{{{name}}}", word)
        assert kind.__doc__ is not None
        kind.__doc__ = kind.__doc__.replace("{parameters}", text.replace("\n", "\n    "))
        return kind

    return put


def reach_of(table: Any) -> Floats:
    """Return about the differences between the largest and the least value of the columns of a table, [n]."""
    some = np.asarray(table[:: max(1, len(table) // LOOKED_AT)], np.float64)
    return np.asarray(some.max(axis=0) - some.min(axis=0))


def warn_of_small_columns(problem: Problem, reach: Floats) -> None:
    """Warn of columns whose values reach so little that the L2 penalty outweighs the data, whatever these say."""
    strength = problem.ridge
    if not strength:
        return
    small = np.flatnonzero((reach > 0) & (reach**2 < strength)).tolist()
    if small:
        more = ", ..." if len(small) > NAMED else ""
        warn_user(
            f"alpha={problem.alpha:g} outweighs the data in {len(small)} column(s) of X, whose values differ by less "
            f"than {strength**0.5:.2g}: {str(small[:NAMED])[1:-1]}{more}; scale them, or lower alpha"
        )


class FoundOptimum(LinearModel):
    """What estimators that look for an optimum share but for their parameters."""

    loss: str
    penalty: str | None
    l1_ratio: float
    bits: int
    solver: str
    tol: float
    max_iter: int
    fit_intercept: bool

    _losses: ClassVar[tuple[str, ...]] = ()

    # Set by fit.
    coef_: Any  # float64, or a CSR matrix of scipy after sparsify
    intercept_: Floats
    n_iter_: int
    solution_: Solution

    def _problem(self, table: Any, targets: Floats, weights: Floats | None, alpha: float) -> Problem:
        """Return what is to be solved: targets [rows, models], weights of rows [rows, models] or None."""
        if self.loss not in self._losses:
            raise DataError(f"loss={self.loss!r}: choose one of {', '.join(map(repr, self._losses))}")
        if self.penalty not in PENALTIES:
            raise DataError(f"penalty={self.penalty!r}: choose one of {', '.join(map(repr, PENALTIES))}")
        ratio = as_number("l1_ratio", as_python(self.l1_ratio)) if self.penalty == "elasticnet" else 0.0
        if not 0 <= ratio <= 1:
            raise DataError(f"l1_ratio={self.l1_ratio}: choose a number from 0 to 1")
        tol = as_number("tol", as_python(self.tol))
        if tol <= 0:
            raise DataError(f"tol={self.tol}: it must be above 0")
        if (bits := as_integer("bits", as_python(self.bits), 2, CODE_BITS)) % 2:
            raise DataError(f"bits={bits}: choose an even number from 2 to {CODE_BITS}")
        return Problem(
            table,
            targets,
            self.loss,
            alpha if self.penalty else 0.0,
            1.0 if self.penalty == "l1" else ratio,
            weights,
            as_boolean("fit_intercept", self.fit_intercept),
            bits,
            tol,
            as_integer("max_iter", as_python(self.max_iter), 1),
        )

    def _keep(self, X: Any, problem: Problem, solution: Solution) -> None:
        """Set the attributes of a solution, but for the classes."""
        self.solution_, self.n_iter_ = solution, solution.n_iter
        self.coef_, self.intercept_ = self._shaped(solution.coef), solution.intercept
        self._remember_columns(X, problem.table.shape[1])
        if not solution.converged.all():
            share = solution.excess / np.maximum(solution.objective, np.finfo(float).tiny)
            worst = float(np.minimum(share, 1.0).max())  # no loss or penalty is below 0
            warn_user(
                f"the solver ended after {solution.n_iter} iterations; the objective may still fall by {worst:.2g} of "
                "itself: raise max_iter, scale the columns, or set a penalty",
                ConvergenceWarning,
            )


@dataclass(eq=False, repr=False)
class LinearOptimum(FoundOptimum):
    """Parameters and fit of both estimators."""

    loss: str = "squared_error"
    penalty: str | None = "l2"
    alpha: float = 0.0
    l1_ratio: float = 0.15
    bits: int = 8
    solver: str = "auto"
    tol: float = 1e-4
    max_iter: int = 1000
    fit_intercept: bool = True
    warm_start: bool = False

    def _solve(self, X: Any, data: LinearData) -> None:
        """Fit, and set the attributes, but for the classes."""
        near = self._last_fit(X, data) if self._starts_warm() else None
        problem = replace(self._problem(*data, self._alpha()), near=near)
        self._keep(X, problem, solve(problem, self.solver))
        warn_of_small_columns(problem, reach_of(problem.table))

    def _alpha(self) -> float:
        """Return the penalty, 0 without one."""
        alpha = as_number("alpha", as_python(self.alpha)) if self.penalty else 0.0
        if alpha < 0:
            raise DataError(f"alpha={self.alpha}: it must be 0 or more")
        return alpha

    def _starts_warm(self) -> bool:
        """Return whether a fit starts at the last one."""
        return as_boolean("warm_start", self.warm_start) and self.__sklearn_is_fitted__()

    def _last_fit(self, X: Any, data: LinearData) -> tuple[Floats, Floats]:
        """Return coefficients [models, n] and intercepts [models] of the last fit, if they are of such data."""
        self._check_columns(X, data.table)
        models, before = data.targets.shape[1], len(self.intercept_)
        if models != before:
            raise DataError(f"warm_start=True: y has {models} targets, and the last fit had {before}: set it to False")
        coef = as_coefficients("coef_", self._dense(), (models, data.table.shape[1]))
        intercept = as_coefficients("intercept_", self.intercept_, (models,))
        assert coef is not None and intercept is not None
        return coef, intercept
