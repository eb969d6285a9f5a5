"""Classifiers over sparse features: LR, FM, FFM, DNN, Wide & Deep, DeepFM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.models.recipes import RECIPES
from bitlane.sparse.parameters.optimizers import Optimizer
from bitlane.support.labels import present_labels
from bitlane.support.optional import require_extra
from bitlane.support.sklearn_compat import ClassifierMixin

from .base import Classes, SparseEstimator, by_group
from .parameters import documented
from .validation import one_a_row, two_classes

Self = TypeVar("Self", bound="SparseClassifier")
Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SparseClassifier(ClassifierMixin, SparseEstimator):
    """What the classifiers share: two classes, log loss."""

    classes_: NDArray[Any] = field(init=False)

    _loss: ClassVar[str] = "log_loss"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self: Self, X: object, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X and y, anew.

        Parameters
        ----------
        X : sparse matrix or array-like of shape (rows, columns), table, or Batch
            See the estimator's notes.
        y : array-like of shape (rows,)
            Labels of two classes; optional if X is a `Batch`, whose labels they are then.
        sample_weight : array-like of shape (rows,) or float, optional
            How many rows each row counts as, 0 or more; a row of weight 0 is left out. Default: each counts as one. A
            `Batch` may have weights of its own.

        Returns
        -------
        self

        Raises
        ------
        DataError
            Data or a parameter that cannot be used; it is a ValueError.
        BitlaneError
            A library is not installed.
        """
        self._fit(X, y, sample_weight)
        return self

    def partial_fit(
        self: Self,
        X: object,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the rows of X once, in their order, on top of what was learned before.

        The labels of the first call set the intercept. Apart from that, learning rows in two calls is the same, to the
        bit, as learning them in one, if the first has a multiple of `batch_rows` rows.

        Parameters
        ----------
        X, y
            As for `fit`.
        classes : array-like of two labels
            Needed in the first call, unless `fit` came before.
        sample_weight
            As for `fit`.

        Returns
        -------
        self

        Raises
        ------
        DataError, BitlaneError
            As for `fit`.
        """
        given = None if classes is None else two_classes(classes, "classes")
        known = self.classes_ if self.__sklearn_is_fitted__() else given
        if known is None:
            raise DataError("classes must be passed on the first call to partial_fit: both labels, in any order")
        if given is not None and not np.array_equal(given, known):
            raise DataError(f"classes={given.tolist()}: the model was fitted with {known.tolist()}")
        self._partial_fit(X, y, sample_weight, known)
        return self

    def decision_function(self, X: object) -> Floats:
        """Return the logit of the second class for each row of X: float64 [rows]."""
        return self._scores(X)

    def predict(self, X: object) -> NDArray[Any]:
        """Return the likelier class of each row of X, of the type of the labels."""
        scores = self._scores(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.intp)])

    def predict_proba(self, X: object) -> Floats:
        """Return the probabilities of both classes for each row of X: float64 [rows, 2]."""
        scores = self._scores(X)
        return np.exp(-np.logaddexp(0.0, np.column_stack([scores, -scores])))

    def _labels(self, y: ArrayLike | None, rows: int, classes: Classes) -> tuple[NDArray[np.float32], Classes]:
        labels = present_labels(one_a_row(y, rows))
        classes = two_classes(labels) if classes is None else classes
        known = np.isin(labels, classes)
        if not known.all():
            raise DataError(f"y has the label {labels[~known].tolist()[0]!r}, which is not one of {classes.tolist()}")
        return np.asarray(labels == classes[1], np.float32), classes

    def _remember_classes(self, classes: Classes) -> None:
        assert classes is not None
        self.classes_ = classes


@documented
@dataclass(eq=False, repr=False)
class LRClassifier(SparseClassifier):
    """Logistic regression over sparse features, online.

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}

    Examples
    --------
    >>> import scipy.sparse
    >>> from bitlane.sparse import LRClassifier
    >>> X = scipy.sparse.eye(4, format="csr")
    >>> LRClassifier(random_state=0).fit(X, ["no", "yes", "no", "yes"]).predict(X).tolist()
    ['no', 'yes', 'no', 'yes']
    """

    _kind: ClassVar[str] = "lr"


@documented
@dataclass(eq=False, repr=False)
class FMClassifier(SparseClassifier):
    """Factorization machine over sparse features, online (Rendle, 2010).

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}
    """

    dim: int = 8
    initial_scale: float | None = None

    _kind: ClassVar[str] = "fm"
    _optimizers: ClassVar[tuple[str, ...]] = ("linear", "factors")
    _shape: ClassVar[tuple[str, ...]] = ("dim", "initial_scale")


@documented
@dataclass(eq=False, repr=False)
class FFMClassifier(SparseClassifier):
    """Field-aware factorization machine over sparse features, online (Juan et al., 2016).

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}
    """

    dim: int = 4
    normalise: bool = True
    initial_scale: float | None = None
    linear: Any = None

    _kind: ClassVar[str] = "ffm"
    _needs_fields: ClassVar[bool] = True
    _optimizers: ClassVar[tuple[str, ...]] = ("factors",)
    _shape: ClassVar[tuple[str, ...]] = ("dim", "normalise", "initial_scale")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.linear is None  # products of two features cannot tell all classes apart
        return tags

    def _more(self) -> dict[str, Optimizer]:
        return by_group(self.linear, ("linear",), "linear")


@dataclass(eq=False, repr=False)
class NetworkClassifier(SparseClassifier):
    """What the classifiers with layers share: minibatches, embeddings by field, torch."""

    batch_rows: int = RECIPES["dnn"].batch_rows
    dim: int = RECIPES["dnn"].dim
    hidden: tuple[int, ...] = RECIPES["dnn"].hidden
    initial_scale: float | None = None
    dense_optimizer: Any = None
    device: str = "cpu"

    _needs_fields: ClassVar[bool] = True
    _shape: ClassVar[tuple[str, ...]] = ("dim", "hidden", "initial_scale")

    def _check(self) -> None:
        super()._check()
        require_extra("torch", type(self).__name__, "'bitlane[sparse,torch]'")
        if not isinstance(self.hidden, tuple | list):
            raise DataError(f"hidden={self.hidden!r}: give the sizes of the hidden layers, such as (64, 32)")

    def _more(self) -> dict[str, Optimizer]:
        return by_group(self.dense_optimizer, ("dense",), "dense_optimizer")


@documented
@dataclass(eq=False, repr=False)
class DNNClassifier(NetworkClassifier):
    """Embeddings pooled by field, and layers above them. `fit` needs torch.

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}
    """

    _kind: ClassVar[str] = "dnn"
    _optimizers: ClassVar[tuple[str, ...]] = ("factors",)


@documented
@dataclass(eq=False, repr=False)
class WideDeepClassifier(NetworkClassifier):
    """Wide & Deep: the sum of logistic regression and a network (Cheng et al., 2016). `fit` needs torch.

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}
    """

    _kind: ClassVar[str] = "widedeep"
    _optimizers: ClassVar[tuple[str, ...]] = ("linear", "factors")


@documented
@dataclass(eq=False, repr=False)
class DeepFMClassifier(NetworkClassifier):
    """DeepFM: the sum of a factorization machine and a network that share their factors (Guo et al., 2017).

    `fit` needs torch.

    {parameters}

    {attributes}
    classes_ : ndarray
        Both labels, sorted.

    {notes}
    """

    _kind: ClassVar[str] = "deepfm"
    _optimizers: ClassVar[tuple[str, ...]] = ("linear", "factors")
