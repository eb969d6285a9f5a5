"""The arithmetic of the accelerator in integers: each weight bit, loss and saturation count equals the hardware's.

`docs/design.md`, "Arithmetic, exactly", defines the arithmetic, with the same names. It is fast because sums over
features and rows use `blocks`. It stays exact because one sum replaces the updates of several groups only for weights
that cannot saturate in any order of these updates. The other weights are updated group by group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import (
    PHASE_BITS,
    phase_rate,
    round_at_random,
    round_half_up,
    saturate,
    split_float,
)
from bitlane.contract.formats import (
    BOUND,
    LABEL,
    LEVEL_SCALED_GRADIENT,
    LOSS,
    MASTER,
    RESIDUAL,
    SCALED_GRADIENT,
    SHRINK_SHIFT,
    STEP_FRACTION,
    Fixed,
)
from bitlane.contract.further import FurtherLoss
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import CUT_BITS
from bitlane.contract.prng import after_batches, model_lanes, random_words, scaled_gradient_lanes
from bitlane.contract.settings import Settings
from bitlane.contract.sigmoid_lut import LUT, LUT_ADDRESS_BITS, sigmoid_lut
from bitlane.contract.state import ModelState

from .blocks import Change, CodebookBlock, DigitBlock, Floats, Int64s, RowBlock
from .further_losses import ONE, further_losses

BLOCK = 1 << 16  # digits stored as floats at a time
LOSS_SHIFT = 2 * RESIDUAL.fraction - LOSS.fraction
HALF_LOSS_SHIFT = LOSS.fraction - RESIDUAL.fraction - 1  # of each of the two copies' losses
STEP_SHIFT = RESIDUAL.fraction + STEP_FRACTION - SCALED_GRADIENT.fraction
LEVEL_COEFFICIENT_SHIFT = SCALED_GRADIENT.fraction - LEVEL_SCALED_GRADIENT.fraction
CELL_BITS = RESIDUAL.bits - 1 - LUT_ADDRESS_BITS  # of a dot product, inside a cell of the logistic table
TABLE_SHIFT = RESIDUAL.fraction - LUT.fraction
BOUND_SHIFT = MASTER.fraction - BOUND.fraction
THRESHOLD_SHIFT = PHASE_BITS - MASTER.fraction

Bools = NDArray[np.bool_]
Rows = tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger] | None, NDArray[np.int16]]

_TABLE: Int64s = np.array(sigmoid_lut(), np.int64).T << TABLE_SHIFT  # sigmoid(-u), log(1 + exp(-u)), as RESIDUAL


@dataclass(frozen=True)
class EpochResult:
    """An epoch of the reference, and the state after it.

    Attributes
    ----------
    loss : ndarray of int64, shape (outputs,)
        Sum of the loss over the rows of the epoch, in units of ``2**-32``; see `losses`.
    saturations : int
        Values clipped since the start of the run.
    state : ModelState
        Weights and registers after the epoch.
    """

    loss: Int64s
    saturations: int
    state: ModelState


class Reference:
    """One run of the accelerator, fed with rows in any number of pieces.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch. Shards change no bit, and are left out.
    state : ModelState
        Weights and registers at the start.
    levels : ndarray of int32, shape (levels, n), optional
        Codebook of each feature, in units of ``2**-16``, within `formats.LEVEL`; None for uniform levels.
    """

    def __init__(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None = None):
        self._geometry = geometry.unsharded
        self._levels = None if levels is None else levels.astype(np.float64)
        self._settings = state.settings
        self._master = state.master.astype(np.int64)
        self._row = 0
        self._loss = np.zeros(geometry.outputs, np.int64)
        self._saturations = 0
        self._begin_epoch()

    def feed(
        self,
        codes: NDArray[np.unsignedinteger],
        draws: NDArray[np.unsignedinteger] | None,
        labels: NDArray[np.int16],
    ) -> None:
        """Process the next rows of this epoch.

        Parameters
        ----------
        codes : unsigned array [m, n]
            Base codes.
        draws : unsigned array [m, n] or None
            Draw codes.
        labels : int16 array [m, outputs]

        Raises
        ------
        ValueError
            The rows end inside a group.
        """
        geometry, first = self._geometry, self._row
        end = first + len(labels)
        if geometry.group_start(end) != end:
            raise ValueError(f"these rows end at row {end}, inside a group of {geometry.rows_per_beat} rows")
        step = max(geometry.rows_per_beat, BLOCK // geometry.features)
        while self._row < end:
            stop = geometry.group_start(min(self._row + step, end))
            rows = slice(self._row - first, stop - first)
            block = self._block_of(codes[rows], None if draws is None else draws[rows])
            self._block(block, labels[rows].astype(np.int64))

    def end_epoch(self) -> EpochResult:
        """Return the result of the epoch after all its rows, and decay steps and penalty step.

        Raises
        ------
        ValueError
            Rows of the epoch are missing.
        """
        if self._row != self._geometry.rows:
            raise ValueError(f"the epoch has {self._geometry.rows} rows, but got {self._row}")
        self._settings = self._settings.after_epoch()
        state = ModelState(self._master.astype(np.int32), self._settings)
        epoch = EpochResult(self._loss, self._saturations, state)
        self._row = 0
        self._loss = np.zeros_like(self._loss)
        self._begin_epoch()
        return epoch

    def _begin_epoch(self) -> None:
        """Fill the queue of models for later batches with the current model."""
        self._published = [self._read()] * (1 + self._settings.staleness)

    def _read(self) -> Floats:
        """Return the weights that the dot product reads, cut from the master weights: float64 [n, outputs]."""
        seen = self._master
        if cut := self._settings.model_cut:
            random = random_words(self._settings.seed, range(self._geometry.chunks), model_lanes())
            seen, _ = saturate(round_at_random(seen, random.reshape(-1)[: self._geometry.features], cut), MASTER)
        return np.ascontiguousarray((seen >> CUT_BITS).T, np.float64)

    def _block_of(self, codes: NDArray[np.unsignedinteger], draws: NDArray[np.unsignedinteger] | None) -> RowBlock:
        if self._levels is None:
            return DigitBlock(codes, draws, self._geometry.base_digits)
        assert draws is not None
        return CodebookBlock(codes, draws, self._levels)

    def _block(self, block: RowBlock, labels: Int64s) -> None:
        """Process rows of one or more batches, the first and last of which may be incomplete."""
        start = 0
        while start < len(labels):
            first_row = self._row % self._geometry.batch
            stop = min(len(labels), start + self._geometry.batch - first_row)
            rows = slice(start, stop)
            self._row += stop - start
            ends = self._row % self._geometry.batch == 0 or self._row == self._geometry.rows
            coefficients = self._scalars(
                block.rounded_dots(rows, self._published[0], self._settings.weight_exponent), labels[rows], first_row
            )
            self._update(block.change(rows, *coefficients), stop - start, self._end_batch() if ends else None)
            if ends:
                self._published = [*self._published[1:], self._read()]
            start = stop

    def _end_batch(self) -> _Prox | None:
        """Advance seed and phases at the end of a batch, and return the proximal step, if any."""
        settings = replace(self._settings, seed=after_batches(self._settings.seed, 1))
        rate = phase_rate(settings.penalty_step)
        phase, shrink_phase = settings.phase + rate, settings.shrink_phase + phase_rate(settings.shrink_step)
        end = 1 << PHASE_BITS
        self._settings = replace(settings, phase=phase % end, shrink_phase=shrink_phase % end)
        proximal = self._geometry.features - settings.unpenalized_intercept
        if settings.prox == Prox.L2 and phase >> PHASE_BITS:
            return _Prox(settings, 0, proximal)
        shrinks = bool(shrink_phase >> PHASE_BITS)
        if settings.prox == Prox.L1 and (rate >> THRESHOLD_SHIFT or shrinks):
            return _Prox(settings, rate >> THRESHOLD_SHIFT, proximal, shrinks)
        if settings.prox == Prox.BOX:
            return _Prox(settings, 0, proximal)
        return None

    def _scalars(self, dots: list[Int64s], labels: Int64s, first_row: int) -> tuple[Int64s, Int64s]:
        """Run the scalar stage: return s and d, or c_1 and c_2, of rounded dot products, all [m, outputs], and add up
        losses.

        `first_row` is the position of the first row in its batch.
        """
        further = self._settings.further_loss
        if further == FurtherLoss.NONE:
            slopes, loss, clipped = losses(self._settings.loss, dots, labels)
        else:
            slopes, loss, clipped = further_losses(further, self._settings.epsilon, dots, labels)
        self._loss = self._loss + loss.sum(axis=0)
        self._saturations += clipped
        mantissa, exponent = split_float(self._settings.step)
        shift: int | Int64s = exponent + STEP_SHIFT
        factor: int | Int64s = mantissa
        if self._settings.step_negative != self._settings.step:
            mantissa, exponent = split_float(self._settings.step_negative)
            factor = np.where(labels >= 0, factor, mantissa)
            shift = np.where(labels >= 0, shift, exponent + STEP_SHIFT)
        s = self._saturate(round_half_up((slopes[0] + slopes[1]) * factor, shift), SCALED_GRADIENT)
        d = self._saturate(round_half_up((slopes[1] - slopes[0]) * factor, shift), SCALED_GRADIENT)
        if cut := self._settings.scaled_gradient_cut:
            random = self._random_of_rows(first_row, len(labels))
            s, d = (
                self._saturate(round_at_random(x, random[:, i, np.newaxis], cut), SCALED_GRADIENT)
                for i, x in enumerate((s, d))
            )
        if self._levels is None:
            return s, d
        c_1, c_2 = (
            self._saturate(round_half_up(c, LEVEL_COEFFICIENT_SHIFT), LEVEL_SCALED_GRADIENT) for c in (s - d, s + d)
        )
        return c_1, c_2

    def _random_of_rows(self, first_row: int, rows: int) -> NDArray[np.uint32]:
        """Return random words, uint32 [rows, 2], for s and d of rows of a batch; the first row begins a group."""
        columns = self._geometry.rows_per_beat
        groups = range(first_row // columns, -(-(first_row + rows) // columns))
        return random_words(self._settings.seed, groups, scaled_gradient_lanes(columns)).reshape(-1, 2)[:rows]

    def _saturate(self, x: Int64s, fmt: Fixed) -> Int64s:
        values, clipped = saturate(x, fmt)
        self._saturations += int(np.count_nonzero(clipped))
        return values

    def _update(self, change: Change, rows: int, prox: _Prox | None) -> None:
        """Subtract t of each of these rows from the master weights, and apply the proximal step with the last group."""
        tight = np.abs(self._master) + np.reshape(change.largest, (-1, 1)) > MASTER.maximum
        stepwise = [
            (output, columns, self._one_by_one(change, output, columns, prox))
            for output in range(len(tight))
            if (columns := np.flatnonzero(tight[output])).size
        ]
        if prox is None:
            self._master -= change.total(slice(0, rows))
        else:
            last = rows - self._row + self._geometry.group_start(self._row - 1)
            for some in (slice(0, last), slice(last, rows)):
                self._master -= change.total(some)
            self._master[:, : prox.features] = prox.apply(self._master[:, : prox.features])
        for output, columns, master in stepwise:
            self._master[output, columns] = master

    def _one_by_one(self, change: Change, output: int, columns: NDArray[np.intp], prox: _Prox | None) -> Int64s:
        """Return the master weights of some columns of an output after these rows, saturated after each group."""
        master: Int64s = self._master[output, columns]
        for of_group in change.of_groups(output, columns, self._geometry.rows_per_beat):
            master, clipped = saturate(master - of_group, MASTER)
            self._saturations += int(np.count_nonzero(clipped))
        if prox is not None:
            master = np.where(clipped | (columns >= prox.features), master, prox.apply(master))
        return master


@dataclass(frozen=True)
class _Prox:
    """The proximal step at the end of a batch, for the first `features` weights; with L1 it may shrink them too."""

    settings: Settings
    threshold: int
    features: int
    shrinks: bool = False

    def apply(self, master: Int64s) -> Int64s:
        """Return the master weights, of any shape, after the step."""
        if self.settings.prox == Prox.L2:
            return _shrunk(master)
        if self.settings.prox == Prox.L1:
            below = np.where(master > 0, np.maximum(master - self.threshold, 0), np.minimum(master + self.threshold, 0))
            return _shrunk(below) if self.shrinks else below
        low, high = self.settings.bounds
        units = master >> BOUND_SHIFT
        return np.where(units >= high, high << BOUND_SHIFT, np.where(units < low, low << BOUND_SHIFT, master))


def _shrunk(master: Int64s) -> Int64s:
    return master - (master >> SHRINK_SHIFT)


def losses(loss: Loss, dots: list[Int64s], labels: Int64s) -> tuple[list[Int64s], Int64s, int]:
    """Return slopes and losses of rounded dot products: the result of the scalar stage.

    Parameters
    ----------
    loss : Loss
    dots : list of int64 arrays
        Dot products of both copies, in units of ``2**-20``; clipped here.
    labels : int64 array
        With the same shape, in units of ``2**-15``.

    Returns
    -------
    slopes : list of int64 arrays
        Of both copies, in units of ``2**-20``.
    losses : int64 array
        Of each row, in units of ``2**-32``.
    saturations : int
        Number of clipped values that count.
    """
    clipped = 0
    slopes, values = [], []
    positive = labels >= 0
    for dot in dots:
        z, clipped_z = saturate(dot, RESIDUAL)
        if loss == Loss.SQUARES:
            r, clipped_r = saturate(z - (labels << (RESIDUAL.fraction - LABEL.fraction)), RESIDUAL)
            clipped += int(np.count_nonzero(clipped_z)) + int(np.count_nonzero(clipped_r))
        elif loss == Loss.HINGE:
            v = ONE - np.where(positive, z, -z)
            r = np.where(v > 0, np.where(positive, -ONE, ONE), 0)
            values.append(np.maximum(v, 0))
        else:
            tail, logarithm = _TABLE[:, np.where(z >= 0, z, ~z) >> CELL_BITS]
            r = np.where(z >= 0, ONE - tail, tail) - np.where(positive, ONE, 0)
            values.append(np.maximum(np.where(positive, -z, z), 0) + logarithm)
        slopes.append(r)
    if loss == Loss.SQUARES:
        return slopes, round_half_up(slopes[0] * slopes[1], LOSS_SHIFT), clipped
    return slopes, (values[0] + values[1]) << HALF_LOSS_SHIFT, clipped


def run_epochs(
    samples: Iterable[Rows],
    geometry: Geometry,
    state: ModelState,
    levels: NDArray[np.int32] | None = None,
) -> Iterator[EpochResult]:
    """Yield the result of each epoch of a run.

    Parameters
    ----------
    samples : iterable of tuples
        For each epoch base codes [rows, n], draw codes [rows, n] or None, and labels int16 [rows, outputs].
    geometry, state, levels
        As for `Reference`.
    """
    reference = Reference(geometry, state, levels)
    for rows in samples:
        reference.feed(*rows)
        yield reference.end_epoch()
