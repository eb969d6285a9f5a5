"""What linear models answer: scores of rows, and from them predictions, probabilities and their quality."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import as_labels, as_table, as_targets
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.available import available_unless
from bitlane.support.column_names import check_names, column_names
from bitlane.support.optional import require_extra
from bitlane.support.pickling import VersionedPickle
from bitlane.support.sklearn_compat import BaseEstimator, not_fitted

from .probabilities import PROBABILITIES, no_probabilities
from .validation import row_weights

Same = TypeVar("Same", bound="LinearModel")


class LinearModel(VersionedPickle, BaseEstimator):
    """Coefficients and an intercept for each target, and the scores that they give."""

    coef_: Any  # float64, or a CSR matrix of scipy after sparsify
    intercept_: Floats
    n_features_in_: int

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _remember_columns(self, X: Any, columns: int) -> None:
        """Set the number of columns of a table, and their names if it has any."""
        self.n_features_in_ = columns
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_columns(self, X: Any, table: Matrix) -> None:
        """Raise DataError unless X has the columns that the model was fitted to."""
        check_names(X, getattr(self, "feature_names_in_", None))
        if table.shape[1] != self.n_features_in_:
            name, fitted = type(self).__name__, self.n_features_in_
            raise DataError(f"X has {table.shape[1]} features, but {name} is expecting {fitted} features as input")

    def _linear(self, X: ArrayLike) -> Floats:
        """``X @ coef_.T + intercept_`` after checks of X [rows, n_features_in_]."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        table = as_table(X)
        self._check_columns(X, table)
        return np.asarray(table @ self._dense().T + self.intercept_, dtype=np.float64)

    def sparsify(self: Same) -> Same:
        """Make `coef_` a CSR matrix of scipy, [1, n] for one target; return the estimator. `densify` undoes it.

        It saves memory where most coefficients are 0, as with an L1 penalty. Predictions keep their bits.
        """
        sparse = require_extra("scipy.sparse", "sparsify", "'bitlane[sparse]'")
        self.coef_ = sparse.csr_matrix(self._dense())
        return self

    def densify(self: Same) -> Same:
        """Make `coef_` the array that it is after fit; return the estimator."""
        self.coef_ = self._dense()
        return self

    def _dense(self) -> Floats:
        """Return the coefficients as the array that they are after fit."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        coef: Any = self.coef_
        return self._shaped(coef.toarray()) if hasattr(coef, "toarray") else coef

    def _shaped(self, coef: Floats) -> Floats:
        """Return coefficients [targets, n] in the shape of `coef_`."""
        raise NotImplementedError

    def _score_of(self, prediction: Floats, targets: Floats, weights: Floats | None) -> float:
        """Return the score of linear predictions [rows, targets] of held-out targets [rows, targets]."""
        raise NotImplementedError


class RegressionAnswers(LinearModel):
    """Predictions of a linear model for one target or several."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _shaped(self, coef: Floats) -> Floats:
        return coef[0] if len(coef) == 1 else coef

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions for X [rows, n]: float64 [rows] or [rows, targets], like y."""
        return self._linear(X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R squared of the predictions for X [rows, n] against y, the mean over targets.

        `sample_weight` [rows] weighs the squared errors, and those of the mean.
        """
        prediction = self.predict(X)
        target = as_targets(y, len(prediction))
        weights = row_weights(sample_weight, len(prediction))
        if target.shape != prediction.shape:
            raise DataError(f"y has shape {target.shape}, but the predictions have {prediction.shape}")
        return self._score_of(prediction, target, weights)

    def _score_of(self, prediction: Floats, targets: Floats, weights: Floats | None) -> float:
        missed = np.average((targets - prediction) ** 2, axis=0, weights=weights)
        spread = np.average((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
        return float(np.mean(np.where(spread > 0, 1.0 - missed / np.where(spread > 0, spread, 1.0), missed == 0)))


class ClassAnswers(LinearModel):
    """Classes and probabilities from the scores of a linear model."""

    loss: str
    classes_: NDArray[Any]

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores for X [rows, n]: float64 [rows] of the second of two classes, otherwise [rows, classes]."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each row of X [rows, n], of the type of the labels."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    @available_unless(no_probabilities)
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return probabilities for X [rows, n]: float64 [rows, classes]; with log_loss and modified_huber.

        With modified_huber the probability of a score is ``(clip(score, -1, 1) + 1) / 2``. For two classes they are
        those of the model. For more, the probability of each class against the rest, divided by their sum, as in
        scikit-learn.
        """
        scores = self.decision_function(X)
        each = PROBABILITIES[self.loss](scores)
        if each.ndim == 1:
            return np.column_stack([1.0 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])

    @available_unless(no_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithms of the probabilities for X [rows, n], float64 [rows, classes]; see `predict_proba`.

        With log_loss they are finite also where a probability rounds to 0; with modified_huber a probability of 0 has
        minus infinity.
        """
        if self.loss != "log_loss":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self.predict_proba(X)))
        scores = self.decision_function(X)
        each = -np.logaddexp(0.0, -scores)
        if each.ndim == 1:
            return np.column_stack([-np.logaddexp(0.0, scores), each])
        return each - np.logaddexp.reduce(each, axis=1, keepdims=True)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the rows of X [rows, n], by `sample_weight` [rows], whose predicted class is y [rows]."""
        prediction = self.predict(X)
        correct = prediction == as_labels(y, len(prediction))
        return float(np.average(correct, weights=row_weights(sample_weight, len(prediction))))

    def _score_of(self, prediction: Floats, targets: Floats, weights: Floats | None) -> float:
        several = targets.shape[1] > 1
        chosen, true = (each.argmax(axis=1) if several else each[:, 0] > 0 for each in (prediction, targets))
        return float(np.average(chosen == true, weights=weights))

    def _shaped(self, coef: Floats) -> Floats:
        return coef


def positive_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes that are trained against the rest: the second of two, otherwise all."""
    return classes if len(classes) > 2 else classes[1:]
