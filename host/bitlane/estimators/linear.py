"""Linear models at their optimum, with scikit-learn's conventions: no learning rate, no epochs, a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.solvers.coded_tables import stored_bytes
from bitlane.solvers.growing import grown, solve_from_moments
from bitlane.solvers.least_squares import standard_errors
from bitlane.solvers.moments import Moments
from bitlane.solvers.solve import chosen_solver
from bitlane.support.sklearn_compat import ClassifierMixin, RegressorMixin
from bitlane.support.user_warnings import warn_user

from .linear_data import class_data, regression_data
from .optimum import LinearOptimum, documented, warn_of_small_columns
from .predictions import ClassAnswers, RegressionAnswers

Regressor = TypeVar("Regressor", bound="LinearRegressor")
Classifier = TypeVar("Classifier", bound="LinearClassifier")


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
    warm_start : bool, default=False
        Whether a search starts at the coefficients of the last fit, which it then must find the columns and targets
        of. The answer is as near to the optimum as that of any fit; "gram" makes no use of a start.

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
    _moments: Moments = field(init=False)  # of all rows of partial_fit

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
        self.__dict__.pop("_moments", None)
        return self

    def partial_fit(self: Regressor, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Regressor:
        """Add rows, and find the optimum of all rows that calls of `partial_fit` have added.

        Sums of squares and products of the columns are kept, in float64, and no rows. So pieces of any size and in any
        order give the model of all rows. Each call solves the equations anew, which takes the time of some n rows: add
        many rows at a time. The penalty is that of the last call. After `fit`, which keeps no sums, it starts anew and
        warns.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
            One row or more.
        y : array-like of shape (rows,) or (rows, targets)
        sample_weight : array-like of shape (rows,), optional

        Returns
        -------
        self

        Raises
        ------
        DataError
            As `fit`; other columns or targets than before; or ``solver="centered"``, which reads all rows often.
        """
        data = regression_data(X, y, sample_weight, least=1)
        before = getattr(self, "_moments", None)
        if before is None and self.__sklearn_is_fitted__():
            warn_user("fit keeps no sums of its rows: partial_fit starts anew, with its own rows alone")
        if before is not None:
            self._check_columns(X, data.table)
            if (targets := data.targets.shape[1]) != len(self.intercept_):
                raise DataError(f"y has {targets} targets, and earlier calls had {len(self.intercept_)}")
        problem = self._problem(*data, self._alpha())
        if chosen_solver(problem, self.solver) != "gram":
            raise DataError(f"solver={self.solver!r} reads all rows several times: partial_fit needs 'auto' or 'gram'")
        moments = grown(before, data.table, data.targets, None if data.weights is None else data.weights[:, 0])
        earlier = 0 if before is None else self.solution_.bytes_read
        solution = solve_from_moments(problem, moments, earlier + stored_bytes(data.table))
        self._keep(X, problem, solution)
        self._moments = moments
        spread = np.sqrt(np.maximum(moments.gram.diagonal(), 0.0) / moments.weight)
        warn_of_small_columns(problem, np.where(solution.coef.any(axis=0), 12**0.5 * spread, 0.0))
        return self

    def standard_errors(self) -> tuple[Floats, Floats]:
        """Return the standard errors of `coef_` and `intercept_` after `partial_fit`, which keeps the sums they need.

        They are those of ordinary least squares with independent normal errors of equal variance:
        ``coef_ / errors`` follows Student's t with as many degrees of freedom as there are rows beyond coefficients. A
        row with weight 2 counts as two equal rows. Columns that do not vary have 0.

        Returns
        -------
        coef, intercept : ndarray of float64, in the shapes of `coef_` and `intercept_`

        Raises
        ------
        DataError
            After `fit`; with a penalty; columns depend on each other; or there are no more rows than coefficients.
        """
        if not hasattr(self, "_moments"):
            raise DataError("standard errors need sums that fit does not keep: use partial_fit instead")
        if alpha := self._alpha():
            raise DataError(f"standard errors need a fit without penalty: set alpha=0 instead of {alpha:g}")
        coef, intercept = standard_errors(self._moments, self.fit_intercept)
        return self._shaped(coef.T), intercept


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
    warm_start : bool, default=False
        Whether a search starts at the coefficients of the last fit, which it then must find the columns and classes
        of. The answer is as near to the optimum as that of any fit; "gram" makes no use of a start.
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
        if self._starts_warm() and not np.array_equal(classes, self.classes_):
            raise DataError(
                f"warm_start=True: y has the classes {classes.tolist()}, and the last fit had "
                f"{self.classes_.tolist()}: set it to False"
            )
        self._solve(X, data)
        self.classes_ = classes
        return self
