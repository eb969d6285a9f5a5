"""Linear models with scikit-learn's conventions, trained on the accelerator."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .devices import Device, open_device
from .errors import DataError
from .quantize import Precision
from .scaling import Table
from .training import OnEpoch, Run, train

Self = TypeVar("Self", bound="_LinearSGD")
Regressor = TypeVar("Regressor", bound="SGDRegressor")
Classifier = TypeVar("Classifier", bound="SGDClassifier")
Floats = NDArray[np.float64]

_ORDER = 1 << 32  # the generator of the row order, apart from those of the draws, which are numbered from 0


_PARAMETERS = """
    Parameters
    ----------
    bits: stored bits a feature, even, 2 to 32.
    sampling: "double" (unbiased: two draws of each sample), "nearest", "naive" (biased), or "full" (bits=32).
    draws: random sets that the epochs go through: "epoch" (a new one each), "once", or a number.
    epochs: passes over the data.
    batch_size: rows of a mini-batch.
    learning_rate: step along a batch's mean gradient of 1/2 residual**2, in scaled units: columns and labels
        are scaled to [-1, 1] first.
    decay: factor on the learning rate after each epoch, 0.5 to 1.
    penalty: None or "l2".
    alpha: strength of the penalty, as in scikit-learn: the objective is
        `mean(1/2 residual**2) + alpha/2 |w|**2`, with w and the residual in scaled units. Unused without a
        penalty.
    fit_intercept: whether columns and labels are centered.
    shuffle: whether the rows are put in random order, once, before they are stored; sorted rows mislead SGD.
    device: "rtl", "emulator", "auto", or an open device.
    random_state: None (fresh) or a whole number, 0 or more, that makes order and draws repeatable.
"""


class _LinearSGD:
    """What the two estimators share: parameters, validation and training."""

    def __init__(
        self,
        bits: int = 4,
        sampling: str = "double",
        draws: str | int = "epoch",
        epochs: int = 20,
        batch_size: int = 16,
        learning_rate: float = 0.1,
        decay: float = 1.0,
        penalty: str | None = None,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        shuffle: bool = True,
        device: str | Device = "rtl",
        random_state: int | None = None,
    ):
        self.bits = bits
        self.sampling = sampling
        self.draws = draws
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.decay = decay
        self.penalty = penalty
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.device = device
        self.random_state = random_state

    # --- parameters ---
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters by name; `deep` is scikit-learn's and changes nothing here."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: Self, **params: Any) -> Self:
        """Sets parameters by name; DataError for a name that the constructor does not have."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise DataError(f"{type(self).__name__} has no parameter {name!r}: it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:  # only scikit-learn asks
        tags = importlib.import_module("sklearn.utils")
        classifies = self._estimator_type == "classifier"
        return tags.Tags(
            estimator_type=self._estimator_type,
            target_tags=tags.TargetTags(required=True),
            classifier_tags=tags.ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else tags.RegressorTags(),
            input_tags=tags.InputTags(),
        )

    _estimator_type = ""

    # --- training ---
    def _train(self, table: Table, targets: list[Floats], on_epoch: OnEpoch | None, snapshots: bool) -> list[Run]:
        """One run for each target, float64 [rows], all on the same draws."""
        precision = Precision(self.bits, self.sampling)
        alpha = self._penalty_strength()
        seed = _seed(self.random_state)
        batch_size = _clipped_batch(self.batch_size, len(table))
        learning_rate, decay = _number("learning_rate", self.learning_rate), _number("decay", self.decay)
        if self.shuffle:
            order = np.random.default_rng([seed, _ORDER]).permutation(len(table))
            table, targets = table[order], [target[order] for target in targets]
        device = open_device(self.device)
        runs = []
        try:
            for target in targets:
                run = train(
                    table,
                    target,
                    precision=precision,
                    device=device,
                    draws=self.draws,
                    epochs=self.epochs,
                    batch_size=batch_size,
                    learning_rate=learning_rate,
                    decay=decay,
                    alpha=alpha,
                    fit_intercept=self.fit_intercept,
                    seed=seed,
                    on_epoch=on_epoch,
                    snapshots=snapshots,
                )
                runs.append(run)
        finally:
            if device is not self.device:
                device.close()
        return runs

    def _penalty_strength(self) -> float:
        if self.penalty not in (None, "l2"):
            raise DataError(f"penalty={self.penalty!r}: choose None or 'l2'")
        alpha = _number("alpha", self.alpha)
        if alpha < 0:
            raise DataError(f"alpha={alpha}: it must be 0 or more")
        return alpha if self.penalty else 0.0

    def _remember_columns(self, X: Any, table: Table) -> None:
        self.n_features_in_ = table.shape[1]
        names = _column_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # --- prediction ---
    def _linear(self, X: ArrayLike) -> Floats:
        """`X @ coef_.T + intercept_` after checks of X [rows, n_features_in_]."""
        if not self.__sklearn_is_fitted__():
            raise DataError(f"this {type(self).__name__} is not fitted: call fit first")
        names = _column_names(X)
        if names is not None and not np.array_equal(names, getattr(self, "feature_names_in_", names)):
            raise DataError("the columns of X are named or ordered differently than those given to fit")
        table = _as_table(X)
        if table.shape[1] != self.n_features_in_:
            raise DataError(f"X has {table.shape[1]} features, but fit was given {self.n_features_in_}")
        return np.asarray(table @ self.coef_.T + self.intercept_, dtype=np.float64)

    coef_: Floats
    intercept_: Floats


class SGDRegressor(_LinearSGD):  # noqa: D101 - its docstring is an f-string
    __doc__ = f"""Least-squares regression by low-precision SGD.
{_PARAMETERS}
    Attributes
    ----------
    coef_: float64 [n], user units. intercept_: float64 [1].
    n_iter_: epochs. n_features_in_. feature_names_in_: where X had named columns.
    run_: `bitlane.training.Run`: losses, cycles, bytes, stalls.
    """

    _estimator_type = "regressor"

    def fit(
        self: Regressor,
        X: ArrayLike,
        y: ArrayLike,
        *,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Regressor:
        """Trains on X [rows, n] and y [rows].

        Parameters
        ----------
        on_epoch: called with the number of each epoch, from 0, and its mean squared residual.
        snapshots: whether `run_.snapshots` keeps the weights of each epoch.

        Raises
        ------
        DataError (a ValueError): data or a parameter that cannot be used.
        DeviceError: the device failed or is missing.
        """
        table = _as_table(X, least=2)
        target = _as_target(y, len(table))
        (self.run_,) = self._train(table, [target], on_epoch, snapshots)
        self._remember_columns(X, table)
        self.coef_ = self.run_.coef
        self.intercept_ = np.array([self.run_.intercept])
        self.n_iter_ = self.epochs
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predictions float64 [rows] for X [rows, n]."""
        return self._linear(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """R squared of the predictions for X [rows, n] against y [rows]."""
        prediction = self.predict(X)
        target = _as_target(y, len(prediction))
        missed = float(((target - prediction) ** 2).sum())
        spread = float(((target - target.mean()) ** 2).sum())
        return 1.0 - missed / spread if spread else float(missed == 0)


class SGDClassifier(_LinearSGD):  # noqa: D101 - its docstring is an f-string
    __doc__ = f"""Classification by low-precision SGD: least squares on -1 and 1, each class against the rest.
{_PARAMETERS}
    Attributes
    ----------
    classes_: the labels found, sorted.
    coef_: float64 [1, n] for two classes, otherwise [classes, n]. intercept_: float64 [1] or [classes].
    n_iter_: epochs. n_features_in_. feature_names_in_: where X had named columns.
    runs_: `bitlane.training.Run` for each row of coef_. run_: the first of them.
    """

    _estimator_type = "classifier"

    def fit(
        self: Classifier,
        X: ArrayLike,
        y: ArrayLike,
        *,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Classifier:
        """Trains on X [rows, n] and labels y [rows], of any type that sorts.

        With more than two classes there is one run a class, each of which calls `on_epoch` from epoch 0 on.
        Parameters and errors are those of `SGDRegressor.fit`.
        """
        table = _as_table(X, least=2)
        labels = _as_labels(y, len(table))
        classes = np.unique(labels)
        if len(classes) < 2:
            raise DataError(f"y holds one class only ({classes[0]!r}): a classifier needs two")
        positive = classes if len(classes) > 2 else classes[1:]
        targets = [np.where(labels == label, 1.0, -1.0) for label in positive]
        self.runs_ = self._train(table, targets, on_epoch, snapshots)
        self.run_ = self.runs_[0]
        self._remember_columns(X, table)
        self.classes_ = classes
        self.coef_ = np.stack([run.coef for run in self.runs_])
        self.intercept_ = np.array([run.intercept for run in self.runs_])
        self.n_iter_ = self.epochs
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores of X [rows, n]: float64 [rows] of the second of two classes, else [rows, classes]."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of each row of X [rows, n]: [rows], of the labels' type."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Share of the rows of X [rows, n] that are classified as y [rows] says."""
        prediction = self.predict(X)
        return float(np.mean(prediction == _as_labels(y, len(prediction))))


# --- validation: one clear line each ---
def _as_table(X: ArrayLike, least: int = 0) -> Table:
    """X as integers or floats [rows, n], finite, with `least` rows."""
    table = np.asarray(X, order="C")  # sums in one order, whatever the layout of X
    if table.ndim != 2:
        raise DataError(f"X has {table.ndim} dimension(s): it must be a dense table of two, rows and features")
    if least and len(table) == 0:
        raise DataError("X has 0 rows: there is nothing to learn from")
    if len(table) < least:
        raise DataError(f"X has {len(table)} row: at least {least} are needed")
    if table.shape[1] == 0:
        raise DataError("X has 0 features: there is nothing to learn from")
    return _finite(_numbers(table, "X"), "X")


def _as_target(y: ArrayLike, rows: int) -> Floats:
    """y as float64 [rows], finite."""
    return _finite(_numbers(_as_labels(y, rows), "y").astype(np.float64), "y")


def _as_labels(y: ArrayLike, rows: int) -> NDArray[Any]:
    """y as an array [rows] without missing values."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"y has {labels.ndim} dimension(s): it must have one value a row")
    if len(labels) != rows:
        raise DataError(f"X has {rows} rows, but y has {len(labels)} values")
    return _finite(labels, "y") if labels.dtype.kind == "f" else labels


def _numbers(array: NDArray[Any], name: str) -> Table:
    """The array if it holds integers, float32 or float64; other numbers as float64."""
    if array.dtype in (np.float32, np.float64) or array.dtype.kind in "iu":
        return array
    try:
        if array.dtype.kind not in "bfO":
            raise TypeError
        return np.asarray(array.astype(np.float64))
    except (TypeError, ValueError):
        raise DataError(f"{name} holds {array.dtype} values: it must hold numbers; encode text first") from None


_AnyArray = TypeVar("_AnyArray", bound=NDArray[Any])


def _finite(array: _AnyArray, name: str) -> _AnyArray:
    bad = int(array.size - np.count_nonzero(np.isfinite(array)))
    if bad:
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    return array


def _column_names(X: Any) -> NDArray[Any] | None:
    """The column names of a DataFrame-like X, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not math.isfinite(value):
        raise DataError(f"{name}={value!r}: it must be a finite number")
    return float(value)


def _clipped_batch(batch_size: int, rows: int) -> int:
    if isinstance(batch_size, int | np.integer) and batch_size > rows:
        warnings.warn(f"batch_size={batch_size} exceeds the {rows} rows: one batch takes them all", stacklevel=4)
        return rows
    return batch_size


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise DataError(f"random_state={random_state!r}: it must be None or a whole number, 0 or more")
    return int(random_state)
