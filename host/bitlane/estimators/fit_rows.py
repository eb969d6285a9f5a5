"""The rows that a fit trains on, and those that it holds out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.row_table import reordered
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.rng import generator
from bitlane.support.scalars import as_number

from .row_copies import relative_copies

HELD_OUT = 1 << 34  # generator of the rows that are held out; calls of partial_fit have those before
COPIES = HELD_OUT + 1  # generator of the copies of rows

RowNumbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that a training does not read.

    Attributes
    ----------
    table : array or RowTable [rows, n]
    targets : float64 array [rows, targets]
    weights : float64 array [rows], or None
    """

    table: Matrix
    targets: Floats
    weights: Floats | None


@dataclass(frozen=True, eq=False)
class FitRows:
    """Rows to train on, as many copies of each as its weight asks for, and rows that are held out.

    Attributes
    ----------
    table : array or RowTable [copies, n]
    targets : float64 array [copies, targets]
    rows : int
        Rows that they are copies of.
    held : HeldOut or None
    """

    table: Matrix
    targets: Floats
    rows: int
    held: HeldOut | None = None

    @classmethod
    def of(
        cls, table: Matrix, targets: Floats, weights: Floats | None, fraction: float | None, classes: bool, seed: int
    ) -> FitRows:
        """Return the rows of a fit.

        Parameters
        ----------
        table : array or RowTable [rows, n]
        targets : float64 array [rows, targets]
        weights : float64 array [rows], or None
            Each at least 0, and one above 0.
        fraction : float or None
            Share of the rows that are held out; None: no row.
        classes : bool
            Whether the targets are classes: then the same share of each is held out.
        seed : int
            That of the training.

        Raises
        ------
        DataError
            A fraction that leaves too few rows, or weights of 0 for all rows of a part.
        """
        held, kept = None, np.arange(len(table))
        if fraction is not None:
            kept, out = split(fraction, targets, classes, generator(seed, HELD_OUT))
            held = HeldOut(reordered(table, out), targets[out], None if weights is None else weights[out])
            if weights is not None and not (weights[out].any() and weights[kept].any()):
                raise DataError(
                    "The sample weights for validation set are all zero, or those of the rows to train on: consider "
                    "using a different random state"
                )
        read = kept if weights is None else np.repeat(kept, relative_copies(weights[kept], generator(seed, COPIES)))
        if len(read) != len(table) or (read != np.arange(len(read))).any():
            table, targets = reordered(table, read), targets[read]
        return cls(table, targets, len(kept), held)


def split(
    fraction: float, targets: Floats, classes: bool, random: np.random.Generator
) -> tuple[RowNumbers, RowNumbers]:
    """Return the numbers of the rows to train on, and of those to hold out, both ascending.

    Parameters
    ----------
    fraction : float
        Of the rows to hold out, above 0 and below 1.
    targets : float64 array [rows, targets]
    classes : bool
        Whether rows with the same targets are a class, of each of which the same share is held out.
    random : numpy.random.Generator

    Raises
    ------
    DataError
        A fraction that is out of range, or that leaves less than two rows or not all classes to train on.
    """
    share = as_number("validation_fraction", fraction)
    if not 0 < share < 1:
        raise DataError(f"validation_fraction={fraction!r}: it must be above 0 and below 1")
    rows = len(targets)
    kinds = np.unique(targets, axis=0, return_inverse=True)[1].reshape(rows) if classes else np.zeros(rows, np.intp)
    places = np.empty(rows)  # the rows of each class lie at equal distances, in random order; the first are held out
    for kind in range(kinds.max(initial=0) + 1):
        own = random.permutation(np.flatnonzero(kinds == kind))
        places[own] = (np.arange(len(own)) + random.random()) / len(own)
    chosen = np.zeros(rows, np.bool_)
    chosen[np.argsort(places, kind="stable")[: round(rows * share)]] = True
    kept, out = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    if not len(out) or len(kept) < 2 or len(np.unique(kinds[kept])) <= kinds.max(initial=0):
        raise DataError(
            f"validation_fraction={fraction!r} of {rows} rows leaves too few rows, or not all classes, to one part"
        )
    return kept, out
