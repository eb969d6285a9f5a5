"""Linear models at their optimum, with scikit-learn's conventions: no learning rate, no epochs, a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.support.sklearn_compat import ClassifierMixin, RegressorMixin

from .linear_data import class_data, regression_data
from .optimum import LinearOptimum, documented
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
