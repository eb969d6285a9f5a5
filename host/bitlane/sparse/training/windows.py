"""Progressive validation: how good the scores of a window of rows were before the model learned these rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.jit import compiled

Loss = Literal["log_loss", "squared_error"]
Floats = NDArray[np.float32]


class DivergedError(DataError):
    """A training whose scores are no longer finite."""


@dataclass(frozen=True)
class Quality:
    """How good the scores of some rows are.

    Attributes
    ----------
    rows : int
    auc : float or None
        Area under the ROC curve; ties count half. None for squared error, or if all labels are equal.
    log_loss : float or None
        Mean, in nats. None for squared error, or without rows.
    rmse : float or None
        Root of the mean squared error. None for log loss, or without rows.
    mean_label, mean_prediction : float or None
        None without rows.
    weight : float or None
        Sum of the rows' weights, by which all means are taken and pairs count; None without weights.
    """

    rows: int
    auc: float | None = None
    log_loss: float | None = None
    rmse: float | None = None
    mean_label: float | None = None
    mean_prediction: float | None = None
    weight: float | None = None

    @property
    def calibration(self) -> float | None:
        """Mean prediction over mean label; 1 is perfect. None if the mean label is 0, or without rows."""
        return self.mean_prediction / self.mean_label if self.mean_label and self.mean_prediction is not None else None

    @property
    def counted(self) -> float:
        """Sum of the rows' weights; without weights the number of rows."""
        return self.rows if self.weight is None else self.weight

    @property
    def constant_log_loss(self) -> float | None:
        """Log loss of the mean label as the prediction of every row; None without log loss."""
        if self.log_loss is None or self.mean_label is None:
            return None
        chances = np.array([each for each in (self.mean_label, 1 - self.mean_label) if each > 0])
        return float(-(chances * np.log(chances)).sum())


@dataclass(frozen=True)
class Window:
    """A window of rows of a training, for the log and for callbacks.

    Attributes
    ----------
    epoch : int
        Counted from 0.
    rows_done : int
        Rows of all epochs that were learned when the window ended.
    quality : Quality
        Of the scores before each row, or minibatch, was learned.
    seconds : float
        Time of the training so far, without checkpoints.
    rows_per_second : float
        In this window.
    waiting : float
        Share of the window's time in which the training waited for the reader, 0 to 1.
    table_rows : int
        Keys that the model has.
    table_bytes : int
        Memory of the table.
    memory_over_data : float or None
        `table_bytes` over the bytes of the keys and their values. None for an empty table.
    """

    epoch: int
    rows_done: int
    quality: Quality
    seconds: float
    rows_per_second: float
    waiting: float
    table_rows: int
    table_bytes: int
    memory_over_data: float | None


def measure(scores: Floats, labels: Floats, loss: Loss, weights: Floats | None = None) -> Quality:
    """Return how good scores are.

    Parameters
    ----------
    scores : float32 [rows]
        Log odds for log loss, predictions for squared error.
    labels : float32 [rows]
        0 or 1 for log loss.
    loss : {"log_loss", "squared_error"}
    weights : float32 [rows], optional
        How many rows each one counts as. A row of weight 0 is left out.
    """
    if weights is not None:
        return _weighted(scores, labels, loss, weights)
    rows = len(scores)
    if rows == 0:
        return Quality(0)
    z, y = scores.astype(np.float64), labels.astype(np.float64)
    mean_label = float(y.mean())
    if loss == "squared_error":
        rmse = math.sqrt(float(np.mean((z - y) ** 2)))
        return Quality(rows, rmse=rmse, mean_label=mean_label, mean_prediction=float(z.mean()))
    small = np.exp(-np.abs(z))
    losses = float(np.maximum(z, 0.0).sum()) + float(np.log1p(small).sum()) - float(np.dot(y, z))
    log_loss, mean_prediction = losses / rows, float(np.mean(np.where(z >= 0, 1.0, small) / (1.0 + small)))
    return Quality(rows, auc(scores, labels), log_loss, mean_label=mean_label, mean_prediction=mean_prediction)


def _weighted(scores: Floats, labels: Floats, loss: Loss, weights: Floats) -> Quality:
    counted = weights > 0
    scores, labels, w = scores[counted], labels[counted], weights[counted].astype(np.float64)
    total = float(w.sum())
    if not len(w):
        return Quality(0, weight=0.0)
    z, y = scores.astype(np.float64), labels.astype(np.float64)
    mean_label = float(np.dot(w, y)) / total
    if loss == "squared_error":
        rmse, mean = math.sqrt(float(np.dot(w, (z - y) ** 2)) / total), float(np.dot(w, z)) / total
        return Quality(len(w), rmse=rmse, mean_label=mean_label, mean_prediction=mean, weight=total)
    small = np.exp(-np.abs(z))
    log_loss = float(np.dot(w, np.maximum(z, 0.0) + np.log1p(small) - y * z)) / total
    mean = float(np.dot(w, np.where(z >= 0, 1.0, small) / (1.0 + small))) / total
    area = auc(scores, labels, w)
    return Quality(len(w), area, log_loss, mean_label=mean_label, mean_prediction=mean, weight=total)


def auc(scores: Floats, labels: Floats, weights: NDArray[np.float64] | None = None) -> float | None:
    """Return the exact area under the ROC curve: the share of pairs in which the positive row has the higher score.

    A tie counts half (Mann and Whitney, 1947).

    Parameters
    ----------
    scores : float32 [rows]
        None is NaN.
    labels : float32 [rows]
        Positive above 0.
    weights : float64 [rows], optional
        Above 0. A pair counts as the product of its rows' weights.

    Returns
    -------
    float or None
        None if a class has no rows.
    """
    positive = labels > 0
    if weights is not None:
        return _weighted_auc(scores, positive, weights)
    above = int(np.count_nonzero(positive))
    below = len(labels) - above
    if above == 0 or below == 0:
        return None
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 becomes 0
    ascending = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    won = int(_pairs_won(np.sort(ascending.astype(np.uint64) << np.uint64(1) | positive)))
    return won / (2 * above * below)


def _weighted_auc(scores: Floats, positive: NDArray[np.bool_], weights: NDArray[np.float64]) -> float | None:
    _, place = np.unique(scores, return_inverse=True)
    place = place.reshape(-1)
    above = np.bincount(place, np.where(positive, weights, 0.0))  # by score, ascending
    below = np.bincount(place, np.where(positive, 0.0, weights))
    pairs = above.sum() * below.sum()
    return float(np.dot(above, np.cumsum(below) - below / 2) / pairs) if pairs else None


@compiled
def _pairs_won(ranked: NDArray[np.uint64]) -> Any:
    """Return twice the number of pairs in which the positive row is higher; each tie counts one.

    Parameters
    ----------
    ranked : uint64 [rows]
        Ascending: twice a row's score, as an integer in the order of the scores, and 1 if the row is positive.
    """
    won = losers = 0  # negative rows with lower scores
    first = 0
    while first < len(ranked):
        score = ranked[first] >> 1
        last, winners = first, 0
        while last < len(ranked) and ranked[last] >> 1 == score:
            winners += int(ranked[last] & 1)
            last += 1
        tied = last - first - winners
        won += winners * (2 * losers + tied)
        losers += tied
        first = last
    return won


class Scores:
    """Scores and labels of rows that follow each other, such as those of a window that has begun.

    Parameters
    ----------
    loss : {"log_loss", "squared_error"}
    """

    def __init__(self, loss: Loss):
        self.loss = loss
        self.rows = 0
        self._chunks: list[tuple[Floats, Floats, Floats | None]] = []

    def add(self, scores: Floats, labels: Floats, weights: Floats | None = None) -> None:
        """Add the scores of the next rows; either all rows have weights or none has.

        Raises
        ------
        DivergedError
            A score is not finite.
        """
        if not np.isfinite(scores).all():
            raise DivergedError(
                f"a model's score became {scores[~np.isfinite(scores)][0]}: the training diverges; "
                "lower the learning rate, or scale the values of the data"
            )
        weights = None if weights is None else np.array(weights, np.float32)
        self._chunks.append((np.array(scores, np.float32), np.array(labels, np.float32), weights))
        self.rows += len(scores)

    def arrays(self) -> tuple[Floats, Floats, Floats | None]:
        """Return scores, labels, and weights if there are any: float32 [rows] each."""
        if not self._chunks:
            return np.zeros(0, np.float32), np.zeros(0, np.float32), None
        scores, labels = (np.concatenate([chunk[each] for chunk in self._chunks]) for each in (0, 1))
        given = [weights for *_, weights in self._chunks if weights is not None]
        self._chunks = [(scores, labels, np.concatenate(given) if given else None)]
        return self._chunks[0]

    def quality(self) -> Quality:
        """Return how good the scores are."""
        scores, labels, weights = self.arrays()
        return measure(scores, labels, self.loss, weights)

    def clear(self) -> None:
        """Begin the next window."""
        self._chunks, self.rows = [], 0


def fields(window: Window) -> dict[str, Any]:
    """Return the window as one flat dictionary: a line of the log."""
    own = {name: value for name, value in vars(window).items() if name != "quality"}
    return {**own, **quality_fields(window.quality)}


def describe(window: Window) -> str:
    """Return a window as one line for people."""
    quality = window.quality
    words = [f"epoch {window.epoch + 1}, {window.rows_done:,} rows"]
    for name, value in (("AUC", quality.auc), ("log loss", quality.log_loss), ("RMSE", quality.rmse)):
        words += [] if value is None else [f"{name} {value:.4f}"]
    words += [] if quality.calibration is None else [f"calibration {quality.calibration:.3f}"]
    words += [f"{window.rows_per_second:,.0f} rows/s", f"waiting {window.waiting:.1%}", f"{window.table_rows:,} keys"]
    return ", ".join(words)


def quality_fields(quality: Quality) -> dict[str, Any]:
    """Return the quality as a dictionary, with the calibration, and with the weight if rows have weights."""
    known = {name: value for name, value in vars(quality).items() if name != "weight" or value is not None}
    return {**known, "calibration": quality.calibration}


def pooled(windows: Sequence[Quality]) -> Quality:
    """Return the quality of several windows as one: means weighted by rows, or by the rows' weights.

    Pairs of rows in different windows are not compared: the AUC is the mean of those windows that have one.
    """

    def mean(name: str, power: int = 1) -> float | None:
        known = [(each.counted, getattr(each, name)) for each in windows if getattr(each, name) is not None]
        rows = sum(count for count, _ in known)
        return float(sum(count * value**power for count, value in known) / rows) ** (1 / power) if rows else None

    rows = sum(each.rows for each in windows)
    weight = None if all(each.weight is None for each in windows) else sum(each.counted for each in windows)
    mean_label, mean_prediction = mean("mean_label"), mean("mean_prediction")
    return Quality(rows, mean("auc"), mean("log_loss"), mean("rmse", 2), mean_label, mean_prediction, weight)
