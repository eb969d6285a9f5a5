"""Linear models with scikit-learn's conventions, trained on the accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.data.arrays import as_labels, as_table, as_targets
from bitlane.errors import DataError
from bitlane.support.labels import sorted_classes
from bitlane.support.sklearn_compat import ClassifierMixin, RegressorMixin
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.losses import EPSILON_LOSSES
from bitlane.training.options import EQUAL_WEIGHTS
from bitlane.training.result import OnEpoch

from .base import LinearSGD
from .parameters import documented
from .predictions import ClassAnswers, RegressionAnswers, positive_classes
from .validation import check_one_pass, class_weights, known_classes

Regressor = TypeVar("Regressor", bound="SGDRegressor")
Classifier = TypeVar("Classifier", bound="SGDClassifier")


@documented
@dataclass(eq=False, repr=False)
class SGDRegressor(RegressionAnswers, RegressorMixin, LinearSGD):
    """Linear regression by low-precision SGD, for one target or several.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n,) or (targets, n)
        Coefficients, in user units; a CSR matrix after `sparsify`.
    intercept_ : ndarray of float64, shape (1,) or (targets,)
    n_iter_ : int
        Epochs of the model so far, those before a resumed checkpoint included; 1 after `partial_fit`.
    t_ : float
        1 plus the rows that the model has learned since `fit` began, or since the first `partial_fit`, over all epochs.
    loss_curve_ : list of float
        Mean loss of each epoch over the targets, of this fit; each `partial_fit` adds one. `run_.loss` has each target.
    validation_scores_ : list of float
        With ``early_stopping=True``, the score of the held-out rows after each epoch.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.
    run_ : TrainingResult
        Losses, cycles, bytes, stalls, levels and checkpoints of the training.

    Examples
    --------
    >>> import numpy as np
    >>> from bitlane import SGDRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 3.0
    >>> model = SGDRegressor(bits=8, learning_rate=0.5, device="emulator", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    _losses: ClassVar[tuple[str, ...]] = ("squared_error", *EPSILON_LOSSES)

    def fit(
        self: Regressor,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        resume: Checkpoint | None = None,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Regressor:
        """Train on X and y.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
            Integers or floats, finite. Sparse and memory-mapped tables become arrays in pieces of rows, and an encoded
            table is not decoded.
        y : array-like of shape (rows,) or (rows, targets)
        sample_weight : array-like of shape (rows,), optional
            How much each row counts, relative to the others: the loss is a weighted mean. A training reads copies of
            rows, on every device. With counts, or other weights of a common unit, the copies are exact while they are
            few; otherwise a row of mean weight has 4 copies, in small tables up to 64, and the rest of a copy is one
            or none at random. Rows of weight 0 are left out.
        coef_init, intercept_init : array-like, optional
            Coefficients to begin with instead of 0, with the shapes of `coef_` and `intercept_`. With squared errors
            and equal class weights the intercept may follow from the means of the columns; `intercept_init` is unused
            then.
        resume : bitlane.training.checkpoint.Checkpoint, optional
            A checkpoint, as ``run_.checkpoint()`` returns it, of a fit with the same parameters and data. Training
            continues there, up to `epochs` in total, with the bits of a training that never stopped.
        on_epoch : callable, optional
            Called as ``on_epoch(epoch, loss)`` after each epoch of each pass over the data.
        snapshots : bool, default=False
            Whether `run_` keeps the weights of each epoch.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used; it is a ValueError.
        DeviceError
            The device is missing, or failed.
        """
        table = as_table(X, least=2)
        columns = as_targets(y, len(table)).reshape(len(table), -1)
        start = self._start(coef_init, intercept_init, resume, (columns.shape[1], table.shape[1]))
        self._fit(X, table, columns, [EQUAL_WEIGHTS], sample_weight, start, on_epoch, snapshots)
        return self

    def partial_fit(self: Regressor, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Regressor:
        """Train one pass over a piece of the data, beginning with the present coefficients.

        The scaling comes from the ranges, the means and a sample of all rows since `fit`, or since the first call. The
        weight of a column that has been constant so far is 0. Draws and the order of rows differ from call
        to call. The learning rate does not decay from call to call; "auto" is computed for the rows of each call, and
        is an eighth of that of `fit`. `epochs`, `decay`, `tol` and `average` are not used.
        `run_` is that of the last call with a column that varies. `fit` begins anew.

        Parameters
        ----------
        X : array-like of shape (rows, n)
            As for `fit`, of one row or more. A batch with fewer rows than `batch_size` steps by its share.
        y : array-like of shape (rows,) or (rows, targets)
        sample_weight : array-like of shape (rows,), optional
            Factors on the steps of the rows, 64 at most on average: a row of weight 2 steps twice as far as one of a
            call without weights. Integers make so many copies of a row; with others the batch and the copies grow.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used, or other columns or targets than before. The model stays as it is.
        DeviceError
            The device is missing, or failed.
        """
        check_one_pass(X, self.bits, self.early_stopping)
        table = as_table(X, least=1)
        columns = as_targets(y, len(table)).reshape(len(table), -1)
        coef, self.intercept_ = self._partial_fit(X, table, columns, [EQUAL_WEIGHTS], sample_weight)
        self.coef_ = self._shaped(coef)
        return self


@documented
@dataclass(eq=False, repr=False)
class SGDClassifier(ClassAnswers, ClassifierMixin, LinearSGD):
    """Linear classification by low-precision SGD; more than two classes are trained one-vs-rest.

    {parameters}
    class_weight : None, "balanced" or dict, default=None
        Factors on gradients by class; "balanced" is ``rows / (classes * rows of the class)``. With more than two
        classes each class has its factor against a rest of 1, as in scikit-learn, and classes of different weights
        cannot share a pass over the data.

    Attributes
    ----------
    classes_ : ndarray
        The labels found, sorted.
    coef_ : ndarray of float64, shape (1, n) for two classes, otherwise (classes, n)
        Coefficients, in user units; a CSR matrix after `sparsify`.
    intercept_ : ndarray of float64, shape (1,) or (classes,)
    n_iter_ : int
        Epochs of the model so far, those before a resumed checkpoint included; 1 after `partial_fit`.
    t_ : float
        1 plus the rows that the model has learned since `fit` began, or since the first `partial_fit`, over all epochs.
    loss_curve_ : list of float
        Mean loss of each epoch over the targets, of this fit; each `partial_fit` adds one. `run_.loss` has each target.
    validation_scores_ : list of float
        With ``early_stopping=True``, the score of the held-out rows after each epoch.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.
    run_ : TrainingResult
        Losses, cycles, bytes, stalls, levels and checkpoints of the training, of all classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bitlane import SGDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SGDClassifier(bits=8, epochs=100, device="emulator", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    loss: str = "log_loss"
    class_weight: str | Mapping[Any, float] | None = None
    classes_: NDArray[Any] = field(init=False)

    _losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge", "squared_error", "squared_hinge", "modified_huber")
    _classes: ClassVar[bool] = True

    def fit(
        self: Classifier,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        resume: Checkpoint | None = None,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Classifier:
        """Train on X and labels y.

        Parameters
        ----------
        X : array-like, sparse matrix or array, Arrow table, or EncodedTable, of shape (rows, n)
            Integers or floats, finite. Sparse and memory-mapped tables become arrays in pieces of rows, and an encoded
            table is not decoded.
        y : array-like of shape (rows,)
            Labels of any type that sorts.
        sample_weight, coef_init, intercept_init, resume, on_epoch, snapshots
            As for `SGDRegressor.fit`.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used; it is a ValueError.
        DeviceError
            The device is missing, or failed.
        """
        table = as_table(X, least=2)
        labels = as_labels(y, len(table))
        classes = sorted_classes(labels)
        targets = np.where(labels[:, None] == positive_classes(classes), 1.0, -1.0)
        weights = class_weights(self.class_weight, labels, classes)
        start = self._start(coef_init, intercept_init, resume, (targets.shape[1], table.shape[1]))
        self._fit(X, table, targets, weights, sample_weight, start, on_epoch, snapshots)
        self.classes_, self.coef_ = classes, np.atleast_2d(self.coef_)
        return self

    def partial_fit(
        self: Classifier,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Classifier:
        """Train one pass over a piece of the data, as `SGDRegressor.partial_fit` does.

        With all losses but squares, a column whose range grows keeps its scaled weight up to the 64th row.

        Parameters
        ----------
        X : array-like of shape (rows, n)
            As for `fit`, of one row or more.
        y : array-like of shape (rows,)
            Labels, of any of the classes.
        classes : array-like of shape (classes,), optional
            All labels that any call may have, two or more; needed with the first call. The classes of a model after
            `fit` are those of its labels.
        sample_weight : array-like of shape (rows,), optional
            As for `SGDRegressor.partial_fit`.

        Returns
        -------
        self

        Raises
        ------
        DataError
            As for `SGDRegressor.partial_fit`; missing or other classes, a label that is not among the classes, or
            ``class_weight="balanced"``. The model stays as it is.
        DeviceError
            The device is missing, or failed.
        """
        check_one_pass(X, self.bits, self.early_stopping)
        known = known_classes(classes, getattr(self, "classes_", None))
        table = as_table(X, least=1)
        labels = as_labels(y, len(table))
        if (strange := ~(labels[:, None] == known).any(axis=1)).any():
            raise DataError(f"y holds {labels[strange].tolist()[0]!r}, which is not among the classes {known.tolist()}")
        if isinstance(self.class_weight, str):
            raise DataError(f"class_weight={self.class_weight!r}: partial_fit needs None or a dict of weights by class")
        targets = np.where(labels[:, None] == positive_classes(known), 1.0, -1.0)
        weights = class_weights(self.class_weight, labels, known)
        self.coef_, self.intercept_ = self._partial_fit(X, table, targets, weights, sample_weight)
        self.classes_ = known
        return self
