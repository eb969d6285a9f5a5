"""Linear models whose penalty is chosen by cross-validation: all folds and penalties from the same reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats
from bitlane.solvers.cross_validation import penalty_path, solve_path
from bitlane.support.rng import as_seed
from bitlane.support.scalars import as_integer, as_number, as_python, is_integer
from bitlane.support.sklearn_compat import ClassifierMixin, ConvergenceWarning, RegressorMixin
from bitlane.support.user_warnings import warn_user

from .folds import as_folds, check_folds
from .linear_data import LinearData, class_data, regression_data
from .optimum import FoundOptimum, documented, reach_of, warn_of_small_columns
from .predictions import ClassAnswers, RegressionAnswers

Regressor = TypeVar("Regressor", bound="LinearRegressorCV")
Classifier = TypeVar("Classifier", bound="LinearClassifierCV")

STRENGTHS = """alphas : int or sequence of float, default={alpha}
    Penalties to choose from, above 0, as `alpha` of `LinearRegressor`: the objective is
    ``mean(loss) + alpha * R(coef_)``, so that the same alpha fits folds and all rows. An int is a number of penalties,
    each the same factor below the one before: with L1 from the least that makes all coefficients 0 to a thousandth of
    it, without L1 from 1e2 to 1e-6 times the mean variance of a column.
cv : int, splitter of scikit-learn, or iterable of (train, test), default=5
    Folds of shuffled rows, of which each is held out once; for classes each fold has its share of each class. Or
    numbers of the rows to fit and to hold out, for each fold.
random_state : int, numpy.random.RandomState or Generator, optional
    Shuffles the rows if `cv` is an int. By default each fit shuffles otherwise."""


@dataclass(eq=False, repr=False)
class ChosenOptimum(FoundOptimum):
    """Parameters and fit of both estimators."""

    loss: str = "squared_error"
    penalty: str | None = "l2"
    alphas: int | Sequence[float] | NDArray[np.float64] = 10
    cv: Any = 5
    l1_ratio: float = 0.15
    bits: int = 8
    solver: str = "auto"
    tol: float = 1e-4
    max_iter: int = 1000
    fit_intercept: bool = True
    random_state: int | np.random.RandomState | np.random.Generator | None = None

    # Set by fit.
    alpha_: float = field(init=False)
    alphas_: Floats = field(init=False)
    cv_losses_: Floats = field(init=False)

    def _choose(self, X: Any, data: LinearData, y: NDArray[Any], classes: NDArray[Any] | None) -> None:
        """Choose the penalty, and set the attributes, but for the classes. Classes stratify the rows."""
        if self.penalty is None:
            raise DataError("penalty=None: there is no penalty to choose; use 'l2', 'l1' or 'elasticnet'")
        problem = self._problem(*data, 1.0)
        given = self._given_alphas()
        folds = as_folds(self.cv, y, classes, as_seed(self.random_state))
        check_folds(folds, data.targets, data.weights, classes)
        alphas = penalty_path(problem, given) if isinstance(given, int) else given
        found = solve_path(problem, alphas.tolist(), folds, self.solver)
        best = int(found.losses.mean(axis=1).argmin())
        self.alphas_, self.cv_losses_, self.alpha_ = alphas, found.losses, float(alphas[best])
        problem = replace(problem, alpha=self.alpha_)
        self._keep(X, problem, found.solutions[best])
        warn_of_small_columns(problem, reach_of(problem.table))
        if found.unfinished:
            warn_user(
                f"{found.unfinished} models of folds did not converge in {self.n_iter_} iterations, and their losses "
                "may be wrong: raise max_iter, scale the columns, or leave out the least penalties",
                ConvergenceWarning,
            )

    def _given_alphas(self) -> int | Floats:
        """Return the number of penalties, or the penalties, falling."""
        if is_integer(self.alphas):
            return as_integer("alphas", as_python(self.alphas), 1)
        if np.ndim(self.alphas) != 1 or not np.size(self.alphas):
            raise DataError(f"alphas={self.alphas!r}: give a number of penalties, or a sequence of penalties above 0")
        numbers = [as_number("alphas", as_python(alpha)) for alpha in self.alphas]  # type: ignore[union-attr]
        if min(numbers) <= 0:
            raise DataError(f"alphas has {min(numbers):g}: each penalty must be above 0")
        return np.array(sorted(numbers, reverse=True))


@documented(
    '{"squared_error"}, default="squared_error"\n    ``1/2 residual**2``.',
    '{"auto", "gram", "centered"}',
    "10",
    '"gram": one read for Gram matrices of the folds. "centered": all folds and penalties in the same reads of rows\n'
    "    of few bits; for many columns.",
    STRENGTHS,
)
@dataclass(eq=False, repr=False)
class LinearRegressorCV(RegressionAnswers, RegressorMixin, ChosenOptimum):
    """Ridge, lasso and elastic net whose penalty is chosen by cross-validation.

    Squared errors with L2 take one read for all folds and penalties, as the Gram matrices of the folds add up.

    {parameters}

    Attributes
    ----------
    alpha_ : float
        The penalty with the least mean of the losses of the folds; the largest of those.
    alphas_ : ndarray of float64, shape (alphas,)
        Falling.
    cv_losses_ : ndarray of float64, shape (alphas, folds)
        Mean losses of the rows that a fold holds out, by the weights of rows and classes, without the penalty.
    coef_ : ndarray of float64, shape (n,) or (targets, n)
        Of the model of all rows, as the following.
    intercept_ : ndarray of float64, shape (1,) or (targets,)
    n_iter_ : int
    solution_ : Solution
        The solver that was used, objective, and passes and bytes read for all models.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitlane import LinearRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegressorCV(random_state=0).fit(X, y)
    >>> model.cv_losses_.shape
    (10, 5)
    """

    _losses: ClassVar[tuple[str, ...]] = ("squared_error",)

    def fit(self: Regressor, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Regressor:
        """Choose the penalty, and find its optimum on all rows; parameters and errors as of `LinearRegressor.fit`.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
        y : array-like of shape (rows,) or (rows, targets)
            Several targets share a penalty.
        sample_weight : array-like of shape (rows,), optional
            Weighs losses of fitted and of held-out rows.

        Returns
        -------
        self
        """
        data = regression_data(X, y, sample_weight)
        self._choose(X, data, data.targets, None)
        return self


@documented(
    '{"log_loss", "hinge", "squared_hinge", "squared_error"}, default="log_loss"\n'
    "    Logistic loss, hinge loss (SVM), its square, or squared errors on labels -1 and 1 (LS-SVM).",
    '{"auto", "centered", "gram"}',
    "10",
    '"centered": all folds, penalties and classes in the same reads of rows of few bits. They take 4 to 8 bytes a row\n'
    '    and model; more than a quarter of the memory is avoided by fewer penalties at a time. "gram": one read for\n'
    '    Gram matrices of the folds; of squared errors. "auto" also has "newton", as of `LinearClassifier`.',
    STRENGTHS,
)
@dataclass(eq=False, repr=False)
class LinearClassifierCV(ClassAnswers, ClassifierMixin, ChosenOptimum):
    """Logistic regression and linear support vector machines whose penalty is chosen by cross-validation.

    More than two classes are one-vs-rest, share the penalty, and count equally in the loss that it is chosen by.

    {parameters}
    class_weight : None, "balanced" or dict, default=None
        As of `LinearClassifier`, from the labels of all rows.

    Attributes
    ----------
    classes_ : ndarray
        The labels found, sorted.
    alpha_ : float
        The penalty with the least mean of the losses of the folds; the largest of those.
    alphas_ : ndarray of float64, shape (alphas,)
        Falling.
    cv_losses_ : ndarray of float64, shape (alphas, folds)
        Mean losses of the rows that a fold holds out, by the weights of rows and classes, without the penalty.
    coef_ : ndarray of float64, shape (1, n) for two classes, otherwise (classes, n)
        Of the model of all rows, as the following.
    intercept_ : ndarray of float64, shape (1,) or (classes,)
    n_iter_ : int
    solution_ : Solution
        The solver that was used, objective, and passes and bytes read for all models.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bitlane import LinearClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(LinearClassifierCV(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    loss: str = "log_loss"
    class_weight: str | Mapping[Any, float] | None = None
    classes_: NDArray[Any] = field(init=False)

    _losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge", "squared_hinge", "squared_error")

    def fit(self: Classifier, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Classifier:
        """Choose the penalty, and find its optimum on all rows; parameters and errors as of `LinearRegressor.fit`.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
        y : array-like of shape (rows,)
            Labels of any type that sorts.
        sample_weight : array-like of shape (rows,), optional
            Weighs losses of fitted and of held-out rows.

        Returns
        -------
        self
        """
        data, labels, classes = class_data(X, y, sample_weight, self.class_weight)
        self._choose(X, data, labels, classes)
        self.classes_ = classes
        return self
