"""scikit-learn's linear models, each on the float32 rows or on CSR rows, one model after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .contender import FittedModels, Program
from .problems import FitProblem
from .with_numpy import EPOCHS, TUNING, each_fold, iterations, some_rows

TOLERANCES = tuple(10.0**-power for power in np.arange(0.0, 7.1, 0.5))
Make = Callable[[FitProblem, float, int, Any], Any]  # problem, alpha, rows, rung: an estimator
Fit = Callable[[FitProblem, Any, Any], FittedModels]


def estimator_fit(make: Make, sparse: bool = False, warm: bool = False) -> Fit:
    """Return a program of `make`'s estimators.

    Parameters
    ----------
    make : callable
        Of the problem, the penalty, the number of rows, and the rung.
    sparse : bool
        Rows are CSR, which was made before.
    warm : bool
        Models of one fold start from the one before.
    """

    def fit(problem: FitProblem, rung: Any, given: Any) -> FittedModels:
        coef, intercept = np.empty((*problem.shape_of_models, problem.X.shape[1])), np.empty(problem.shape_of_models)
        for fold, X, y in each_fold(problem):
            rows = given["csr"][problem.kept(fold)] if sparse and problem.folds > 1 else given["csr"] if sparse else X
            last = None
            for index, alpha in sorted(enumerate(problem.alphas), key=lambda pair: -pair[1]):
                model = make(problem, alpha, len(y), rung)
                for target in range(y.shape[1]):
                    if warm and last is not None and y.shape[1] == 1:
                        model = last.set_params(**model.get_params())
                    model.fit(rows, y[:, target])
                    last = model
                    coef[fold, index, target] = np.ravel(model.coef_)
                    intercept[fold, index, target] = np.ravel(model.intercept_)[0]
        return FittedModels(coef, intercept)

    return fit


def ridge(problem: FitProblem, rung: Any, given: Any) -> FittedModels:
    """Fit `Ridge`, all targets at once."""
    from sklearn.linear_model import Ridge

    coef, intercept = np.empty((*problem.shape_of_models, problem.X.shape[1])), np.empty(problem.shape_of_models)
    for fold, X, y in each_fold(problem):
        for index, alpha in enumerate(problem.alphas):
            model = Ridge(alpha=alpha * len(y), solver=rung).fit(X, y)
            coef[fold, index], intercept[fold, index] = np.reshape(model.coef_, (y.shape[1], -1)), model.intercept_
    return FittedModels(coef, intercept)


def to_csr(problem: FitProblem) -> dict[str, Any]:
    """Return the table as CSR: a user of one-hot rows has it so."""
    from scipy.sparse import csr_matrix

    return {"csr": csr_matrix(problem.X)}


def always(ladder: Sequence[Any]) -> Callable[[FitProblem], Sequence[Any]]:
    """Return a ladder that is the same for all problems."""
    return lambda problem: ladder


def _logistic(solver: str) -> Make:
    def make(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
        from sklearn.linear_model import LogisticRegression

        ratio = 1.0 if problem.penalty == "l1" else 0.0
        return LogisticRegression(
            C=1 / (alpha * rows), solver=solver, max_iter=rung, tol=1e-12, l1_ratio=ratio, warm_start=solver == "lbfgs"
        )

    return make


def _svc(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(loss="hinge", C=1 / (alpha * rows), tol=1e-12, max_iter=rung)


def _lasso(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
    from sklearn.linear_model import Lasso

    return Lasso(alpha=alpha, tol=float(rung), max_iter=10_000, selection="cyclic")


def _sgd(problem: FitProblem, epochs: int, given: Any) -> FittedModels:
    def make(problem: FitProblem, alpha: float, rows: int, rung: Any) -> Any:
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        settings = {"alpha": alpha, "max_iter": rung, "tol": None, "random_state": 0, "penalty": problem.penalty}
        settings |= {"learning_rate": "invscaling", "power_t": 0.25, "eta0": given["rate"], "average": given["average"]}
        if problem.loss == "squared_error":
            return SGDRegressor(**settings)
        return SGDClassifier(loss=problem.loss, **settings)

    return estimator_fit(make)(problem, epochs, given)


def _tune(problem: FitProblem) -> dict[str, Any]:
    """Return the rate, and whether to average, that are best in a training of some rows."""
    few = some_rows(problem)
    grid = [{"rate": rate, "average": average} for rate in (1e-4, 1e-3, 1e-2, 1e-1) for average in (False, True)]
    losses = [few.objective(*_sgd(few, TUNING[1], each)[:2]) for each in grid]
    return grid[int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))]


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of scikit-learn that fit the problem."""
    import sklearn.linear_model
    import sklearn.svm

    def program(name: str, fit: Fit, ladder: Sequence[Any], **further: Any) -> Program:
        return Program(f"scikit-learn, {name}", fit, always(ladder), version=sklearn.__version__, **further)

    def on_csr(name: str, make: Make, ladder: Sequence[Any]) -> Program:
        fit = estimator_fit(make, sparse=True)
        return program(f"{name}, CSR", fit, ladder, prepare=to_csr, given="the table as CSR")

    sgd = program("SGD", _sgd, EPOCHS, prepare=_tune, given="the best of four rates, averaged or not")
    loss, l1, passes = problem.loss, problem.penalty == "l1", iterations(1, 2000, 1.5)
    if loss == "squared_error":
        yield (
            program("Lasso", estimator_fit(_lasso), TOLERANCES) if l1 else program("Ridge", ridge, ("cholesky", "svd"))
        )
    elif loss == "log_loss":
        if not l1:
            yield program("lbfgs", estimator_fit(_logistic("lbfgs"), warm=True), iterations(), kin="lbfgs")
            if problem.sparse:
                yield on_csr("lbfgs", _logistic("lbfgs"), iterations())
            yield program("newton-cholesky", estimator_fit(_logistic("newton-cholesky")), range(1, 30))
        yield program("liblinear", estimator_fit(_logistic("liblinear")), passes)
        if problem.sparse:
            yield on_csr("liblinear", _logistic("liblinear"), passes)
    else:
        yield program("LinearSVC", estimator_fit(_svc), passes)
        if problem.sparse:
            yield on_csr("LinearSVC", _svc, passes)
    if not l1:
        yield sgd
