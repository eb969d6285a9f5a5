"""Snap ML, celer and skglm, as far as they are installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from .contender import Program
from .problems import FitProblem
from .with_numpy import iterations
from .with_scikit import TOLERANCES, Fit, Make, always, estimator_fit


def _snap(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
    """Return Snap ML's estimator: dual coordinate descent, a rung is its passes."""
    snapml = import_module("snapml")
    settings = {"regularizer": alpha * rows, "max_iter": rung, "tol": 1e-9, "n_jobs": 1, "fit_intercept": True}
    if problem.loss == "squared_error":
        return snapml.LinearRegression(**settings)
    if problem.loss == "log_loss":
        return snapml.LogisticRegression(penalty=problem.penalty, dual=problem.penalty == "l2", **settings)
    return snapml.SupportVectorMachine(loss="hinge", **settings)


def _celer(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
    return import_module("celer").Lasso(alpha=alpha, tol=float(rung), fit_intercept=True)


def _skglm(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
    skglm = import_module("skglm")
    if problem.loss == "squared_error":
        return skglm.Lasso(alpha=alpha, tol=float(rung))
    return skglm.SparseLogisticRegression(alpha=alpha, tol=float(rung))


def _compiled(fit: Fit, problem: FitProblem) -> dict[str, Any]:
    """Fit a few rows, for which the program compiles its loops."""
    fit(replace(problem, X=problem.X[:200], y=problem.y[:200]), TOLERANCES[0], {})
    return {}


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the installed programs that fit the problem."""
    l1, squares = problem.penalty == "l1", problem.loss == "squared_error"
    candidates: list[tuple[str, str, Make, Sequence[Any]]] = []
    if not (l1 and squares):
        candidates.append(("snapml", "Snap ML", _snap, iterations(1, 2000, 1.5)))
    if l1:
        candidates.append(("skglm", "skglm", _skglm, TOLERANCES))
    if l1 and squares:  # the logistic regression of celer has no intercept
        candidates.append(("celer", "celer", _celer, TOLERANCES))
    for module, name, make, ladder in candidates:
        if find_spec(module):
            import_module(module)
            fit = estimator_fit(make)
            if name == "Snap ML":
                yield Program(name, fit, always(ladder), version=version(module))
            else:
                given = "compiled code, but for the first call of a new process"
                yield Program(name, fit, always(ladder), partial(_compiled, fit), given, version(module))
