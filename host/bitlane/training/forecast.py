"""What is known of a training before it starts: its loss after each epoch, and the cycles of an epoch, at any bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bitlane.contract.cycles import predict
from bitlane.contract.precision import Precision
from bitlane.driver.driver import Driver
from bitlane.errors import DataError
from bitlane.quantization.scaling import Matrix

from .checkpoint import Checkpoint
from .learning_rate import draw_variance
from .moments import EpochSteps, Spread, TableMoments
from .options import EQUAL_WEIGHTS, TrainingOptions
from .train import geometry_of

MOST_FEATURES = 4_096  # the time of a forecast grows with their cube
ROWS_OF_FEATURE = 16  # looked at, at least: fewer would fit themselves
PRODUCTS = 4_000_000_000  # of two features, looked at where there are rows enough: about a second


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is known of a training before it starts.

    Attributes
    ----------
    moments : TableMoments
    rates : mapping of int to float
        Learning rate of the first epoch, by bits; that of 32 bits among them.
    cycles : mapping of int to int
        Clock cycles of an epoch, by bits.
    start_cycles : int
        Clock cycles that a change of bits adds: the accelerator is started again.
    decay : float
        Factor on the learning rate after each epoch.
    batch_size, epochs : int
    draw_sets : int
        Epoch e reads the draws of set ``e mod draw_sets``.
    """

    moments: TableMoments
    rates: Mapping[int, float]
    cycles: Mapping[int, int]
    start_cycles: int
    decay: float
    batch_size: int
    epochs: int
    draw_sets: int

    def after(self, spread: Spread, bits: int, first: int, count: int = 1) -> Spread:
        """Return where the training stands after the epochs from number `first`, at most `count` of them."""
        repeats = {
            "earlier_rate": self.decay**-self.draw_sets,
            "rates_since": sum(self.decay**-back for back in range(1, self.draw_sets + 1)),
        }
        for epoch in range(first, min(first + count, self.epochs)):
            rate = self.rates[bits] * self.decay**epoch
            again = repeats if epoch >= self.draw_sets else {}
            spread = self.moments.after_epoch(spread, EpochSteps(bits, rate, self.batch_size, epoch == 0, **again))
        return spread

    def losses(self, bits: int) -> list[float]:
        """Return the loss after each epoch with the same bits in all."""
        spread, losses = self.moments.start(), []
        for epoch in range(self.epochs):
            spread = self.after(spread, bits, epoch)
            losses.append(self.moments.loss(spread))
        return losses

    @classmethod
    def of(
        cls,
        X: Matrix,
        targets: Matrix,
        checkpoint: Checkpoint,
        precisions: Mapping[int, Precision],
        rates: Mapping[int, float],
        driver: Driver,
    ) -> Forecast:
        """Return the forecast of a training.

        Parameters
        ----------
        X : array [rows, n]
            Evenly chosen rows are looked at: all, or 16 for each stored feature, or more if that takes about a second.
        targets : array [rows, targets]
        checkpoint : Checkpoint
            The state before the first epoch.
        precisions : mapping of int to Precision
            How samples are stored, by bits.
        rates : mapping of int to float
            As in the attributes.
        driver : Driver
            The device that will train.

        Raises
        ------
        DataError
            The loss is not that of squared errors, classes have weights, or there are too many features.
        """
        options, features = checkpoint.options, checkpoint.scaling.stored_features
        _check(options, features)
        looked = max(ROWS_OF_FEATURE * features, PRODUCTS // features**2)
        some = slice(None, None, -(-len(X) // looked))
        scaling = checkpoint.scaling
        values = scaling.values(X[some])
        labels = (np.asarray(targets[some], np.float64) - scaling.label_center) / scaling.label_scale
        variances = {bits: draw_variance(values, precision.base_bits) for bits, precision in precisions.items()}
        alpha = options.objective.strengths[1]
        cycles = {}
        for bits, precision in precisions.items():
            geometry = geometry_of(replace(checkpoint, options=replace(options, precision=precision)), len(X), driver)
            run = predict(geometry, 2, False, options.staleness)
            cycles[bits] = int(run.epoch_cycles[1] - run.epoch_cycles[0])
        return cls(
            moments=TableMoments(values, labels, variances, len(X), alpha),
            rates=rates,
            cycles=cycles,
            start_cycles=run.cycles - 2 * cycles[bits],
            decay=options.decay,
            batch_size=options.batch_size,
            epochs=options.epochs,
            draw_sets=options.draw_sets,
        )


def _check(options: TrainingOptions, features: int) -> None:
    """Raise DataError for a training that cannot be forecast."""
    if options.objective.loss != "squared_error":
        raise DataError(
            f"bits='adaptive' needs loss='squared_error', not {options.objective.loss!r}: set a number of bits"
        )
    if any(pair != EQUAL_WEIGHTS for pair in options.class_weight):
        raise DataError("bits='adaptive' does not support class weights: set a number of bits, or omit class_weight")
    if features > MOST_FEATURES:
        raise DataError(f"bits='adaptive' supports {MOST_FEATURES:,} features, not {features:,}: set a number of bits")
