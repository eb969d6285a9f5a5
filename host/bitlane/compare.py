"""Comparisons: the same data, order and schedule at several precisions, beside float64."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .devices import Device, open_device
from .errors import DataError
from .plots import curve_label
from .quantize import FULL_BITS, Precision
from .records import Record
from .scaling import fit_scaling
from .training import OnEpoch, Run, train

Floats = NDArray[np.float64]

FULL = Precision(FULL_BITS, "full")
SAMPLINGS = ("double", "nearest", "naive")


@dataclass(frozen=True)
class Schedule:
    """What all trainings of a comparison share; `learning_rate` is that of scaled data."""

    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 0.1
    decay: float = 1.0
    draws: str | int = "epoch"
    fit_intercept: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """One training. Losses are mean squared residuals on the unquantized rows, in label units squared.

    losses float64[epochs], of the model after each epoch. What the accelerator counted is None for float64:
    bytes and cycles an epoch, cycles over the layout bound and over the raw bound, saturations of the run.
    """

    sampling: str
    bits: int
    losses: Floats
    bytes_per_epoch: float | None = None
    cycles_per_epoch: float | None = None
    over_layout: float | None = None
    over_raw: float | None = None
    saturations: int | None = None

    @property
    def label(self) -> str:
        return curve_label(self.sampling, self.bits)

    @property
    def loss(self) -> float:
        """Of the final model."""
        return float(self.losses[-1])


@dataclass(frozen=True)
class Comparison:
    """Results of the same schedule at several precisions; the first is float64, the second full precision."""

    title: str
    device: str
    schedule: Schedule
    rows: int
    features: int
    variance: float  # of the labels: the loss of a model that predicts their mean
    optimum: float  # the least loss that a linear model can have
    results: tuple[Result, ...]

    def relative(self, result: Result) -> float:
        """Loss over that of full precision on the same device."""
        return result.loss / self.results[1].loss if self.results[1].loss else float("nan")

    def record(self, name: str, unit: str = "label units") -> Record:
        """As a run folder holds it."""
        header = {
            "title": self.title,
            "unit": unit,
            "device": self.device,
            "settings": asdict(self.schedule),
            "data": {
                "name": name,
                "rows": self.rows,
                "features": self.features,
                "variance": self.variance,
                "optimum": self.optimum,
            },
        }
        lines = [
            {"kind": "result", **asdict(result), "loss": result.loss, "relative": self.relative(result)}
            for result in self.results
        ]
        return Record("comparison", header, lines, {"results": len(self.results)})


def compare(
    X: Floats,
    y: Floats,
    precisions: Sequence[Precision],
    schedule: Schedule,
    *,
    device: str | Device = "rtl",
    title: str = "comparison",
    on_epoch: OnEpoch | None = None,
) -> Comparison:
    """Train X float64[rows, n], y float64[rows] in float64, at full precision, and at each of `precisions`.

    `on_epoch(epoch, loss)` is called after each epoch on the device.
    Raises DataError for data that cannot be trained on, DeviceError where the device fails.
    """
    rows, features = X.shape
    opened = open_device(device)
    try:
        results = []
        with _labelled_warnings() as labelled:
            for precision in [FULL, *(p for p in precisions if p != FULL)]:
                with labelled(curve_label(precision.sampling, precision.bits)):
                    results.append(_train(X, y, precision, schedule, opened, on_epoch))
    finally:
        if opened is not device:
            opened.close()
    results.insert(0, Result("float64", 64, float_losses(X, y, schedule)))
    optimum = least_loss(X, y, schedule.fit_intercept)
    return Comparison(title, opened.name, schedule, rows, features, float(np.var(y)), optimum, tuple(results))


@contextlib.contextmanager
def _labelled_warnings() -> Iterator[Callable[[str], contextlib.AbstractContextManager[None]]]:
    """Gives `labelled(label)`, a context that keeps its warnings.

    Each comes at the end, once; one that not all labels gave says which did.
    """
    heard: dict[str, list[str]] = {}
    labels: list[str] = []

    @contextlib.contextmanager
    def labelled(label: str) -> Iterator[None]:
        labels.append(label)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            heard.setdefault(str(warning.message), []).append(label)

    yield labelled
    for message, whose in heard.items():
        some = "" if len(whose) == len(labels) else f"{', '.join(whose)}: "
        warnings.warn(some + message, stacklevel=4)


def _train(
    X: Floats, y: Floats, precision: Precision, schedule: Schedule, device: Device, on_epoch: OnEpoch | None
) -> Result:
    run = train(
        X,
        y,
        precision=precision,
        device=device,
        draws=schedule.draws,
        epochs=schedule.epochs,
        batch_size=schedule.batch_size,
        learning_rate=schedule.learning_rate,
        decay=schedule.decay,
        fit_intercept=schedule.fit_intercept,
        seed=schedule.seed,
        on_epoch=on_epoch,
        snapshots=True,
    )
    return Result(
        precision.sampling,
        precision.bits,
        losses_of(X, y, *run_models(run)),
        bytes_per_epoch=run.bytes_read / schedule.epochs,
        cycles_per_epoch=run.cycles / schedule.epochs,
        over_layout=run.cycles / run.bound.layout,
        over_raw=run.cycles / run.bound.raw,
        saturations=int(run.saturations),
    )


def run_models(run: Run) -> tuple[Floats, Floats]:
    """The models after each epoch of a run with snapshots: coefficients [epochs, n], intercepts [epochs]."""
    assert run.snapshots is not None, "the run was made without snapshots"
    models = [run.scaling.coefficients(weights[run.scaling.active]) for weights in run.snapshots]
    return np.array([coef for coef, _ in models]), np.array([intercept for _, intercept in models])


def float_losses(X: Floats, y: Floats, schedule: Schedule) -> Floats:
    """Mini-batch SGD of least squares in float64, in the order of the rows: losses float64[epochs]."""
    scaling = fit_scaling(X, y, schedule.fit_intercept)
    values, scale = scaling.values(X), scaling.label_scale
    if scale == 0.0:
        return np.zeros(schedule.epochs)
    labels = (y - scaling.label_center) / scale
    weights = np.zeros(values.shape[1])
    rate, losses = schedule.learning_rate, []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(schedule.epochs):
            for start in range(0, len(values), schedule.batch_size):
                v = values[start : start + schedule.batch_size]
                residual = v @ weights - labels[start : start + schedule.batch_size]
                weights = weights - rate / schedule.batch_size * (residual @ v)
            rate *= schedule.decay
            losses.append(scale**2 * np.mean((values @ weights - labels) ** 2))
    return np.array(losses)


def least_loss(X: Floats, y: Floats, fit_intercept: bool = True) -> float:
    """The mean squared residual of the best linear model, by the normal equations of the scaled table."""
    scaling = fit_scaling(X, y, fit_intercept)
    values = scaling.values(X)
    labels = y - scaling.label_center
    gram, moment = values.T @ values, values.T @ labels
    weights = np.linalg.lstsq(gram, moment, rcond=None)[0]
    return float(np.mean((values @ weights - labels) ** 2))


def losses_of(X: Floats, y: Floats, coefficients: Floats, intercepts: Floats) -> Floats:
    """Mean squared residuals float64[models] of coefficients [models, n] and intercepts [models]."""
    sums = np.zeros(len(coefficients))
    for start in range(0, len(X), 4096):
        part = slice(start, start + 4096)
        residuals = X[part] @ coefficients.T + intercepts - y[part, None]
        sums += np.einsum("ij,ij->j", residuals, residuals)
    return sums / len(X)


def precisions_of(bits: Sequence[int], samplings: Sequence[str]) -> list[Precision]:
    """Every sampling at every number of stored bits, without repeats; 32 bits are full precision, once.

    Raises DataError for a precision that does not exist.
    """
    found: dict[Precision, None] = {}
    for sampling in samplings:
        for stored in sorted(bits):
            found[FULL if stored == FULL_BITS else Precision(stored, sampling)] = None
    return [precision for precision in found if precision != FULL]


def one_against_rest(y: NDArray[Any], positive: str | None) -> tuple[Floats, str]:
    """Class labels as -1 and +1, float64[rows], and the name of the positive class.

    Of two classes the second is positive, of several the first, unless `positive` names one.
    Raises DataError where there is one class only, or no class of that name.
    """
    classes = np.unique(y)
    names = [class_name(value) for value in classes]
    if len(classes) < 2:
        raise DataError(f"all labels are {names[0]}; two classes are needed")
    if positive is None:
        positive = names[1] if len(classes) == 2 else names[0]
    if positive not in names:
        raise DataError(f"no class {positive!r}; the classes are {', '.join(names[:10])}")
    return np.where(y == classes[names.index(positive)], 1.0, -1.0), positive


def class_name(value: object) -> str:
    """A class label as people write it: 3 rather than 3.0."""
    number = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(float(value))) if number else str(value)  # type: ignore[arg-type]
