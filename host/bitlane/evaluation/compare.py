"""Comparisons of precisions: the same data, row order and schedule at several precisions and in float64."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BITS
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.devices import Device, open_device
from bitlane.errors import DataError
from bitlane.quantization.labels import curve_label
from bitlane.quantization.scaling import Floats
from bitlane.support.user_warnings import warn_user
from bitlane.training.result import OnEpoch, TrainingResult
from bitlane.training.train import train

from .baseline import float_models
from .metrics import accuracies_of, constant_loss, least_loss, losses_of
from .schedules import TrainingSchedule

FULL = Precision(FULL_BITS, "full")
SAMPLINGS = ("double", "nearest", "naive")


@dataclass(frozen=True)
class ComparedModel:
    """The result of one training of a comparison.

    Losses are means over the unquantized rows, for squared errors in label units squared. The counters of the
    accelerator are None for float64.

    Attributes
    ----------
    sampling : str
    bits : int
    losses : float64 array [epochs]
        Loss of the model after each epoch.
    staleness : int, default=0
    accuracy, held_out : float or None
        Share of rows that the final model classifies correctly, in training and held-out data; None for a regression.
    bytes_per_epoch, cycles_per_epoch : float or None
    over_layout, over_raw : float or None
        Cycles divided by the layout bound and by the raw bound.
    saturations : int or None
        Clipped values in the run.
    """

    sampling: str
    bits: int
    losses: Floats
    staleness: int = 0
    accuracy: float | None = None
    held_out: float | None = None
    bytes_per_epoch: float | None = None
    cycles_per_epoch: float | None = None
    over_layout: float | None = None
    over_raw: float | None = None
    saturations: int | None = None

    @property
    def label(self) -> str:
        return curve_label(self.sampling, self.bits, self.staleness)

    @property
    def loss(self) -> float:
        """Loss of the final model."""
        return float(self.losses[-1])

    def epochs_to(self, loss: float) -> int | None:
        """Return the first epoch, from 1, after which the loss is at most `loss`; None if it never is."""
        reached = np.flatnonzero(self.losses <= loss)
        return int(reached[0]) + 1 if len(reached) else None

    def cycles_to(self, loss: float) -> float | None:
        """Return the cycles until the loss is at most `loss`; None if it never is, or if no cycles were counted."""
        epochs = self.epochs_to(loss)
        return epochs * self.cycles_per_epoch if epochs and self.cycles_per_epoch else None


@dataclass(frozen=True)
class Comparison:
    """Results of one schedule at several precisions; the first is float64, the second full precision.

    `constant` is the least loss of a model with one output for all rows. `optimum` is the least loss of a linear model,
    None except for squared errors.
    """

    title: str
    device: str
    width: int  # of its memory port, bits
    schedule: TrainingSchedule
    rows: int
    features: int
    constant: float
    optimum: float | None
    results: tuple[ComparedModel, ...]

    def relative(self, result: ComparedModel) -> float:
        """Return the loss divided by that of full precision on the same device."""
        return result.loss / self.results[1].loss if self.results[1].loss else float("nan")


@dataclass(frozen=True)
class ComparisonData:
    """The data of a comparison.

    Attributes
    ----------
    X : float64 array [rows, n]
    y : float64 array [rows]
        With labels -1 and 1 the accuracy is computed as well.
    held_out : tuple of arrays, optional
        An X and a y that are not used for training.
    """

    X: Floats
    y: Floats
    held_out: tuple[Floats, Floats] | None = None

    def result(
        self, precision: Precision | None, models: tuple[Floats, Floats], loss: str, **counted: Any
    ) -> ComparedModel:
        """Evaluate the models after each epoch: coefficients [epochs, n] and intercepts [epochs]."""
        last = tuple(each[-1:] for each in models)
        accuracy = held_out = None
        if np.isin(self.y, (-1, 1)).all():
            accuracy = float(accuracies_of(self.X, self.y, *last)[0])
            if self.held_out is not None:
                held_out = float(accuracies_of(*self.held_out, *last)[0])
        named = ("float64", 64) if precision is None else (precision.sampling, precision.bits)
        losses = losses_of(self.X, self.y, *models, loss)
        return ComparedModel(*named, losses, accuracy=accuracy, held_out=held_out, **counted)


def compare(
    data: ComparisonData,
    precisions: Sequence[Precision],
    schedule: TrainingSchedule,
    *,
    staleness: Sequence[int] = (0,),
    device: str | Device = "auto",
    title: str = "comparison",
    on_epoch: OnEpoch | None = None,
) -> Comparison:
    """Train in float64, at full precision, and at each of `precisions`, the latter two with each staleness.

    Parameters
    ----------
    data : ComparisonData
    precisions : sequence of Precision
    schedule : TrainingSchedule
    staleness : sequence of int, default=(0,)
    device : str or Device, default="auto"
    title : str, default="comparison"
    on_epoch : callable, optional
        Called as ``on_epoch(epoch, loss)`` after each epoch on the device.

    Returns
    -------
    Comparison

    Raises
    ------
    DataError
        The data cannot be used for training.
    DeviceError
        The device failed.
    """
    opened = open_device(device)
    width, results = WORD_BITS, []
    try:
        with _labelled_warnings() as labelled:
            for stale in staleness:
                for precision in [FULL, *(p for p in precisions if p != FULL)]:
                    with labelled(curve_label(precision.sampling, precision.bits, stale)):
                        run = train_as(data, precision, schedule, opened, stale, on_epoch)
                    width = WORD_BITS * run.geometry.words_per_beat
                    results.append(_result(data, precision, schedule, run))
    finally:
        if opened is not device:
            opened.close()
    results.insert(0, data.result(None, float_models(data.X, data.y, schedule), schedule.loss))
    return Comparison(
        title=title,
        device=opened.name,
        width=width,
        schedule=schedule,
        rows=data.X.shape[0],
        features=data.X.shape[1],
        constant=constant_loss(data.y, schedule.loss),
        optimum=least_loss(data.X, data.y, schedule.fit_intercept) if schedule.loss == "squared_error" else None,
        results=tuple(results),
    )


@contextlib.contextmanager
def _labelled_warnings() -> Iterator[Callable[[str], contextlib.AbstractContextManager[None]]]:
    """Yield `labelled(label)`, a context that collects the warnings inside it.

    Each warning is shown once, at the end. If only some labels gave it, it names them.
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
        warn_user(some + message)


def train_as(
    data: ComparisonData,
    precision: Precision,
    schedule: TrainingSchedule,
    device: Device,
    staleness: int = 0,
    on_epoch: OnEpoch | None = None,
    levels: str = "uniform",
) -> TrainingResult:
    """Run one training of a comparison, with snapshots of the model of each epoch; see `training.train`."""
    options = schedule.options(precision, levels, staleness)
    return train(data.X, data.y, options, device, on_epoch=on_epoch, snapshots=True)


def _result(
    data: ComparisonData, precision: Precision, schedule: TrainingSchedule, run: TrainingResult
) -> ComparedModel:
    return data.result(
        precision,
        run.models(),
        schedule.loss,
        staleness=run.settings["staleness"],
        bytes_per_epoch=run.bytes_read / schedule.epochs,
        cycles_per_epoch=run.cycles / schedule.epochs,
        over_layout=run.cycles / run.bound.layout,
        over_raw=run.cycles / run.bound.raw,
        saturations=run.saturations,
    )


def precisions_of(bits: Sequence[int], samplings: Sequence[str]) -> list[Precision]:
    """Return each sampling at each number of stored bits, without repeats; 32 bits are full precision, once.

    Raises
    ------
    DataError
        A precision is invalid.
    """
    unique: dict[Precision, None] = {}
    for sampling in samplings:
        for stored in sorted(bits):
            unique[FULL if stored == FULL_BITS else Precision(stored, sampling)] = None
    return [precision for precision in unique if precision != FULL]


def one_vs_rest(y: NDArray[Any], positive: str | None) -> tuple[Floats, str]:
    """Return class labels as -1 and +1, float64 [rows], and the name of the positive class.

    Parameters
    ----------
    y : array [rows]
    positive : str or None
        Name of the positive class; None for the second of two classes, or the first of several.

    Raises
    ------
    DataError
        There is only one class, or no class of that name.
    """
    classes = np.unique(y)
    names = [label_text(value) for value in classes]
    if len(classes) < 2:
        raise DataError(f"all labels are {names[0]}: a comparison needs two classes")
    if positive is None:
        positive = names[1] if len(classes) == 2 else names[0]
    if positive not in names:
        raise DataError(f"no class {positive!r}; the classes are {', '.join(names[:10])}")
    return binary_labels(y, positive), positive


def binary_labels(y: NDArray[Any], positive: str) -> Floats:
    """Return 1 for class labels with this name and -1 for others: float64 [rows]."""
    return np.where(np.isin(y, [value for value in np.unique(y) if label_text(value) == positive]), 1.0, -1.0)


def label_text(value: object) -> str:
    """Return a class label as text: 3 instead of 3.0."""
    number = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(float(value))) if number else str(value)  # type: ignore[arg-type]
