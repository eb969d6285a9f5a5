"""The accelerator's arithmetic as integers: every weight bit, loss and saturation count is the hardware's.

What is computed is defined in `docs/design.md`, "Arithmetic, exactly"; the names are the same. It is fast
because the sums over features and rows go through float64 BLAS, which is exact as long as every partial sum
is an integer below 2**53, and it stays exact because

- codes of more than 16 bits are multiplied as two halves, joined by `floor((x + floor(y / a)) / b)`;
- the sum of a block of groups replaces one update after the other only for weights that no order of these
  updates could saturate. The other weights take the groups one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .contract import (
    BOUND,
    COEFFICIENT,
    DIGIT_BITS,
    LABEL,
    LOSS,
    MASTER,
    RATE_FRACTION,
    RESIDUAL,
    SHRINK_SHIFT,
    STEP_FRACTION,
    TABLE,
    TABLE_ADDRESS_BITS,
    Fixed,
    Loss,
    Prox,
    logistic_table,
)
from .fixed import round_at_random, round_half_up, saturate, split
from .layout import CUT_BITS, Geometry
from .randomness import after_batches, coefficient_lanes, model_lanes, words
from .settings import Settings

BLOCK = 1 << 16  # digits kept as floats at a time
HALF = 16  # bits of a code that one exact multiplication takes: 16 + 23 + 14 (features) = 53
PHASE_BITS = 32
ONE = 1 << RESIDUAL.fraction
LOSS_SHIFT = 2 * RESIDUAL.fraction - LOSS.fraction
HALF_LOSS_SHIFT = LOSS.fraction - RESIDUAL.fraction - 1  # of each of the two copies' losses
STEP_SHIFT = RESIDUAL.fraction + STEP_FRACTION - COEFFICIENT.fraction
DRAW_SHIFT = COEFFICIENT.fraction - MASTER.fraction + 1  # the 1 is the half of the symmetrised gradient
BASE_SHIFT = DRAW_SHIFT + 2  # the low bit of the first digit weighs a quarter
CELL_BITS = RESIDUAL.bits - 1 - TABLE_ADDRESS_BITS  # of a dot product, inside a cell of the logistic table
TABLE_SHIFT = RESIDUAL.fraction - TABLE.fraction
BOUND_SHIFT = MASTER.fraction - BOUND.fraction
THRESHOLD_SHIFT = PHASE_BITS - MASTER.fraction

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger] | None, NDArray[np.int16]]

_TABLE: Int64s = np.array(logistic_table(), np.int64).T << TABLE_SHIFT  # sigmoid(-u), log(1 + exp(-u)), as RESIDUAL


@dataclass(frozen=True)
class Epoch:
    """State after an epoch.

    Parameters
    ----------
    loss: int64 [outputs], sum over its rows in units of 2**-32; see `losses`.
    saturations: values clipped since the start of the run.
    master: int32 [outputs, n], the master weights as stored.
    settings: with steps and rate as decayed so far, phase, and seed.
    """

    loss: Int64s
    saturations: int
    master: NDArray[np.int32]
    settings: Settings


class Reference:
    """One run of the accelerator, fed with rows in any number of pieces.

    Parameters
    ----------
    geometry: of an epoch.
    settings: at the start.
    master: int32 [outputs, n], stored master weights at the start.
    """

    def __init__(self, geometry: Geometry, settings: Settings, master: NDArray[np.int32]):
        self._geometry = geometry
        self._settings = settings
        self._master = master.astype(np.int64)
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
        """The next rows of this epoch: base codes [m, n], draw codes [m, n] (None without), labels [m, outputs].

        ValueError where they end inside a group.
        """
        geometry, first = self._geometry, self._row
        end = first + len(labels)
        if geometry.group_start(end) != end:
            raise ValueError(f"these rows end at row {end}, inside a group of {geometry.columns} columns")
        step = max(geometry.columns, BLOCK // geometry.features)
        while self._row < end:
            stop = geometry.group_start(min(self._row + step, end))
            rows = slice(self._row - first, stop - first)
            block = _Block(codes[rows], None if draws is None else draws[rows], geometry.base_digits)
            self._block(block, labels[rows].astype(np.int64))

    def end_epoch(self) -> Epoch:
        """Ends the epoch that all `geometry.rows` rows were fed of, decays steps and rate, and reports."""
        if self._row != self._geometry.rows:
            raise ValueError(f"the epoch has {self._geometry.rows} rows, but {self._row} were fed")
        self._settings = self._settings.after_epoch()
        epoch = Epoch(self._loss, self._saturations, self._master.astype(np.int32), self._settings)
        self._row = 0
        self._loss = np.zeros_like(self._loss)
        self._begin_epoch()
        return epoch

    def _begin_epoch(self) -> None:
        """All that is queued for later batches is the model as it is now."""
        self._published = [self._read()] * (1 + self._settings.staleness)

    def _read(self) -> Floats:
        """X: what the dot product reads, cut from the master weights: [n, outputs]."""
        seen = self._master
        if cut := self._settings.model_cut:
            random = words(self._settings.seed, range(self._geometry.chunks), model_lanes())
            seen, _ = saturate(round_at_random(seen, random.reshape(-1)[: self._geometry.features], cut), MASTER)
        return np.ascontiguousarray((seen >> CUT_BITS).T, np.float64)

    def _block(self, block: _Block, labels: Int64s) -> None:
        """Rows of one or more batches, the first and last of which may be partial."""
        start = 0
        while start < len(labels):
            place = self._row % self._geometry.batch
            stop = min(len(labels), start + self._geometry.batch - place)
            rows = slice(start, stop)
            self._row += stop - start
            ends = self._row % self._geometry.batch == 0 or self._row == self._geometry.rows
            s, d = self._scalars(block.rounded_dots(rows, self._published[0]), labels[rows], place)
            prox = self._end_batch() if ends else None
            self._update(block, rows, s, d, prox)
            if ends:
                self._published = [*self._published[1:], self._read()]
            start = stop

    def _end_batch(self) -> _Prox | None:
        """Advances seed and phase at a batch's end; what is then done to the weights, if anything."""
        settings = replace(self._settings, seed=after_batches(self._settings.seed, 1))
        mantissa, exponent = split(settings.rate)
        rate = (mantissa << PHASE_BITS - RATE_FRACTION) >> exponent
        phase = settings.phase + rate
        self._settings = replace(settings, phase=phase % (1 << PHASE_BITS))
        proximal = self._geometry.features - settings.free
        if settings.prox == Prox.L2 and phase >> PHASE_BITS:
            return _Prox(settings, 0, proximal)
        if settings.prox == Prox.L1 and rate >> THRESHOLD_SHIFT:
            return _Prox(settings, rate >> THRESHOLD_SHIFT, proximal)
        if settings.prox == Prox.BOX:
            return _Prox(settings, 0, proximal)
        return None

    def _scalars(self, dots: list[Int64s], labels: Int64s, place: int) -> tuple[Int64s, Int64s]:
        """The scalar stage: s and d [m, outputs] of rounded dot products [m, outputs]; adds up losses.

        place: of the first row in its batch.
        """
        slopes, loss, clipped = losses(self._settings.loss, dots, labels)
        self._loss = self._loss + loss.sum(axis=0)
        self._saturations += clipped
        mantissa, exponent = split(self._settings.step)
        shift: int | Int64s = exponent + STEP_SHIFT
        factor: int | Int64s = mantissa
        if self._settings.step_negative != self._settings.step:
            mantissa, exponent = split(self._settings.step_negative)
            factor = np.where(labels >= 0, factor, mantissa)
            shift = np.where(labels >= 0, shift, exponent + STEP_SHIFT)
        s = self._saturate(round_half_up((slopes[0] + slopes[1]) * factor, shift), COEFFICIENT)
        d = self._saturate(round_half_up((slopes[1] - slopes[0]) * factor, shift), COEFFICIENT)
        if cut := self._settings.coefficient_cut:
            random = self._random_of_rows(place, len(labels))
            s, d = (
                self._saturate(round_at_random(x, random[:, i, np.newaxis], cut), COEFFICIENT)
                for i, x in enumerate((s, d))
            )
        return s, d

    def _random_of_rows(self, place: int, rows: int) -> NDArray[np.uint32]:
        """Random words for s and d of rows of a batch from a group's first on: uint32 [rows, 2]."""
        columns = self._geometry.columns
        groups = range(place // columns, -(-(place + rows) // columns))
        return words(self._settings.seed, groups, coefficient_lanes(columns)).reshape(-1, 2)[:rows]

    def _saturate(self, x: Int64s, fmt: Fixed) -> Int64s:
        values, clipped = saturate(x, fmt)
        self._saturations += int(np.count_nonzero(clipped))
        return values

    def _update(self, block: _Block, rows: slice, s: Int64s, d: Int64s, prox: _Prox | None) -> None:
        """Takes t of each of these rows from the master weights, and with the last group applies the prox."""
        terms = _terms(block, s, d)
        most = sum(np.maximum(np.abs(p), np.abs(m)).sum(axis=0) for _, p, m in terms)
        tight = np.abs(self._master) + np.reshape(most, (-1, 1)) > MASTER.maximum
        stepwise = [
            (output, columns, self._one_by_one(block, rows, terms, output, columns, prox))
            for output in range(len(tight))
            if (columns := np.flatnonzero(tight[output])).size
        ]
        if prox is None:
            self._master -= block.updates(rows, terms)
        else:
            last = rows.stop - self._row + self._geometry.group_start(self._row - 1)
            for some in (slice(rows.start, last), slice(last, rows.stop)):
                of_some = slice(some.start - rows.start, some.stop - rows.start)
                self._master -= block.updates(some, [(k, p[of_some], m[of_some]) for k, p, m in terms])
            self._master[:, : prox.features] = prox.apply(self._master[:, : prox.features])
        for output, columns, master in stepwise:
            self._master[output, columns] = master

    def _one_by_one(
        self,
        block: _Block,
        rows: slice,
        terms: list[_Term],
        output: int,
        columns: NDArray[np.intp],
        prox: _Prox | None,
    ) -> Int64s:
        """The master weights of some columns of an output after these rows, saturated after each group."""
        master: Int64s = self._master[output, columns]
        changes = block.group_updates(rows, terms, output, columns, self._geometry.columns)
        for change in changes:
            master, clipped = saturate(master - change, MASTER)
            self._saturations += int(np.count_nonzero(clipped))
        if prox is not None:
            master = np.where(clipped | (columns >= prox.features), master, prox.apply(master))
        return master


@dataclass(frozen=True)
class _Prox:
    """What is done at the end of a batch to the first `features` weights."""

    settings: Settings
    threshold: int
    features: int

    def apply(self, master: Int64s) -> Int64s:
        """The master weights afterwards, of any shape."""
        if self.settings.prox == Prox.L2:
            return master - (master >> SHRINK_SHIFT)
        if self.settings.prox == Prox.L1:
            return np.where(master > 0, np.maximum(master - self.threshold, 0), np.minimum(master + self.threshold, 0))
        low, high = self.settings.bounds
        units = master >> BOUND_SHIFT
        return np.where(units >= high, high << BOUND_SHIFT, np.where(units < low, low << BOUND_SHIFT, master))


def losses(loss: Loss, dots: list[Int64s], labels: Int64s) -> tuple[list[Int64s], Int64s, int]:
    """What the scalar stage makes of rounded dot products.

    Parameters
    ----------
    loss: which.
    dots: of both copies, int64 of any shape, in units of 2**-20; clipped here.
    labels: int64 of the same shape, in units of 2**-15.

    Returns
    -------
    The slopes r of both copies, in units of 2**-20; the loss of each row, in units of 2**-32; values clipped
    that count.
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
    samples: Iterable[Rows], geometry: Geometry, settings: Settings, master: NDArray[np.int32]
) -> Iterator[Epoch]:
    """The state after each epoch of a run.

    Parameters
    ----------
    samples: for each epoch (base codes [rows, n], draw codes [rows, n] or None, labels int16 [rows, outputs]).
    geometry, settings, master: as for `Reference`.
    """
    reference = Reference(geometry, settings, master)
    for rows in samples:
        reference.feed(*rows)
        yield reference.end_epoch()


_Term = tuple[int, Int64s, Int64s]  # digit, P and M of each row and output


def _terms(block: _Block, s: Int64s, d: Int64s) -> list[_Term]:
    """(k, P_k, M_k) of the digits whose P and M are not all 0."""
    terms: list[_Term] = []
    for k in range(block.base_digits):
        p = round_half_up(3 * s, 2 * k + BASE_SHIFT)
        if not p.any():
            break  # and so are all M and the P of the digits behind
        terms.append((k, p, round_half_up(s, 2 * k + BASE_SHIFT)))
    if block.has_draws:
        k = block.base_digits
        terms.append((k, round_half_up(s, 2 * k + DRAW_SHIFT), round_half_up(d, 2 * k + DRAW_SHIFT)))
    return terms


class _Block:
    """Some rows of codes, as the float64 matrices that products need, each made when first used."""

    def __init__(self, codes: NDArray[np.unsignedinteger], draws: NDArray[np.unsignedinteger] | None, base_digits: int):
        self.base_digits = base_digits
        self.has_draws = draws is not None
        self._codes = codes = codes.astype(np.uint32, copy=False)
        self._draws = draws
        self._planes: dict[int, tuple[Floats, Floats]] = {}
        base_bits = base_digits * DIGIT_BITS
        self._high_bits = max(0, base_bits - HALF)
        self._low = _odd(codes & np.uint32((1 << HALF) - 1), base_bits - self._high_bits)
        self._high = _odd(codes >> np.uint32(HALF), self._high_bits) if self._high_bits else None

    def planes(self, digit: int) -> tuple[Floats, Floats]:
        """The bits h and l of a digit of all rows, as 0.0 and 1.0: two float64 [m, n]."""
        if digit not in self._planes:
            if digit == self.base_digits:
                assert self._draws is not None
                pairs = self._draws
            else:
                pairs = self._codes >> np.uint32(DIGIT_BITS * (self.base_digits - 1 - digit))
            self._planes[digit] = ((pairs >> 1 & 1).astype(np.float64), (pairs & 1).astype(np.float64))
        return self._planes[digit]

    def rounded_dots(self, rows: slice, x: Floats) -> list[Int64s]:
        """`round_half_up(dot_m, b)` for both copies, of weights [n, outputs]: two int64 [m, outputs]."""
        low = (self._low[rows] @ x).astype(np.int64)
        if self.has_draws:
            total = x.sum(axis=0)
            lows = [low + (2 * (bits[rows] @ x) - total).astype(np.int64) for bits in self.planes(self.base_digits)]
        else:
            lows = [low, low]
        if self._high is None:
            return [round_half_up(dot, self.base_digits * DIGIT_BITS) for dot in lows]
        high = (self._high[rows] @ x).astype(np.int64)
        half = 1 << (HALF + self._high_bits - 1)
        return [(high + ((dot + half) >> HALF)) >> self._high_bits for dot in lows]

    def updates(self, rows: slice, terms: list[_Term]) -> Int64s:
        """Sum over rows of t_j: int64 [outputs, n], or 0 for all.

        With the bits h and l of a digit, `(h == l ? P : M) * (h ? 1 : -1) = (P + M) h + (P - M) l - P`.
        """
        total = np.zeros((1, 1))
        for digit, p, m in terms:
            high, low = (bits[rows] for bits in self.planes(digit))
            both, difference = (p + m).T.astype(np.float64), (p - m).T.astype(np.float64)
            total = total + (both @ high + difference @ low - p.sum(axis=0)[:, np.newaxis])
        return total.astype(np.int64)

    def group_updates(
        self, rows: slice, terms: list[_Term], output: int, columns: NDArray[np.intp], group: int
    ) -> Int64s:
        """Sum over the rows of each group of t_j, for some columns of one output: int64 [groups, columns]."""
        total = np.zeros((rows.stop - rows.start, len(columns)))
        for digit, p, m in terms:
            high, low = (bits[rows, columns] for bits in self.planes(digit))
            total += (p + m)[:, output, np.newaxis] * high + (p - m)[:, output, np.newaxis] * low
            total -= p[:, output, np.newaxis]
        return np.add.reduceat(total, np.arange(0, len(total), group)).astype(np.int64)


def _odd(codes: NDArray[np.unsignedinteger], bits: int) -> Floats:
    """Codes of some bits as the odd integers `2 i + 1 - 2**bits` (0 where there are no bits), in float64."""
    q = codes.astype(np.float64)
    q *= 2
    q += 1 - (1 << bits)
    return q
