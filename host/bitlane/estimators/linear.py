"""Linear models at their optimum, with scikit-learn's conventions: no learning rate, no epochs, a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import as_labels, as_table, as_targets
from bitlane.encoded.coded_rows import CODE_BITS
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.solvers.problem import PENALTIES, Problem
from bitlane.solvers.solution import Solution
from bitlane.solvers.solve import solve
from bitlane.support.labels import sorted_classes
from bitlane.support.scalars import as_boolean, as_integer, as_number, as_python
from bitlane.support.sklearn_compat import ClassifierMixin, ConvergenceWarning, RegressorMixin
from bitlane.support.user_warnings import warn_user
from bitlane.training.options import EQUAL_WEIGHTS

from .predictions import ClassAnswers, LinearModel, RegressionAnswers, positive_classes
from .validation import class_weights, row_weights

Regressor = TypeVar("Regressor", bound="LinearRegressor")
Classifier = TypeVar("Classifier", bound="LinearClassifier")

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


def warn_of_small_columns(problem: Problem) -> None:
    """Warn of columns whose values reach so little that the L2 penalty outweighs the data, whatever these say."""
    strength = problem.alpha * (1.0 - problem.l1_ratio)
    if not strength:
        return
    rows = len(problem.table)
    some = np.asarray(problem.table[:: max(1, rows // LOOKED_AT)], np.float64)
    reach = some.max(axis=0) - some.min(axis=0)
    small = np.flatnonzero((reach > 0) & (reach**2 < strength)).tolist()
    if small:
        more = ", ..." if len(small) > NAMED else ""
        warn_user(
            f"alpha={problem.alpha:g} outweighs the data in {len(small)} column(s) of X, whose values differ by less "
            f"than {strength**0.5:.2g}: {str(small[:NAMED])[1:-1]}{more}; scale them, or lower alpha"
        )


class LinearData(NamedTuple):
    """What a fit is given.

    Attributes
    ----------
    table : array, RowTable or EncodedTable [rows, n]
    targets : float64 array [rows, models]
    weights : float64 array [rows, models] or None
    """

    table: Any
    targets: Floats
    weights: Floats | None


def regression_data(X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> LinearData:
    """Check the arguments of `LinearRegressor.fit`."""
    table = as_table(X, least=2)
    targets = as_targets(y, len(table)).reshape(len(table), -1)
    weights = row_weights(sample_weight, len(table))
    return LinearData(table, targets, None if weights is None else np.repeat(weights[:, None], targets.shape[1], 1))


def class_data(
    X: Any, y: ArrayLike, sample_weight: ArrayLike | None, class_weight: str | Mapping[Any, float] | None
) -> tuple[LinearData, NDArray[Any], NDArray[Any]]:
    """Check the arguments of `LinearClassifier.fit`; return them, the labels, and the sorted classes."""
    table = as_table(X, least=2)
    labels = as_labels(y, len(table))
    classes = sorted_classes(labels)
    targets = np.where(labels[:, None] == positive_classes(classes), 1.0, -1.0)
    pairs = class_weights(class_weight, labels, classes)
    given = row_weights(sample_weight, len(table))
    weights = None
    if given is not None or any(pair != EQUAL_WEIGHTS for pair in pairs):
        rest, own = np.array(pairs).T
        weights = np.where(targets > 0, own, rest) * (1.0 if given is None else given[:, None])
    return LinearData(table, targets, weights), labels, classes


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
        warn_of_small_columns(problem)
        if not solution.converged.all():
            worst = float((solution.excess / np.maximum(solution.objective, np.finfo(float).tiny)).max())
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

    def _solve(self, X: Any, data: LinearData) -> None:
        """Fit, and set the attributes, but for the classes."""
        alpha = as_number("alpha", as_python(self.alpha)) if self.penalty else 0.0
        if alpha < 0:
            raise DataError(f"alpha={self.alpha}: it must be 0 or more")
        problem = self._problem(*data, alpha)
        self._keep(X, problem, solve(problem, self.solver))


@documented(
    '{"squared_error"}, default="squared_error"\n    ``1/2 residual**2``.',
    '{"auto", "gram", "centered"}',
    "0.0",
    '"gram": one read for the Gram matrix. "centered": several reads of rows of few bits, with gradients of all rows\n'
    "    and curvatures of some.",
)
@dataclass(eq=False, repr=False)
class LinearRegressor(RegressionAnswers, RegressorMixin, LinearOptimum):
    """Least squares, ridge, lasso and elastic net, for one target or several.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n,) or (targets, n)
    intercept_ : ndarray of float64, shape (1,) or (targets,)
    n_iter_ : int
    solution_ : Solution
        The solver that was used, objective, passes and bytes read.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitlane import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(LinearRegressor().fit(X, y).score(X, y), 3)
    0.518
    """

    _losses: ClassVar[tuple[str, ...]] = ("squared_error",)

    def fit(self: Regressor, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Regressor:
        """Find the optimum.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
            Integers or floats, finite.
        y : array-like of shape (rows,) or (rows, targets)
        sample_weight : array-like of shape (rows,), optional
            How much each row counts: the loss is a weighted mean.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used; it is a ValueError.
        """
        self._solve(X, regression_data(X, y, sample_weight))
        return self


@documented(
    '{"log_loss", "hinge", "squared_hinge", "squared_error"}, default="log_loss"\n'
    "    Logistic loss, hinge loss (SVM), its square, or squared errors on labels -1 and 1 (LS-SVM).",
    '{"auto", "centered", "gram"}',
    "1e-4",
    '"centered": several reads of rows of few bits, with gradients of all rows and curvatures of some. "gram": one\n'
    '    read for the Gram matrix; of squared errors. "auto" also has "newton": two reads or more of the rows as they\n'
    "    were given, of up to 256 columns; of log loss and squared hinge with L2.",
)
@dataclass(eq=False, repr=False)
class LinearClassifier(ClassAnswers, ClassifierMixin, LinearOptimum):
    """Logistic regression and linear support vector machines; more than two classes are one-vs-rest, in one read.

    {parameters}
    class_weight : None, "balanced" or dict, default=None
        Weights of rows by class; "balanced" is ``rows / (classes * rows of the class)``. With more than two classes
        each class has its weight against a rest of 1, as in scikit-learn's SGDClassifier.

    Attributes
    ----------
    classes_ : ndarray
        The labels found, sorted.
    coef_ : ndarray of float64, shape (1, n) for two classes, otherwise (classes, n)
    intercept_ : ndarray of float64, shape (1,) or (classes,)
    n_iter_ : int
    solution_ : Solution
        The solver that was used, objective, passes and bytes read.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bitlane import LinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(LinearClassifier().fit(X, y).score(X, y) > 0.94)
    True
    """

    loss: str = "log_loss"
    alpha: float = 1e-4
    class_weight: str | Mapping[Any, float] | None = None
    classes_: NDArray[Any] = field(init=False)

    _losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge", "squared_hinge", "squared_error")

    def fit(self: Classifier, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Classifier:
        """Find the optimum; parameters and errors as of `LinearRegressor.fit`.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
        y : array-like of shape (rows,)
            Labels of any type that sorts.
        sample_weight : array-like of shape (rows,), optional

        Returns
        -------
        self
        """
        data, _, classes = class_data(X, y, sample_weight, self.class_weight)
        self._solve(X, data)
        self.classes_ = classes
        return self
