"""The end of a training at a plateau: its loss, or a score of rows that it does not read, no longer improves.

The epochs are trained some at a time, with the weights after each, so the result is that of the epoch that ended the
training, bit for bit. With the automatic decay the learning rate stays as it is while the training improves. Then it
falls as it does in 20 epochs, since noise of batches and draws can hide a loss that a lower rate would still lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bitlane.contract.formats import DECAY_FRACTION
from bitlane.quantization.scaling import Floats
from bitlane.support.sklearn_compat import ConvergenceWarning
from bitlane.support.user_warnings import warn_user

from .checkpoint import Checkpoint
from .options import DECAY, DECAY_EPOCHS
from .result import OnEpoch, TrainingResult, joined

SEGMENT = 8  # epochs trained before their losses are looked at: each reads another one of the usual draw sets

Train = Callable[[Checkpoint | None, int], TrainingResult]


@dataclass
class Plateau:
    """Whether values have stopped falling.

    Parameters
    ----------
    tol : float
        A value that is not below the least one by more than this is no improvement.
    patience : int
        Values without improvement, one after the other, after which `reached` is true.
    """

    tol: float
    patience: int
    least: float = math.inf
    stagnant: int = 0

    def reached(self, value: float) -> bool:
        """Return whether the values, this one among them, have stopped falling."""
        self.stagnant = 0 if value < self.least - self.tol else self.stagnant + 1
        self.least = min(self.least, value)
        return self.stagnant >= self.patience


@dataclass
class PlateauEnding:
    """Epochs up to a plateau, and those in which the learning rate then falls.

    Parameters
    ----------
    plateau : Plateau
        Of the values of the epochs.
    criterion : callable
        Called with a `TrainingResult` that has snapshots; returns a value for each of its epochs, float64 [epochs],
        which falls as the model improves.
    cools : bool
        Whether the learning rate stays as it is up to the plateau and then falls. Otherwise it has the decay of the
        options throughout, and the plateau ends the training.

    Attributes
    ----------
    history : list of float
        The values of the epochs of the result.
    """

    plateau: Plateau
    criterion: Callable[[TrainingResult], Floats]
    cools: bool
    history: list[float] = field(default_factory=list)

    def train(self, train: Train, epochs: int, on_epoch: OnEpoch | None = None) -> TrainingResult:
        """Train up to the plateau, and through the epochs in which the learning rate falls.

        Warn if there is no plateau. Then the last epochs, half of them at most, are those in which the rate falls.

        Parameters
        ----------
        train : callable
            Called as ``train(start, until)``: trains from a checkpoint, None for the first epoch, up to epoch `until`,
            and returns a result with snapshots.
        epochs : int
            Most epochs.
        on_epoch : callable, optional
            Called as ``on_epoch(epoch, loss)`` for each epoch of the result.

        Returns
        -------
        TrainingResult
            It counts the cycles of all epochs that ran, the few after a plateau among them.
        """
        cooling = min(DECAY_EPOCHS, epochs // 2) if self.cools else 0
        runs: list[TrainingResult] = []
        state, plateau = None, None
        while plateau is None and (ended := runs[-1].checkpoint().epoch if runs else 0) < epochs - cooling:
            # The first epoch ends with the decay that its start has; the rate is held from there on.
            until = min(ended + (1 if self.cools and not runs else SEGMENT), epochs - cooling)
            run = train(state, until)
            values = self.criterion(run)
            for epoch, value in enumerate(values, run.first_epoch + 1):
                if plateau is None and self.plateau.reached(float(value)):
                    run, plateau = run.ended_at(epoch), epoch
            self._report(run, values, on_epoch)
            runs.append(run)
            state = _with_decay(run.checkpoint(), 1.0) if self.cools else run.checkpoint()
        if plateau is None:
            warn_user(
                f"the training still improved by more than tol={self.plateau.tol:g} when its {epochs} epochs ended: "
                "raise epochs or tol",
                ConvergenceWarning,
            )
        if cooling:
            assert state is not None
            run = train(_with_decay(state, DECAY), state.epoch + cooling)
            self._report(run, self.criterion(run), on_epoch)
            runs.append(run)
        run = replace(joined(runs), plateau=plateau)
        return run.with_decay(DECAY) if cooling else run

    def _report(self, run: TrainingResult, values: Floats, on_epoch: OnEpoch | None) -> None:
        self.history += values[: len(run.loss)].tolist()
        if on_epoch is not None:
            for epoch, loss in enumerate(run.mean_losses, run.first_epoch):
                on_epoch(epoch, loss)


def _with_decay(state: Checkpoint, decay: float) -> Checkpoint:
    """Return the state with another factor on the steps after each epoch; the options keep theirs."""
    register = round(decay * 2**DECAY_FRACTION)
    return replace(state, settings=tuple(replace(each, decay=register) for each in state.settings))
