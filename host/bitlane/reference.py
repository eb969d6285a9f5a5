"""The accelerator's arithmetic as integers: every weight bit, loss and saturation count is the hardware's.

What is computed is defined in `docs/design.md`, "Arithmetic, exactly"; the names are the same. It is fast
because the sums over features and rows go through float64 BLAS, which is exact as long as every partial sum
is an integer below 2**53, and it stays exact because

- codes of more than 16 bits are multiplied as two halves, joined by `floor((x + floor(y / a)) / b)`;
- the sum of a block of rows replaces one update after the other only for weights that no order of these
  updates could saturate. The other weights take the rows one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .contract import (
    COEFFICIENT,
    DIGIT_BITS,
    LABEL,
    LOSS,
    MASTER,
    RATE_FRACTION,
    RESIDUAL,
    SHRINK_SHIFTS,
    STEP_FRACTION,
    WEIGHT,
    Fixed,
)
from .fixed import NO_DECAY, decayed, round_half_up, saturate, split
from .layout import Geometry

BLOCK = 1 << 16  # digits kept as floats at a time
HALF = 16  # bits of a code that one exact multiplication takes: 16 + 23 + 14 (features) = 53
PHASE_BITS = 32
LOSS_SHIFT = 2 * RESIDUAL.fraction - LOSS.fraction
STEP_SHIFT = RESIDUAL.fraction + STEP_FRACTION - COEFFICIENT.fraction
DRAW_SHIFT = COEFFICIENT.fraction - MASTER.fraction + 1  # the 1 is the half of the symmetrised gradient
BASE_SHIFT = DRAW_SHIFT + 2  # the low bit of the first digit weighs a quarter

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger] | None, NDArray[np.int16]]


@dataclass(frozen=True)
class Settings:
    """The registers that the arithmetic reads, as they are written.

    Parameters
    ----------
    batch: rows of a mini-batch.
    step, rate: `mantissa | exponent << 16`; step is the step of one row, rate the shrinks a batch.
    decay: factor on both after an epoch, in 2**-16.
    shrink: index of the shrink shift in `SHRINK_SHIFTS`.
    phase: shrink accumulator, 32 bits.
    """

    batch: int
    step: int
    rate: int = 0
    decay: int = NO_DECAY
    shrink: int = 0
    phase: int = 0


@dataclass(frozen=True)
class Epoch:
    """State after an epoch.

    Parameters
    ----------
    loss: sum over its rows of r_1 r_2, in units of 2**-32.
    saturations: values clipped since the start of the run.
    master: int32 [n], the master weights as stored.
    settings: with step and rate as decayed so far, and phase.
    """

    loss: int
    saturations: int
    master: NDArray[np.int32]
    settings: Settings


class Reference:
    """One run of the accelerator, fed with rows in any number of pieces.

    Parameters
    ----------
    geometry: of an epoch.
    settings: at the start.
    master: int32 [n], stored master weights at the start.
    """

    def __init__(self, geometry: Geometry, settings: Settings, master: NDArray[np.int32]):
        self._geometry = geometry
        self._settings = settings
        self._master = master.astype(np.int64)
        self._published = self._publish()
        self._row = 0
        self._batch_row = 0
        self._loss = 0
        self._saturations = 0

    def feed(
        self,
        codes: NDArray[np.unsignedinteger],
        draws: NDArray[np.unsignedinteger] | None,
        labels: NDArray[np.int16],
    ) -> None:
        """The next rows of this epoch: base codes [m, n], draw codes [m, n] (None without), labels [m]."""
        step = max(1, BLOCK // self._geometry.features)
        for start in range(0, len(labels), step):
            rows = slice(start, start + step)
            block = _Block(codes[rows], None if draws is None else draws[rows], self._geometry.base_digits)
            self._block(block, labels[rows].astype(np.int64))

    def end_epoch(self) -> Epoch:
        """Ends the epoch that all `geometry.rows` rows were fed of, decays step and rate, and reports."""
        if self._row != self._geometry.rows:
            raise ValueError(f"the epoch has {self._geometry.rows} rows, but {self._row} were fed")
        settings = self._settings
        self._settings = replace(
            settings,
            step=decayed(settings.step, settings.decay),
            rate=decayed(settings.rate, settings.decay),
        )
        epoch = Epoch(self._loss, self._saturations, self._master.astype(np.int32), self._settings)
        self._row = self._batch_row = self._loss = 0
        return epoch

    def _publish(self) -> Floats:
        """X: what the dot product reads, cut from the master weights."""
        return (self._master >> (MASTER.fraction - WEIGHT.fraction)).astype(np.float64)

    def _block(self, block: _Block, labels: Int64s) -> None:
        """Rows of one or more batches, the first and last of which may be partial."""
        start = 0
        while start < len(labels):
            stop = min(len(labels), start + self._settings.batch - self._batch_row)
            rows = slice(start, stop)
            self._batch_row += stop - start
            self._row += stop - start
            ends = self._batch_row == self._settings.batch or self._row == self._geometry.rows
            s, d = self._scalars(block.rounded_dots(rows, self._published), labels[rows])
            self._update(block, rows, s, d, ends and self._shrink_due())
            if ends:
                self._batch_row = 0
                self._published = self._publish()
            start = stop

    def _shrink_due(self) -> bool:
        """Advances the phase at a batch's end; whether it carried."""
        mantissa, exponent = split(self._settings.rate)
        if not mantissa:
            return False
        phase = self._settings.phase + ((mantissa << PHASE_BITS - RATE_FRACTION) >> exponent)
        self._settings = replace(self._settings, phase=phase % (1 << PHASE_BITS))
        return phase >= 1 << PHASE_BITS

    def _scalars(self, dots: list[Int64s], labels: Int64s) -> tuple[Int64s, Int64s]:
        """The scalar stage: s and d [m] of rounded dot products [m]; adds to loss and saturations."""
        r1, r2 = (self._residual(dot, labels) for dot in dots)
        self._loss += int(round_half_up(r1 * r2, LOSS_SHIFT).sum())
        mantissa, exponent = split(self._settings.step)
        s = self._saturate(round_half_up((r1 + r2) * mantissa, exponent + STEP_SHIFT), COEFFICIENT)
        d = self._saturate(round_half_up((r2 - r1) * mantissa, exponent + STEP_SHIFT), COEFFICIENT)
        return s, d

    def _residual(self, dot: Int64s, labels: Int64s) -> Int64s:
        z = self._saturate(dot, RESIDUAL)
        return self._saturate(z - (labels << (RESIDUAL.fraction - LABEL.fraction)), RESIDUAL)

    def _saturate(self, x: Int64s, fmt: Fixed) -> Int64s:
        values, clipped = saturate(x, fmt)
        self._saturations += int(np.count_nonzero(clipped))
        return values

    def _update(self, block: _Block, rows: slice, s: Int64s, d: Int64s, shrink: bool) -> None:
        """Takes t of each of these rows from the master weights, and with the last one the shrink."""
        terms = _terms(block, s, d)
        most = sum(int(np.maximum(np.abs(p), np.abs(m)).sum()) for _, p, m in terms)
        tight = np.flatnonzero(np.abs(self._master) + most > MASTER.maximum)
        stepwise = self._one_by_one(block, rows, terms, tight, shrink) if tight.size else None

        last = rows.stop - 1
        if shrink:
            self._master -= block.updates(slice(rows.start, last), [(k, p[:-1], m[:-1]) for k, p, m in terms])
            taken = self._master >> SHRINK_SHIFTS[self._settings.shrink]
            self._master -= taken + block.updates(slice(last, last + 1), [(k, p[-1:], m[-1:]) for k, p, m in terms])
        else:
            self._master -= block.updates(rows, terms)
        if stepwise is not None:
            self._master[tight] = stepwise

    def _one_by_one(
        self, block: _Block, rows: slice, terms: list[_Term], columns: NDArray[np.intp], shrink: bool
    ) -> Int64s:
        """The master weights of some columns after these rows, saturated after each."""
        master = self._master[columns]
        for i, row in enumerate(range(rows.start, rows.stop)):
            one = [(k, p[i : i + 1], m[i : i + 1]) for k, p, m in terms]
            change = block.updates(slice(row, row + 1), one, columns)
            if shrink and row == rows.stop - 1:
                change = change + (master >> SHRINK_SHIFTS[self._settings.shrink])
            master = self._saturate(master - change, MASTER)
        return master


def run_epochs(
    samples: Iterable[Rows], geometry: Geometry, settings: Settings, master: NDArray[np.int32]
) -> Iterator[Epoch]:
    """The state after each epoch of a run.

    Parameters
    ----------
    samples: for each epoch (base codes [rows, n], draw codes [rows, n] or None, labels int16 [rows]).
    geometry, settings, master: as for `Reference`.
    """
    reference = Reference(geometry, settings, master)
    for rows in samples:
        reference.feed(*rows)
        yield reference.end_epoch()


_Term = tuple[int, Int64s, Int64s]  # digit, P and M of each row


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
        """`round_half_up(dot_m, b)` for both copies: two int64 [m]."""
        low = (self._low[rows] @ x).astype(np.int64)
        if self.has_draws:
            total = x.sum()
            lows = [low + (2 * (bits[rows] @ x) - total).astype(np.int64) for bits in self.planes(self.base_digits)]
        else:
            lows = [low, low]
        if self._high is None:
            return [round_half_up(dot, self.base_digits * DIGIT_BITS) for dot in lows]
        high = (self._high[rows] @ x).astype(np.int64)
        half = 1 << (HALF + self._high_bits - 1)
        return [(high + ((dot + half) >> HALF)) >> self._high_bits for dot in lows]

    def updates(self, rows: slice, terms: list[_Term], columns: NDArray[np.intp] | None = None) -> Int64s:
        """Sum over rows of t_j: int64 [n], or of some columns.

        With the bits h and l of a digit, `(h == l ? P : M) * (h ? 1 : -1) = (P + M) h + (P - M) l - P`.
        """
        total: Floats | float = 0.0
        for digit, p, m in terms:
            high, low = (bits[rows] if columns is None else bits[rows, columns] for bits in self.planes(digit))
            total = total + ((p + m).astype(np.float64) @ high + (p - m).astype(np.float64) @ low - float(p.sum()))
        width = self._codes.shape[1] if columns is None else len(columns)
        return np.broadcast_to(np.asarray(total), (width,)).astype(np.int64)


def _odd(codes: NDArray[np.unsignedinteger], bits: int) -> Floats:
    """Codes of some bits as the odd integers `2 i + 1 - 2**bits` (0 where there are no bits), in float64."""
    q = codes.astype(np.float64)
    q *= 2
    q += 1 - (1 << bits)
    return q
