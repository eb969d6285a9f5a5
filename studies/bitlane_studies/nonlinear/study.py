"""Train every method on the same rows in the same order with the same steps; record the losses and bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.contract.formats import LABEL
from bitlane.contract.precision import FULL_BITS
from bitlane.errors import DataError
from bitlane.evaluation.metrics import accuracies_of, losses_of
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.scaling import Floats

from .methods import FULL, Kind, Method, Plain, methods
from .tasks import ClassificationTask
from .training import gradient_errors, train

FEWEST = 4  # minimum of stored bits


@dataclass(frozen=True)
class MethodResult:
    """Results of a method, over all seeds.

    Attributes
    ----------
    name, bits, kind
        Attributes of the method.
    bytes : float
        Bytes per epoch: stored samples, 16 bits per label, and fetched rows at 32 bits per feature.
    losses : float64 array of shape (seeds,)
        Mean loss on the unquantized training rows after the last epoch; inf if the training diverged.
    accuracy : float
        Share of the held-out rows that the model classifies correctly, mean over seeds.
    refetched : float
        Share of rows that were fetched at full precision.
    bias, noise : float
        `gradient_errors` at the final model of full precision.
    """

    name: str
    bits: int
    kind: Kind
    bytes: float
    losses: Floats
    accuracy: float
    refetched: float
    bias: float
    noise: float

    @property
    def loss(self) -> float:
        """Mean loss over the seeds."""
        return float(self.losses.mean())


def study(
    task: ClassificationTask,
    schedule: TrainingSchedule,
    bits: Sequence[int] = (4, 8, 12),
    seeds: Sequence[int] = (0, 1, 2),
    on_training: Callable[[str], None] | None = None,
) -> list[MethodResult]:
    """Train at full precision and with every method at each number of stored bits.

    Parameters
    ----------
    task : ClassificationTask
    schedule : TrainingSchedule
        Loss ("hinge" or "log_loss"), epochs, batch size, learning rate and decay of all trainings.
    bits : sequence of int
        Stored bits per feature, even numbers from 4 to 30.
    seeds : sequence of int
        Seeds of row order and draws; each method trains once per seed.
    on_training : callable, optional
        Called before each training with its description.

    Returns
    -------
    list of MethodResult
        Full precision first.

    Raises
    ------
    DataError
        If the loss or a number of bits is not supported, or if there are no seeds.
    """
    loss = schedule.loss
    if loss not in ("hinge", "log_loss"):
        raise DataError(f"loss={loss!r}: choose 'hinge' or 'log_loss'; for squared errors double sampling is unbiased")
    few = [stored for stored in bits if not FEWEST <= stored < FULL_BITS]
    if few:
        raise DataError(f"bits={few[0]}: choose even numbers from {FEWEST} to {FULL_BITS - 2}")
    if not len(seeds):
        raise DataError("no seeds: give at least one")
    full = Plain(loss, FULL)
    outcomes: list[MethodResult] = []
    for method in [full, *(method for stored in bits for method in methods(loss, stored))]:
        trained = []
        for seed in seeds:
            if on_training is not None:
                on_training(f"{loss}: {method.name}, {method.bits} bits, seed {seed}")
            trained.append(train(method, task, schedule, seed))
        models, shares = np.array([model for model, _ in trained]), [share for _, share in trained]
        if method is full:
            reference = models[0]
        errors = gradient_errors(method, full, task, reference, np.random.default_rng((seeds[0], 2)))
        outcomes.append(_outcome(method, task, loss, models, float(np.mean(shares)), *errors))
    return outcomes


def _outcome(
    method: Method, task: ClassificationTask, loss: str, models: Floats, refetched: float, bias: float, noise: float
) -> MethodResult:
    coefficients, intercepts = models[:, :-1], models[:, -1]
    losses = losses_of(task.values[:, :-1], task.labels, coefficients, intercepts, loss)
    held_out, labels = task.held_out
    return MethodResult(
        name=method.name,
        bits=method.bits,
        kind=method.kind,
        bytes=moved(task.rows, task.features, method.bits, refetched),
        losses=np.where(np.isfinite(losses), losses, np.inf),
        accuracy=float(accuracies_of(held_out[:, :-1], labels, coefficients, intercepts).mean()),
        refetched=refetched,
        bias=bias,
        noise=noise,
    )


def moved(rows: int, features: int, bits: int, refetched: float) -> float:
    """Return the bytes per epoch: stored samples, labels and rows fetched at full precision.

    Parameters
    ----------
    rows, features : int
    bits : int
        Stored bits per feature.
    refetched : float
        Share of rows that are fetched.

    Returns
    -------
    float
    """
    return rows * (features * (bits + refetched * FULL_BITS) + LABEL.bits) / 8
