"""What least squares needs of a table: sums of values, squares and products, which add up over blocks, days and folds.

A table of codes gives exact integers: the Gram matrix of the codes beside digits of the targets. The digits are those
of a fixed-point number of 40 bits, so that all sums have the same bits on all machines. Targets that are integers of
few digits are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bitlane.encoded.coded_rows import CodedRows, Codes, CodeScale, Floats
from bitlane.errors import DataError
from bitlane.quantization.row_table import dense_pieces

from .gram import GramSum, Integers
from .reference_pass import Singles
from .standard_rows import LOOKED_AT

DIGIT_BITS = 8
TARGET_DIGITS = 5
NEAR_0 = 0.5  # deviations: a mean that is nearer to 0 is not taken off float32 values
LARGEST_MULTIPLICITY = 1 << 16  # of integer weights, whose sums are exact


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows x [m] with targets y [K] and weights w, about fixed points c and e: u = x - c, v = y - e.

    Attributes
    ----------
    rows : int
        Number of rows with weights above 0.
    weight : float
        Sum of w.
    center : float64 array [m]
        c, in user units, as all others.
    gram : float64 array [m, m]
        Sum of w u u'.
    sums : float64 array [m]
        Sum of w u.
    products : float64 array [m, K]
        Sum of w u v'.
    target_center : float64 array [K]
        e.
    target_sums, target_squares : float64 arrays [K]
        Sums of w v and of w v**2.
    """

    rows: int
    weight: float
    center: Floats
    gram: Floats
    sums: Floats
    products: Floats
    target_center: Floats
    target_sums: Floats
    target_squares: Floats

    def __add__(self, more: Moments) -> Moments:
        """Return the moments of both tables, whose columns and targets must be the same."""
        return self._combined(more, 1)

    def __sub__(self, part: Moments) -> Moments:
        """Return the moments without those of a part of the rows."""
        return self._combined(part, -1)

    def about(self, center: Floats, target_center: Floats) -> Moments:
        """Return the same moments about other points."""
        if np.array_equal(center, self.center) and np.array_equal(target_center, self.target_center):
            return self
        d, e, total = center - self.center, target_center - self.target_center, self.weight
        cross = np.outer(d, self.sums)
        return Moments(
            self.rows,
            total,
            center,
            self.gram - cross - cross.T + total * np.outer(d, d),
            self.sums - total * d,
            self.products - np.outer(d, self.target_sums) - np.outer(self.sums, e) + total * np.outer(d, e),
            target_center,
            self.target_sums - total * e,
            self.target_squares - 2 * e * self.target_sums + total * e**2,
        )

    def _combined(self, more: Moments, sign: int) -> Moments:
        moved = more.about(self.center, self.target_center)
        return Moments(
            self.rows + sign * moved.rows,
            self.weight + sign * moved.weight,
            self.center,
            self.gram + sign * moved.gram,
            self.sums + sign * moved.sums,
            self.products + sign * moved.products,
            self.target_center,
            self.target_sums + sign * moved.target_sums,
            self.target_squares + sign * moved.target_squares,
        )


def coded_moments(
    rows: CodedRows,
    targets: ArrayLike,
    weights: ArrayLike | None = None,
    bits: int | None = None,
    threads: int | None = None,
) -> Moments:
    """Return the moments of a table of codes, in one read; see `coded_fold_moments`."""
    (found,) = coded_fold_moments(rows, targets, np.zeros(rows.shape[0], np.intp), weights, bits, threads)
    return found


def coded_fold_moments(
    rows: CodedRows,
    targets: ArrayLike,
    folds: NDArray[np.intp],
    weights: ArrayLike | None = None,
    bits: int | None = None,
    threads: int | None = None,
) -> list[Moments]:
    """Return the moments of each fold of a table of codes, in one read.

    Parameters
    ----------
    rows : CodedRows, shape (rows, m)
    targets : array [rows] or [rows, K]
        User units, finite.
    folds : int array [rows]
        Number of the fold of each row, from 0.
    weights : array [rows], optional
        0 or more, finite. Integers up to `LARGEST_MULTIPLICITY` give exact integer sums, as if rows were repeated. With
        others the values are decoded to float64, which takes several times as long and is rounded as BLAS does.
    bits : int, optional
        Of the codes that are read; all by default.
    threads : int, optional
        By default one for each processor.

    Returns
    -------
    list of Moments
        About the values of codes near the means of all rows, and the middles of the ranges of targets.
    """
    digits = TargetDigits.of(target_matrix(targets))
    count = int(folds.max()) + 1 if len(folds) else 0
    scale = rows.scale if bits is None else rows.scale.at(rows.bits, bits)
    if weights is not None and not _are_multiplicities(w := np.asarray(weights, np.float64)):
        return _weighted_fold_moments(rows, digits, folds, w, bits, count)
    multiplicities = None if weights is None else np.asarray(weights, np.int64)
    columns = rows.shape[1] + digits.codes.shape[1]
    sums: dict[tuple[int, int], GramSum] = {}
    for block in rows.blocks(bits):
        here = slice(block.first, block.first + len(block.codes))
        extra = digits.codes[here]
        for key, chosen in _parts(folds[here], None if multiplicities is None else multiplicities[here]):
            if key not in sums:
                sums[key] = GramSum(columns, threads)
            sums[key].add(block.codes[chosen], extra[chosen])
    used = np.ones(len(folds), bool) if multiplicities is None else multiplicities > 0
    middle = _middle_codes([(1 << bit, total) for (_, bit), total in sums.items()], rows.shape[1])
    return [
        _of_integers(
            [(1 << bit, total) for (fold, bit), total in sums.items() if fold == each],
            int(np.count_nonzero(used & (folds == each))),
            middle,
            scale,
            digits,
        )
        for each in range(count)
    ]


def float_moments(
    X: Any,
    targets: ArrayLike,
    weights: ArrayLike | None = None,
    center: Floats | None = None,
    dtype: DTypeLike = np.float64,
) -> Moments:
    """Return the moments of a table of floats by BLAS, quicker than from codes for tables of few columns.

    Products are of differences from `center`, in blocks of about a million values, whose sums are float64.

    Parameters
    ----------
    X : array or RowTable [rows, m]
    targets : array [rows] or [rows, K]
    weights : array [rows], optional
    center : float64 array [m], optional
        Numbers of that dtype; by default about the means of the first block, of some of its rows.
    dtype : {np.float64, np.float32}
        Of differences and products; `rounding.product_excess` tells what the latter costs.

    Raises
    ------
    DataError
        Squares of a column are above the largest float64.
    """
    y = target_matrix(targets)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    middle = _middles(y)
    total: Moments | None = None
    first = 0
    for piece in dense_pieces(X):
        here = slice(first, first + len(piece))
        first += len(piece)
        if center is None:
            center = _center_of(piece, dtype)
        found = _of_floats(_differences(piece, center, dtype), y[here] - middle, w[here], center, middle)
        total = found if total is None else total + found
    assert total is not None
    if dtype == np.float64 and not (finite := np.isfinite(np.diag(total.gram))).all():
        raise DataError(f"column {finite.argmin()} has values whose squares are above the largest float64: scale it")
    return total


@dataclass(frozen=True, eq=False)
class TargetDigits:
    """Targets as fixed-point numbers in balanced digits: ``center + quantum * sum_d digit_d * 256**d``.

    Attributes
    ----------
    codes : int8 array [rows, digits * K]
        The digits of the first target, the least significant first; those of the second; and so on.
    center, quantum : float64 arrays [K]
        Each quantum is a power of two.
    digits : int
        Of each target.
    """

    codes: Codes
    center: Floats
    quantum: Floats
    digits: int

    @staticmethod
    def of(y: Floats) -> TargetDigits:
        """Encode targets [rows, K]: integers exactly, others to 2**-38 of the largest distance from the middle."""
        center = _middles(y)
        away = y - center
        largest = np.abs(away).max(axis=0, initial=0.0)
        quantum = np.ones(y.shape[1])
        digits = 1
        if (away == np.rint(away)).all() and largest.max(initial=0.0) < 2.0 ** (DIGIT_BITS * TARGET_DIGITS - 2):
            while largest.max(initial=0.0) > _reach(digits):
                digits += 1
        else:
            digits = TARGET_DIGITS
            _, exponent = np.frexp(largest)
            quantum = np.ldexp(1.0, exponent - (DIGIT_BITS * digits - 2))
        left = np.rint(away / quantum).astype(np.int64)
        codes = np.empty((*left.shape, digits), np.int8)
        for digit in range(digits):
            codes[..., digit] = left.astype(np.int8)  # the low byte, as a signed number
            left = (left - codes[..., digit]) >> DIGIT_BITS
        return TargetDigits(codes.reshape(len(y), -1), center, quantum, digits)

    @property
    def weights(self) -> Integers:
        """Weight of each digit, int64 [digits]."""
        return np.asarray(np.int64(1) << (DIGIT_BITS * np.arange(self.digits, dtype=np.int64)))

    def values(self, codes: Codes) -> Floats:
        """Return targets less their centers, float64 [rows, K]."""
        shaped = codes.reshape(len(codes), -1, self.digits)
        return np.asarray((shaped @ self.weights.astype(np.float64)) * self.quantum)


def _middle_codes(parts: Sequence[tuple[int, GramSum]], m: int) -> Integers:
    """Return the codes near the means of rows with factors: integers about them lose no digits to the means."""
    total = max(1, sum(factor * part.rows for factor, part in parts))
    sums = sum((factor * part.sums()[:m] for factor, part in parts), np.zeros(m, np.int64))
    return np.rint(sums / total).astype(np.int64)


def _of_integers(
    parts: Sequence[tuple[int, GramSum]], rows: int, middle: Integers, scale: CodeScale, digits: TargetDigits
) -> Moments:
    """Return the moments of Gram matrices, each with a factor, about the values of the codes `middle` [m]."""
    m, width = len(scale.unit), digits.codes.shape[1]
    total = sum(factor * part.rows for factor, part in parts)
    gram, sums = np.zeros((m + width,) * 2, np.int64), np.zeros(m + width, np.int64)
    for factor, part in parts:
        gram += factor * part.matrix()
        sums += factor * part.sums()
    q, t, unit, quantum = sums[:m], sums[m:], scale.unit, digits.quantum
    away = q - total * middle
    centered = gram[:m, :m] - np.outer(middle, q)
    centered -= np.outer(away, middle)
    products = centered * unit[:, None]
    products *= unit
    weights = digits.weights.astype(np.float64)
    cross = (gram[:m, m:] - np.outer(middle, t)).reshape(m, -1, digits.digits) @ weights
    squares = gram[m:, m:].reshape(len(digits.center), digits.digits, len(digits.center), digits.digits)
    return Moments(
        rows,
        float(total),
        scale.values(middle),
        products,
        away * unit,
        cross * unit[:, None] * quantum,
        digits.center,
        (t.reshape(-1, digits.digits) @ weights) * quantum,
        np.einsum("kikj,i,j->k", squares.astype(np.float64), weights, weights) * quantum**2,
    )


def _weighted_fold_moments(
    rows: CodedRows, digits: TargetDigits, folds: NDArray[np.intp], w: Floats, bits: int | None, count: int
) -> list[Moments]:
    scale = rows.scale if bits is None else rows.scale.at(rows.bits, bits)
    empty = _of_integers([], 0, np.zeros(len(scale.unit), np.int64), scale, digits)
    found = [empty] * count
    for block in rows.blocks(bits):
        here = slice(block.first, block.first + len(block.codes))
        y = digits.values(digits.codes[here])
        for (fold, _), chosen in _parts(folds[here], None):
            u = scale.unit * block.codes[chosen].astype(np.float64)
            found[fold] += _of_floats(u, y[chosen], w[here][chosen], empty.center, digits.center)
    return found


def _parts(
    folds: NDArray[np.intp], multiplicities: Integers | None
) -> Iterator[tuple[tuple[int, int], slice | NDArray[np.bool_]]]:
    """Yield folds and binary digits of multiplicities, and the rows of a block that have them."""
    if not len(folds):
        return
    for fold in np.unique(folds):
        inside = folds == fold
        if multiplicities is None:
            yield (int(fold), 0), slice(None) if inside.all() else inside
            continue
        for bit in range(int(multiplicities.max(initial=0)).bit_length()):
            chosen = inside & ((multiplicities >> bit & 1) == 1)
            if chosen.any():
                yield (int(fold), bit), chosen


def _of_floats(u: Floats | Singles, v: Floats, w: Floats, center: Floats, target_center: Floats) -> Moments:
    """Return the moments of values less their centers; products are of the dtype of u."""
    weighted = u if (w == 1).all() else u * w[:, None].astype(u.dtype)
    gram = (weighted.T @ u).astype(np.float64, copy=False)
    if u.dtype == np.float32 and weighted[:, np.diag(gram) == 0].any():
        gram[:] = np.inf  # squares of values that are not 0 are too small
    return Moments(
        int(np.count_nonzero(w)),
        float(w.sum()),
        center,
        gram,
        (np.ones(len(u), u.dtype) @ weighted).astype(np.float64, copy=False),
        (weighted.T @ v.astype(u.dtype, copy=False)).astype(np.float64, copy=False),
        target_center,
        w @ v,
        w @ v**2,
    )


def _center_of(rows: NDArray[Any], dtype: DTypeLike) -> Floats:
    """Return about the means [m] of rows; as float32, 0 where the mean is near, so that often nothing is taken off."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    some = rows[:: -(-len(rows) // LOOKED_AT)].astype(np.float64, copy=False)
    mean = some.mean(axis=0)
    if dtype == np.float32:
        mean[np.abs(mean) <= NEAR_0 * some.std(axis=0)] = 0
    return np.asarray(mean.astype(dtype).astype(np.float64))


def _differences(rows: NDArray[Any], center: Floats, dtype: DTypeLike) -> Floats | Singles:
    """Return rows less a center of this dtype, rounded once."""
    if dtype == rows.dtype == np.float32:
        return rows - center.astype(np.float32) if center.any() else rows
    return np.asarray((rows - center).astype(dtype, copy=False))


def _are_multiplicities(w: Floats) -> bool:
    return bool((w == np.rint(w)).all() and w.max(initial=0.0) <= LARGEST_MULTIPLICITY)


def target_matrix(targets: ArrayLike) -> Floats:
    """Return targets [rows] or [rows, K] as float64 [rows, K]."""
    y = np.asarray(targets, np.float64)
    return y[:, None] if y.ndim == 1 else y


def _middles(y: Floats) -> Floats:
    """Return an integer near the middle of each column."""
    if not len(y):
        return np.zeros(y.shape[1])
    return np.asarray(np.rint(0.5 * y.max(axis=0) + 0.5 * y.min(axis=0)))


def _reach(digits: int) -> int:
    """Return the largest number that balanced digits hold on both sides of 0."""
    return 127 * sum(1 << (DIGIT_BITS * digit) for digit in range(digits))
