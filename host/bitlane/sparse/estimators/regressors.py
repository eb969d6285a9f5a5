"""Regressors over sparse features: LR and FM, with squared errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.support.sklearn_compat import RegressorMixin
from bitlane.support.user_warnings import warn_user

from .base import Classes, SparseEstimator
from .parameters import documented
from .validation import as_numbers, one_a_row

if TYPE_CHECKING:
    from bitlane.sparse.models.model import SparseModel

Self = TypeVar("Self", bound="SparseRegressor")


@dataclass(eq=False, repr=False)
class SparseRegressor(RegressorMixin, SparseEstimator):
    """What the regressors share: one target, squared errors."""

    _loss: ClassVar[str] = "squared_error"

    def fit(self: Self, X: object, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X and y, anew.

        Parameters
        ----------
        X : sparse matrix or array-like of shape (rows, columns), table, or Batch
            See the estimator's notes.
        y : array-like of shape (rows,)
            Numbers, best of mean 0 and variance 1; optional if X is a `Batch`, whose labels they are then.
        sample_weight : array-like of shape (rows,) or float, optional
            How many rows each row counts as, 0 or more; a row of weight 0 is left out. Default: each counts as one. A
            `Batch` may have weights of its own.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used, or the training diverges; it is a ValueError.
        BitlaneError
            A library is not installed.
        """
        self._fit(X, y, sample_weight)
        return self

    def partial_fit(self: Self, X: object, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the rows of X once, in their order, on top of what was learned before.

        The labels of the first call set the intercept. Apart from that, learning rows in two calls is the same, to the
        bit, as learning them in one, if the first has a multiple of `batch_rows` rows.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        self

        Raises
        ------
        DataError, BitlaneError
            As for `fit`.
        """
        self._partial_fit(X, y, sample_weight)
        return self

    def predict(self, X: object) -> NDArray[np.float64]:
        """Return the prediction for each row of X: float64 [rows]."""
        return self._scores(X)

    def _labels(self, y: ArrayLike | None, rows: int, classes: Classes) -> tuple[NDArray[np.float32], Classes]:
        return as_numbers(one_a_row(y, rows), "y"), None

    def _warn_of_labels(self, batch: Batch, model: SparseModel) -> None:
        """Warn of labels out of reach: t steps of FTRL or AdaGrad move a weight by about ``2 rate sqrt(t)``."""
        optimizer = model.spec.linear
        rate = getattr(optimizer, "alpha", getattr(optimizer, "learning_rate", 0.0))
        labels = batch.labels.astype(np.float64)
        begin = np.average(labels, weights=batch.weights) if self.fit_intercept else 0.0
        size = np.sqrt(np.average((labels - begin) ** 2, weights=batch.weights))
        reach = 2 * rate * np.sqrt(self.epochs * len(labels))
        if optimizer is not None and optimizer.name != "sgd" and size > reach:
            warn_user(
                f"y differs by about {size:.3g} from {begin:.3g}, where the training begins, but the steps of "
                f"{optimizer.name} add up to about {reach:.3g}: scale y to mean 0 and variance 1, for example with "
                "TransformedTargetRegressor"
            )


@documented
@dataclass(eq=False, repr=False)
class LRRegressor(SparseRegressor):
    """Linear regression over sparse features, online.

    {parameters}

    {attributes}

    {notes}
    """

    _kind: ClassVar[str] = "lr"


@documented
@dataclass(eq=False, repr=False)
class FMRegressor(SparseRegressor):
    """Factorization machine over sparse features for numbers, online (Rendle, 2010).

    {parameters}

    {attributes}

    {notes}

    Examples
    --------
    >>> import numpy as np
    >>> from bitlane.sparse import FMRegressor
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 4))
    >>> y = X[:, 0] * X[:, 1]
    >>> bool(FMRegressor(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    dim: int = 8
    initial_scale: float | None = None

    _kind: ClassVar[str] = "fm"
    _optimizers: ClassVar[tuple[str, ...]] = ("linear", "factors")
    _shape: ClassVar[tuple[str, ...]] = ("dim", "initial_scale")
