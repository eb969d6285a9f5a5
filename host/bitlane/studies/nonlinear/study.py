"""Every method on the same rows, in the same order, with the same steps: what it ends with, and what it moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.contract.formats import LABEL
from bitlane.contract.precision import FULL_BITS
from bitlane.errors import DataError
from bitlane.evaluation.metrics import accuracies_of, losses_of
from bitlane.evaluation.schedules import Schedule
from bitlane.quantization.scaling import Floats

from .methods import FULL, Kind, Method, Plain, methods
from .tasks import Task
from .training import gradient_errors, train

FEWEST = 4  # stored bits


@dataclass(frozen=True)
class MethodResult:
    """What a method was worth.

    name, bits, kind: the method's. bytes: moved an epoch: stored samples, 16 bits for each label, and fetched rows at
    32 bits a feature. losses: float64 [seeds], mean on the unquantized rows that were trained on, after the last
    epoch; inf where training diverged. accuracy: share of the held-out rows that are classified right, mean over seeds.
    refetched: share of rows. bias, noise: `gradient_errors` at the model that full precision ended with.
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
        """Mean over seeds."""
        return float(self.losses.mean())


def study(
    task: Task,
    schedule: Schedule,
    bits: Sequence[int] = (4, 8, 12),
    seeds: Sequence[int] = (0, 1, 2),
    on_training: Callable[[str], None] | None = None,
) -> list[MethodResult]:
    """An outcome of full precision, and then one of every method at each number of stored bits.

    schedule: loss ("hinge" or "log_loss"), epochs, batch_size, learning_rate and decay of all. bits: even, 4 to 30.
    seeds: of order and draws, a training for each. on_training: called before each with what it is.
    DataError for other bits or losses, and without seeds.
    """
    loss = schedule.loss
    if loss not in ("hinge", "log_loss"):
        raise DataError(f"loss={loss!r}: choose 'hinge' or 'log_loss'; with squared errors double sampling has no bias")
    few = [stored for stored in bits if not FEWEST <= stored < FULL_BITS]
    if few:
        raise DataError(f"bits={few[0]}: choose even numbers from {FEWEST} to {FULL_BITS - 2}")
    if not len(seeds):
        raise DataError("no seeds: give one for each training of a method")
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
    method: Method, task: Task, loss: str, models: Floats, refetched: float, bias: float, noise: float
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
    """Bytes an epoch: stored samples, labels, and the share of rows that is fetched at full precision on top."""
    return rows * (features * (bits + refetched * FULL_BITS) + LABEL.bits) / 8
