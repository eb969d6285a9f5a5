"""Linear models with scikit-learn's conventions, trained on the accelerator."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.data.arrays import as_labels, as_matrix, as_targets
from bitlane.devices import Device, open_device
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.policies.protocol import BitPolicy
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.quantization.stochastic import uses_random_rounding
from bitlane.support.sklearn_compat import not_fitted
from bitlane.training.by_policy import policy_of, train_by_policy
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.objective import Bounds, ClassWeights
from bitlane.training.result import OnEpoch, TrainingResult
from bitlane.training.train import ALIKE, train

from .validation import as_coefficients, as_number, as_seed, check_names, class_weights, clipped_batch, column_names

Self = TypeVar("Self", bound="_LinearSGD")
Regressor = TypeVar("Regressor", bound="SGDRegressor")
Classifier = TypeVar("Classifier", bound="SGDClassifier")

_PARAMETERS = """
    Parameters
    ----------
    bits: stored bits a feature, even, 2 to 32; with double sampling 3 or 5 too. Or "mqgrad", or a policy such as
        `bitlane.compress.MQGrad(choices=(2, 4, 8))`, which chooses them for each epoch, and cannot be resumed.
    sampling: "double" (unbiased: two draws of each sample), "nearest", "naive" (biased), or "full" (bits=32).
    levels: what samples are rounded to. "uniform": equal intervals; "optimal": those of least variance for each
        feature, with double sampling and 3, 4 or 5 bits. These, and 3 or 5 bits, need a device of table lanes.
    draws: random sets that the epochs go through: "epoch" (a new one each), "once", or a number.
    epochs: passes over the data.
    batch_size: rows of a mini-batch.
    learning_rate: step along a batch's mean gradient, in scaled units: columns, and targets of a regression, are
        scaled to [-1, 1] first.
    decay: factor on the learning rate after each epoch, 0.5 to 1.
    loss: {losses}.
    penalty: None, "l2" or "l1".
    alpha: strength of the penalty, as in scikit-learn: the objective is `mean(loss) + alpha R(w)` with
        `R(w) = 1/2 |w|**2` or `|w|_1`, where w, residuals and margins are scaled. Unused without a penalty.
    bounds: None, or low and high end for all scaled weights, within [-8, 8), None for no end; rounded inwards to
        multiples of 2**-12. Scales are positive, so 0 and None mean the same for coefficients in user units. They
        exclude a penalty.
    staleness: 0, or 1: each batch reads the weights of one batch earlier, and the machine never waits for an update.
    model_bits: None, or 5 to 23: bits of the weights that dot products see, rounded at random for every batch.
    gradient_bits: None, or 2 to 32: bits of step times slope, for slopes from -1 to 1, rounded at random for every row.
        Both are unbiased, and need a device with random rounding.
{more}    fit_intercept: whether there is an intercept, which neither penalty nor bounds touch.
    shuffle: whether the rows are put in random order, once, before they are stored; sorted rows mislead SGD.
    warm_start: whether fit begins with the model that the last fit left, as in scikit-learn.
    device: "rtl", "emulator", "auto", or an open device: one of several outputs trains as many targets at a time.
    random_state: None (fresh) or a whole number, 0 or more, that makes order and draws repeatable.
"""


class _LinearSGD:
    """What the two estimators share: parameters and training."""

    _estimator_type = ""
    _losses: tuple[str, ...] = ()

    bits: int | str | BitPolicy
    sampling: str
    levels: str
    draws: str | int
    epochs: int
    batch_size: int
    learning_rate: float
    decay: float
    loss: str
    penalty: str | None
    alpha: float
    bounds: Bounds | None
    staleness: int
    model_bits: int | None
    gradient_bits: int | None
    fit_intercept: bool
    shuffle: bool
    warm_start: bool
    device: str | Device
    random_state: int | None

    coef_: Floats
    intercept_: Floats
    run_: TrainingResult

    def _set(self, parameters: Mapping[str, Any]) -> None:
        """Keeps what the constructor was given, as it was given."""
        for name in self._names():
            setattr(self, name, parameters[name])

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    # --- parameters ---
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters by name; `deep` is scikit-learn's and changes nothing here."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self: Self, **params: Any) -> Self:
        """Sets parameters by name; DataError for a name that the constructor does not have."""
        known = self._names()
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
            target_tags=tags.TargetTags(required=True, multi_output=not classifies),
            classifier_tags=tags.ClassifierTags() if classifies else None,
            regressor_tags=None if classifies else tags.RegressorTags(),
            input_tags=tags.InputTags(),
        )

    # --- training ---
    def _train(
        self,
        table: Matrix,
        targets: Floats,
        class_weight: ClassWeights | Sequence[ClassWeights],
        coef_init: ArrayLike | None,
        intercept_init: ArrayLike | None,
        resume: Checkpoint | None,
        on_epoch: OnEpoch | None,
        snapshots: bool,
    ) -> TrainingResult:
        """One run of all targets, float64 [rows, targets]."""
        policy = policy_of(self.bits)
        if policy is not None and resume is not None:
            raise DataError("a training whose bits a policy chooses cannot be resumed: what it learned is not kept")
        if self.loss not in self._losses:
            raise DataError(f"loss={self.loss!r}: choose one of {', '.join(map(repr, self._losses))}")
        seed = resume.options.seed if resume is not None and self.random_state is None else as_seed(self.random_state)
        if self.warm_start and resume is None and self.__sklearn_is_fitted__():
            coef_init = self.coef_ if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        parameters: dict[str, Any] = {
            "batch_size": clipped_batch(self.batch_size, len(table)),
            "learning_rate": as_number("learning_rate", self.learning_rate),
            "decay": as_number("decay", self.decay),
            "alpha": as_number("alpha", self.alpha) if self.penalty else 0.0,
            "coef_init": as_coefficients("coef_init", coef_init, targets.shape[1], table.shape[1]),
            "intercept_init": as_coefficients("intercept_init", intercept_init, targets.shape[1], None),
        }
        random = uses_random_rounding(self.model_bits, self.gradient_bits)
        bits: dict[str, Any] = {"policy": policy, "sampling": self.sampling}
        if policy is None:
            number: Any = self.bits
            bits = {"precision": choose_precision(number, self.sampling, self.levels), "resume": resume}
        slots = bits["precision"].level_slots if policy is None else 0
        device = open_device(self.device, AcceleratorConfig(level_slots=slots, random_rounding=random))
        try:
            return (train if policy is None else train_by_policy)(
                table,
                targets,
                device=device,
                levels=self.levels,
                draws=self.draws,
                epochs=self.epochs,
                loss=self.loss,
                penalty=self.penalty,
                bounds=self.bounds,
                staleness=self.staleness,
                model_bits=self.model_bits,
                gradient_bits=self.gradient_bits,
                class_weight=class_weight,
                fit_intercept=self.fit_intercept,
                shuffle=self.shuffle,
                seed=seed,
                on_epoch=on_epoch,
                snapshots=snapshots,
                **bits,
                **parameters,
            )
        finally:
            if device is not self.device:
                device.close()

    def _remember(self, X: Any, table: Matrix, run: TrainingResult) -> None:
        self.run_ = run
        self.n_iter_ = self.epochs
        self.n_features_in_ = table.shape[1]
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # --- prediction ---
    def _linear(self, X: ArrayLike) -> Floats:
        """`X @ coef_.T + intercept_` after checks of X [rows, n_features_in_]."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        check_names(X, getattr(self, "feature_names_in_", None))
        table = as_matrix(X)
        if table.shape[1] != self.n_features_in_:
            name, fitted = type(self).__name__, self.n_features_in_
            raise DataError(f"X has {table.shape[1]} features, but {name} is expecting {fitted} features as input")
        return np.asarray(table @ self.coef_.T + self.intercept_, dtype=np.float64)


class SGDRegressor(_LinearSGD):  # noqa: D101 - its docstring is made below
    _estimator_type = "regressor"
    _losses = ("squared_error",)

    def __init__(
        self,
        bits: int | str | BitPolicy = 4,
        sampling: str = "double",
        levels: str = "uniform",
        draws: str | int = "epoch",
        epochs: int = 20,
        batch_size: int = 16,
        learning_rate: float = 0.1,
        decay: float = 1.0,
        loss: str = "squared_error",
        penalty: str | None = None,
        alpha: float = 0.0,
        bounds: Bounds | None = None,
        staleness: int = 0,
        model_bits: int | None = None,
        gradient_bits: int | None = None,
        fit_intercept: bool = True,
        shuffle: bool = True,
        warm_start: bool = False,
        device: str | Device = "rtl",
        random_state: int | None = None,
    ):
        self._set(locals())

    def fit(
        self: Regressor,
        X: ArrayLike,
        y: ArrayLike,
        *,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        resume: Checkpoint | None = None,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Regressor:
        """Trains on X [rows, n] and y [rows] or [rows, targets].

        Parameters
        ----------
        coef_init, intercept_init: of the shapes of coef_ and intercept_, to begin with instead of 0. With squared
            errors and equal class weights the intercept follows from the columns' means and needs no beginning.
        resume: a `bitlane.training.checkpoint.Checkpoint`, as `run_.checkpoint()` gives, of a fit with the same
            parameters and data: goes on from there to `epochs` in all, bit for bit as if it had not stopped.
        on_epoch: called with the number of each epoch, from 0, and its mean loss, in every pass over the data.
        snapshots: whether `run_` keeps the models of each epoch.

        Raises
        ------
        DataError (a ValueError): data or a parameter that cannot be used.
        DeviceError: the device failed or is missing.
        """
        table = as_matrix(X, least=2)
        targets = as_targets(y, len(table))
        columns = targets.reshape(len(table), -1)
        run = self._train(table, columns, ALIKE, coef_init, intercept_init, resume, on_epoch, snapshots)
        self._remember(X, table, run)
        self.coef_ = run.coef
        self.intercept_ = np.atleast_1d(run.intercept)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predictions float64 [rows] or [rows, targets], as y was, for X [rows, n]."""
        return self._linear(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """R squared of the predictions for X [rows, n] against y, the mean over its targets."""
        prediction = self.predict(X)
        target = as_targets(y, len(prediction))
        if target.shape != prediction.shape:
            raise DataError(f"y has shape {target.shape}, but the predictions have {prediction.shape}")
        missed = ((target - prediction) ** 2).sum(axis=0)
        spread = ((target - target.mean(axis=0)) ** 2).sum(axis=0)
        return float(np.mean(np.where(spread > 0, 1.0 - missed / np.where(spread > 0, spread, 1.0), missed == 0)))


class SGDClassifier(_LinearSGD):  # noqa: D101 - its docstring is made below
    _estimator_type = "classifier"
    _losses = ("squared_error", "hinge", "log_loss")

    class_weight: str | Mapping[Any, float] | None
    classes_: NDArray[Any]

    def __init__(
        self,
        bits: int | str | BitPolicy = 4,
        sampling: str = "double",
        levels: str = "uniform",
        draws: str | int = "epoch",
        epochs: int = 20,
        batch_size: int = 16,
        learning_rate: float = 0.1,
        decay: float = 1.0,
        loss: str = "squared_error",
        penalty: str | None = None,
        alpha: float = 0.0,
        bounds: Bounds | None = None,
        staleness: int = 0,
        model_bits: int | None = None,
        gradient_bits: int | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        shuffle: bool = True,
        warm_start: bool = False,
        device: str | Device = "rtl",
        random_state: int | None = None,
    ):
        self._set(locals())

    def fit(
        self: Classifier,
        X: ArrayLike,
        y: ArrayLike,
        *,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        resume: Checkpoint | None = None,
        on_epoch: OnEpoch | None = None,
        snapshots: bool = False,
    ) -> Classifier:
        """Trains on X [rows, n] and labels y [rows], of any type that sorts.

        Parameters and errors are those of `SGDRegressor.fit`.
        """
        table = as_matrix(X, least=2)
        labels = as_labels(y, len(table))
        classes = np.unique(labels)
        if len(classes) < 2:
            raise DataError(f"y holds one class only ({classes[0]!r}): a classifier needs two")
        positive = classes if len(classes) > 2 else classes[1:]
        targets = np.where(labels[:, None] == positive, 1.0, -1.0)
        weights = class_weights(self.class_weight, labels, classes)
        run = self._train(table, targets, weights, coef_init, intercept_init, resume, on_epoch, snapshots)
        self._remember(X, table, run)
        self.classes_ = classes
        self.coef_ = np.atleast_2d(run.coef)
        self.intercept_ = np.atleast_1d(run.intercept)
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

    @property
    def predict_proba(self) -> Callable[[ArrayLike], Floats]:
        """A function of X [rows, n] that gives probabilities float64 [rows, classes]; with loss="log_loss" alone.

        Of two classes they are those of the model. Of more, each class's against the rest, divided by their sum, as
        in scikit-learn.
        """
        if self.loss != "log_loss":
            raise AttributeError(f"loss={self.loss!r} gives no probabilities: set loss='log_loss'")
        return self._probabilities

    def _probabilities(self, X: ArrayLike) -> Floats:
        scores = self.decision_function(X)
        each = np.exp(-np.logaddexp(0.0, -scores))
        if each.ndim == 1:
            return np.column_stack([1.0 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0 / each.shape[1])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Share of the rows of X [rows, n] that are classified as y [rows] says."""
        prediction = self.predict(X)
        return float(np.mean(prediction == as_labels(y, len(prediction))))


_WEIGHTS = """    class_weight: None; "balanced", `rows / (classes * rows of the class)`; or factors on gradients by
        class. Of more than two classes each has its own against a rest of 1, as in scikit-learn; classes of different
        weights cannot share a pass over the data.
"""

SGDRegressor.__doc__ = f"""Least-squares regression by low-precision SGD, of one target or several.
{_PARAMETERS.format(losses='"squared_error", `1/2 residual**2`', more="")}
    Attributes
    ----------
    coef_: float64 [n], user units; [targets, n] for y [rows, targets]. intercept_: float64 [1] or [targets].
    n_iter_: epochs. n_features_in_. feature_names_in_: where X had named columns.
    run_: `bitlane.training.result.Run`: losses, cycles, bytes, stalls, levels, checkpoints.
    """
_CHOICES = '"squared_error" on labels -1 and 1 (LS-SVM), "hinge" (SVM), or "log_loss" (logistic regression)'
SGDClassifier.__doc__ = f"""Linear classification by low-precision SGD, of more than two classes each against the rest.
{_PARAMETERS.format(losses=_CHOICES, more=_WEIGHTS)}
    Attributes
    ----------
    classes_: the labels found, sorted.
    coef_: float64 [1, n] for two classes, otherwise [classes, n]. intercept_: float64 [1] or [classes].
    n_iter_: epochs. n_features_in_. feature_names_in_: where X had named columns.
    run_: `bitlane.training.result.Run` of all classes: losses, cycles, bytes, stalls, levels, checkpoints.
    """
