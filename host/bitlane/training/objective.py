"""The objective of a training, in the terms of the user, and as register values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import (
    BOUND,
    DECAY_FRACTION,
    DECAY_RANGE,
    PENALTY_STEP_FRACTION,
    RESIDUAL,
    SHRINK_SHIFT,
    STEP_FRACTION,
    WEIGHT,
)
from bitlane.contract.further import FurtherLoss
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.settings import Settings
from bitlane.errors import DataError
from bitlane.support.scalars import as_number

from .losses import EPSILON_LOSSES, FURTHER_LOSSES, LOSS_CHOICES, LOSSES, MARGIN_LOSSES, loss_factor

LEAST_SHARE = 2.0**-24  # of a part of elastic net: registers of penalties have 16 significant bits
PENALTIES = (None, "l2", "l1", "elasticnet")

Bounds = tuple[float | None, float | None]
ClassWeights = tuple[float, float]  # of rows whose label is negative, and of the others


@dataclass(frozen=True)
class Objective:
    """`mean(loss) + alpha * R(w)` with w within `bounds`, on scaled weights, residuals and margins.

    Only devices in software have elastic net and losses other than the first three.

    Parameters
    ----------
    loss : str, default="squared_error"
        "squared_error", ``1/2 residual**2``; "hinge", ``max(0, 1 - margin)``; "log_loss", ``log(1 + exp(-margin))``;
        "squared_hinge", ``max(0, 1 - margin)**2``; "modified_huber", the same up to ``margin = -1``, then
        ``-4 margin``; with e for epsilon, "huber", ``1/2 residual**2`` up to ``|residual| = e``, then
        ``e |residual| - 1/2 e**2``; "epsilon_insensitive", ``max(0, |residual| - e)``; "squared_epsilon_insensitive",
        its square.
    penalty : {None, "l2", "l1", "elasticnet"}, default=None
        "l2", ``R(w) = 1/2 |w|**2``; "l1", ``R(w) = |w|_1``; "elasticnet", both in shares of ``1 - l1_ratio`` and
        ``l1_ratio``.
    alpha : float, default=0.0
        Strength of the penalty, 0 or more. Not used without a penalty.
    bounds : tuple of two floats or None, optional
        Low and high bound of every weight except a stored intercept, within [-8, 8); None or infinite for no bound.
        They are rounded inwards to multiples of 2**-12, and exclude a penalty.
    l1_ratio : float, default=0.15
        Share of the L1 part of elastic net, 0 to 1. Not used with other penalties.
    epsilon : float, default=0.1
        Epsilon of a loss, in units of the labels, 0 or more, of huber above 0. Not used with other losses.

    Raises
    ------
    DataError
        A value is illegal.
    """

    loss: str = "squared_error"
    penalty: str | None = None
    alpha: float = 0.0
    bounds: Bounds | None = None
    l1_ratio: float = 0.15
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if self.loss not in LOSS_CHOICES:
            raise DataError(f"loss={self.loss!r}: choose {_either(LOSS_CHOICES)}")
        if self.loss in EPSILON_LOSSES:
            least = 5e-324 if self.loss == "huber" else 0.0
            if as_number("epsilon", self.epsilon) < least:
                needed = "a number above 0" if least else "0 or more"
                raise DataError(f"epsilon={self.epsilon}: loss={self.loss!r} needs {needed}")
        if self.penalty not in PENALTIES:
            raise DataError(f"penalty={self.penalty!r}: choose {_either(PENALTIES)}")
        if self.penalty and as_number("alpha", self.alpha) < 0:
            raise DataError(f"alpha={self.alpha}: it must be a finite number, 0 or more")
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise DataError("l1_ratio must be set when penalty is 'elasticnet': choose a number from 0 to 1")
        if self.penalty == "elasticnet" and not 0 <= as_number("l1_ratio", self.l1_ratio) <= 1:
            raise DataError(f"l1_ratio={self.l1_ratio}: choose a number from 0 to 1")
        if self.bounds is not None and self.penalty:
            raise DataError(f"bounds={self.bounds!r} cannot be combined with a penalty: set one of them to None")
        _box(self.bounds)

    @property
    def margins(self) -> bool:
        """Whether the labels are signs, so that a prediction is compared with 0 instead of the label."""
        return self.loss in MARGIN_LOSSES

    @property
    def more_objectives(self) -> bool:
        """Whether only devices in software have this loss, or this penalty."""
        return self.loss in FURTHER_LOSSES or (self.penalty == "elasticnet" and self.strengths[0] > 0)

    @property
    def strength(self) -> float:
        """alpha, or 0 without a penalty."""
        return self.alpha if self.penalty else 0.0

    @property
    def strengths(self) -> tuple[float, float]:
        """The parts of the strength that are those of ``|w|_1`` and of ``1/2 |w|**2``; a tiny one is 0."""
        share = {"l1": 1.0, "elasticnet": self.l1_ratio}.get(self.penalty or "", 0.0)
        threshold, shrink = (0.0 if part < LEAST_SHARE else part for part in (share, 1.0 - share))
        return threshold * self.strength, shrink * self.strength

    @property
    def takes_ridge(self) -> bool:
        """Whether the device can add a ridge: its one proximal operator is free, or has a part that shrinks weights."""
        return _box(self.bounds) is None and (self.penalty != "l1" or not self.strength)

    def with_ridge(self, ridge: float) -> Objective:
        """Return this objective with a ridge of this strength more; itself for a ridge of 0, or if it takes none."""
        if not ridge or not self.takes_ridge:
            return self
        total, threshold = self.strength + ridge, self.strengths[0]
        if threshold:
            return replace(self, penalty="elasticnet", alpha=total, l1_ratio=threshold / total)
        return replace(self, penalty="l2", alpha=total, bounds=None)

    @property
    def largest_rate(self) -> float:
        """The learning rate from which on the device cannot take the steps of the penalty; infinite without one."""
        parts = zip((Prox.L1, Prox.L2), self.strengths, strict=True)
        return min((_largest_change(prox) / strength for prox, strength in parts if strength), default=math.inf)

    def settings(
        self,
        learning_rate: float,
        batch: int,
        decay: float,
        staleness: int = 0,
        class_weight: ClassWeights = (1.0, 1.0),
        free: bool = False,
        weight_exponent: int = 0,
        label_unit: float = 1.0,
    ) -> Settings:
        """Return the registers at the start of a run.

        Parameters
        ----------
        learning_rate : float
            Factor on the mean gradient of a batch.
        batch : int
            Rows of a mini-batch.
        decay : float
            Factor on the learning rate after each epoch.
        staleness : int, default=0
            How many batches old the weights may be, 0 or 1.
        class_weight : tuple of two floats, default=(1.0, 1.0)
            Factors on the gradients of rows with negative labels, and of the other rows.
        free : bool, default=False
            Whether the last feature is an intercept, which penalty and bounds do not change.
        weight_exponent : int, default=0
            Stored weights count ``2**weight_exponent`` times.
        label_unit : float, default=1.0
            Units of the labels of a residual of 1.0; 0 if all labels are equal.

        Raises
        ------
        DataError
            A value does not fit its register.
        """
        least, most = (limit * 2.0**-DECAY_FRACTION for limit in DECAY_RANGE)
        if not least <= decay <= most:
            raise DataError(f"decay={decay}: the hardware supports {least:g} to {most:g}")
        if isinstance(staleness, bool) or staleness not in (0, 1):
            raise DataError(f"staleness={staleness!r}: choose 0 or 1")
        step = math.ldexp(loss_factor(self.loss) * learning_rate / batch, -weight_exponent)
        if not step > 0:
            raise DataError(f"learning_rate / batch_size is {step:g}: it must be above 0")
        name = "learning_rate / batch_size" + (", times a class weight," if class_weight != (1, 1) else "")
        negative, positive = (encode_float(step * weight, STEP_FRACTION, name) for weight in class_weight)
        box = _box(self.bounds, weight_exponent)
        threshold, shrink = self.strengths
        prox = Prox.BOX if box else Prox.L1 if threshold else Prox.L2 if shrink else Prox.NONE
        return Settings(
            step=positive,
            step_negative=negative,
            penalty_step=self._rate(prox, (threshold or shrink) * learning_rate, weight_exponent),
            decay=round(decay * 2**DECAY_FRACTION),
            loss=LOSSES.get(self.loss, Loss.SQUARES),
            prox=prox,
            bounds=box or (BOUND.minimum, BOUND.maximum),
            unpenalized_intercept=free,
            staleness=int(staleness),
            weight_exponent=weight_exponent,
            further_loss=FURTHER_LOSSES.get(self.loss, FurtherLoss.NONE),
            epsilon=self._epsilon_register(label_unit) if self.loss in EPSILON_LOSSES else 0,
            shrink_step=self._rate(Prox.L2, shrink * learning_rate, weight_exponent) if threshold else 0,
        )

    def _epsilon_register(self, label_unit: float) -> int:
        """The register epsilon, whose largest value is beyond all residuals."""
        most = RESIDUAL.maximum
        ratio = self.epsilon / label_unit if label_unit else math.inf
        register = min(most, round(math.ldexp(min(ratio, 8.0), RESIDUAL.fraction)))
        if self.loss == "huber" and not register:
            least = math.ldexp(label_unit, -RESIDUAL.fraction)
            raise DataError(f"epsilon={self.epsilon:g}: for the range of these labels it must be at least {least:.2g}")
        return register

    @staticmethod
    def _rate(prox: Prox, change: float, weight_exponent: int) -> int:
        """The register penalty_step; `change` is the share of a weight (L2), or the threshold (L1), of a batch."""
        shrink = _largest_change(prox)
        if not change / shrink < 1 - 2.0 ** -(PENALTY_STEP_FRACTION + 1):  # as the register rounds it
            what = "shrinks weights by a share" if prox == Prox.L2 else "takes a threshold off weights"
            raise DataError(
                f"alpha * learning_rate is {change:g}: the hardware {what} below {shrink:g} a batch: "
                "lower alpha or learning_rate"
            )
        if prox == Prox.L1:
            change = math.ldexp(change, -weight_exponent)
        return encode_float(change / shrink, PENALTY_STEP_FRACTION, "alpha * learning_rate")


def _largest_change(prox: Prox) -> float:
    return 2.0**-SHRINK_SHIFT if prox == Prox.L2 else 1.0


def _box(bounds: Bounds | None, weight_exponent: int = 0) -> tuple[int, int] | None:
    """The two integers of the bounds register; None without bounds."""
    if bounds is None:
        return None
    try:
        low, high = (float(end) for end in _ends(*bounds))
    except (TypeError, ValueError):
        raise DataError(f"bounds={bounds!r}: must be None or two numbers, low and high") from None
    reach = -float(WEIGHT.minimum) * 2.0**-WEIGHT.fraction
    if not (low == -math.inf or -reach <= low < reach) or not (high == math.inf or -reach <= high < reach):
        raise DataError(f"bounds={bounds!r}: each end must be in [-{reach:g}, {reach:g}), or None")
    if (low, high) == (-math.inf, math.inf):
        return None
    unit = 2.0 ** (BOUND.fraction - weight_exponent)
    box = (
        BOUND.minimum if low == -math.inf else math.ceil(low * unit),
        BOUND.maximum if high == math.inf else math.floor(high * unit),
    )
    if box[0] > box[1]:
        raise DataError(f"bounds={bounds!r}: there is no multiple of 2**-{BOUND.fraction} between them")
    return box


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


def _either(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names)
