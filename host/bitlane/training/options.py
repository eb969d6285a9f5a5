"""Options of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bitlane.contract.layout import MAX_EPOCHS, MAX_ROWS
from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.levels.codebooks import CHOICES
from bitlane.quantization.stochastic import check_gradient_bits, model_cut, uses_random_rounding
from bitlane.support.scalars import as_boolean, as_integer, as_number

from .objective import ClassWeights, Objective

EQUAL_WEIGHTS: ClassWeights = (1.0, 1.0)
AUTO = "auto"
DECAY = 0.8  # of the learning rate after each of 20 epochs: it ends at about a hundredth
FEW_BITS = 8  # below which more bits may help
DECAY_EPOCHS = 20
STEPS = 30_000  # batches of a training with derived epochs: for small tables fewer, for large ones 20 epochs of them
MOST_EPOCHS = 200


def derived_decay(epochs: int) -> float:
    """Return the factor on the learning rate after each epoch, so that any number of epochs ends at a like rate.

    Up to 20 epochs have a factor of 0.8; more epochs share out the fall of 20.

    Raises
    ------
    DataError
        `epochs` is not a number of epochs.
    """
    return float(max(DECAY, DECAY ** (DECAY_EPOCHS / as_integer("epochs", epochs, 1, MAX_EPOCHS))))


def derived_epochs(rows: int, batch_size: int) -> int:
    """Return how many epochs a table needs: as many as have 30,000 batches, but 20 at least and 200 at most."""
    return min(max(DECAY_EPOCHS, -(-STEPS // -(-rows // batch_size))), MOST_EPOCHS)


@dataclass(frozen=True)
class TrainingOptions:
    """What a training does, as far as its bits depend on it.

    Parameters
    ----------
    precision : Precision, default=Precision()
        How samples are stored.
    objective : Objective, default=Objective()
        What is minimised.
    levels : {"uniform", "optimal"}, default="uniform"
        Values that samples are rounded to; see `bitlane.levels.codebooks.fit_codebook`.
    draws : int or {"epoch", "once"}, default=8
        Draw sets that the epochs read in turn: a number, a new one for each epoch, or one. Set k is the set
        ``k mod 16`` of its group (`bitlane.contract.draws.DrawSet`); ``SeedSequence(seed, spawn_key=(k // 16,))`` seeds
        the group. The first 4, 8 and 16 sets are stratified completely. Nearest and full precision draw nothing.
    epochs : int, default=20
        Passes over the data, those of a resumed training included.
    batch_size : int, default=16
        Rows of a mini-batch. A last batch with fewer rows steps by its share of a batch.
    learning_rate : float or "auto", default="auto"
        Step along the mean gradient of a batch, in scaled units; below ``8 * batch_size``. "auto": computed from the
        data and the decay, see `bitlane.training.learning_rate.with_learning_rate`.
    decay : float, default=0.8
        Factor on the learning rate after each epoch, 0.5 to 1; see `derived_decay`.
    staleness : {0, 1}, default=0
        How many batches old the weights are that a batch reads.
    model_bits, gradient_bits : int, optional
        Random rounding of weights and gradients (ZipML, eq. 2); see `bitlane.quantization.stochastic`.
    class_weight : pair of floats, or a pair for each target, default=(1, 1)
        Factors on the gradients of rows with a negative label, and of the others.
    fit_intercept : bool, default=True
        Whether to fit an intercept. Columns are centred then. With squared errors and equal class weights labels are
        centred too. If all centers are means, the intercept follows; otherwise, and with other losses, it is the weight
        of a feature with a constant value, which neither penalty nor bounds change.
    shuffle : bool, default=False
        Whether to put the rows in random order first, drawn from ``SeedSequence(seed, spawn_key=(2**32,))``.
    seed : int, default=0
        Seed of order, draws and random rounding, 0 or more.
    shards : int, default=1
        Parts of the rows that are trained side by side and averaged; see `bitlane.training.several`.
    average_every : int, default=1
        Epochs after which the models of the shards are averaged; unused with one shard.
    clip : {"auto", None}, default="auto"
        Whether columns with outliers are clipped; see `bitlane.quantization.columns`.

    Raises
    ------
    DataError
        A value that cannot be used.
    """

    precision: Precision = field(default_factory=Precision)
    objective: Objective = field(default_factory=Objective)
    levels: str = "uniform"
    draws: str | int = 8
    epochs: int = 20
    batch_size: int = 16
    learning_rate: float | str = AUTO
    decay: float = DECAY
    staleness: int = 0
    model_bits: int | None = None
    gradient_bits: int | None = None
    class_weight: tuple[ClassWeights, ...] = (EQUAL_WEIGHTS,)
    fit_intercept: bool = True
    shuffle: bool = False
    seed: int = 0
    shards: int = 1
    average_every: int = 1
    clip: str | None = "auto"

    def __post_init__(self) -> None:
        if self.levels not in CHOICES:
            raise DataError(f"levels={self.levels!r} is unknown: choose one of {', '.join(CHOICES)}")
        if self.clip not in ("auto", None):
            raise DataError(f"clip={self.clip!r}: choose 'auto' or None")
        if isinstance(self.draws, str):
            if self.draws not in ("once", "epoch"):
                raise DataError(f"draws={self.draws!r}: choose 'once', 'epoch' or a number of sets")
        else:
            as_integer("draws", self.draws, 1, MAX_EPOCHS)
        model_cut(self.model_bits)
        check_gradient_bits(self.gradient_bits)
        exact = {  # Python's own types, for JSON
            "epochs": as_integer("epochs", self.epochs, 1, MAX_EPOCHS),
            "batch_size": as_integer("batch_size", self.batch_size, 1, MAX_ROWS),
            "learning_rate": self._rate(),
            "decay": as_number("decay", self.decay),
            "class_weight": _pairs(self.class_weight),
            "fit_intercept": as_boolean("fit_intercept", self.fit_intercept),
            "shuffle": as_boolean("shuffle", self.shuffle),
            "seed": as_integer("seed", self.seed, 0),
            "shards": as_integer("shards", self.shards, 1, MAX_ROWS),
            "average_every": as_integer("average_every", self.average_every, 1, MAX_EPOCHS),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)

    def _rate(self) -> float | str:
        if isinstance(self.learning_rate, str):
            if self.learning_rate != AUTO:
                raise DataError(f"learning_rate={self.learning_rate!r}: choose a number or 'auto'")
            return AUTO
        return as_number("learning_rate", self.learning_rate)

    @property
    def draw_sets(self) -> int:
        """Draw sets that are made: one if nothing is random, and none that no epoch reads."""
        if self.precision.sampling not in ("double", "naive"):
            return 1
        sets = {"once": 1, "epoch": self.epochs}[self.draws] if isinstance(self.draws, str) else int(self.draws)
        return min(sets, self.epochs)

    @property
    def random_rounding(self) -> bool:
        """Whether weights or gradients are rounded at random."""
        return uses_random_rounding(self.model_bits, self.gradient_bits)

    def ends_round(self, epoch: int) -> bool:
        """Return whether shards are averaged after this many epochs; a training without shards always has one model."""
        return self.shards == 1 or epoch % self.average_every == 0

    def class_weight_of(self, target: int) -> ClassWeights:
        """Return the class weights of a target."""
        return self.class_weight[target if len(self.class_weight) > 1 else 0]

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name, those of precision and objective among them, as JSON can hold them."""
        precision, objective = self.precision, self.objective
        flat = {
            "bits": precision.bits,
            "sampling": precision.sampling,
            "loss": objective.loss,
            "penalty": objective.penalty,
            "alpha": objective.alpha,
            "bounds": objective.bounds,
            "l1_ratio": objective.l1_ratio,
            "epsilon": objective.epsilon,
        }
        return flat | {name: getattr(self, name) for name in _OWN} | {"codebook": precision.codebook}

    @classmethod
    def from_dict(cls, flat: dict[str, Any]) -> TrainingOptions:
        """Return the options that `as_dict` gave, also after a way through JSON; KeyError, TypeError for others."""
        rest = dict(flat)
        precision = Precision(rest.pop("bits"), rest.pop("sampling"), rest.pop("codebook"))
        bounds = rest.pop("bounds")
        later = {name: rest.pop(name) for name in ("l1_ratio", "epsilon") if name in rest}  # newer options
        objective = Objective(
            rest.pop("loss"), rest.pop("penalty"), rest.pop("alpha"), None if bounds is None else tuple(bounds), **later
        )
        return cls(precision, objective, **rest)


_OWN = tuple(name for name in TrainingOptions.__dataclass_fields__ if name not in ("precision", "objective"))


def _pairs(class_weight: Any) -> tuple[ClassWeights, ...]:
    """One pair of class weights, or one for each target, as a tuple of pairs; DataError for a negative one."""
    try:
        weights = np.array(class_weight, np.float64)
    except (TypeError, ValueError):
        weights = np.array(math.nan)
    if weights.shape == (2,):
        weights = weights[None]
    if weights.ndim != 2 or weights.shape[1] != 2 or not (np.isfinite(weights) & (weights >= 0)).all():
        raise DataError(f"class_weight={class_weight!r}: must be two numbers of at least 0, or two for each target")
    return tuple((float(low), float(high)) for low, high in weights)
