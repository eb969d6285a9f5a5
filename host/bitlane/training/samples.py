"""Rows of a data set, encoded as the words of the accelerator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import LABELS_PER_WORD
from bitlane.contract.packing import Words, pack_base, pack_draws
from bitlane.contract.precision import Precision
from bitlane.levels.codebooks import Codebook
from bitlane.levels.codes import codebook_codes, codebook_draws
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import Floats, Matrix, Scaling
from bitlane.support.rng import generator

ENCODE_VALUES = 1 << 18  # values scaled and quantized at a time


class SampleEncoder:
    """Encodes rows of a data set as words.

    Parameters
    ----------
    X : array, shape (rows, n)
        Features, in user units.
    y : array, shape (rows, outputs)
        Targets, in user units.
    scaling : Scaling
        Scaling of both. `Scaling.values` returns as many columns as the geometry has features.
    precision : Precision
        Precision of the stored samples.
    seed : int
        Seed of the draws.
    levels : ndarray of int32, optional
        Codebook of each feature, if the precision has codebooks.
    """

    def __init__(
        self,
        X: Matrix,
        y: Matrix,
        scaling: Scaling,
        precision: Precision,
        seed: int,
        levels: Codebook | None = None,
    ):
        self.levels = levels
        self._X = X
        self._y = y
        self._scaling = scaling
        self._precision = precision
        self._seed = seed

    def set_generator(self, number: int) -> np.random.Generator:
        """Return the random numbers of a set, which do not depend on other sets."""
        return generator(self._seed, number)

    def base(self, geometry: Geometry, first: int, rng: np.random.Generator | None) -> Words:
        """Return the base region of this geometry, with the rows from `first` on. Only naive sampling needs `rng`."""
        pieces = []
        for groups, rows in self._pieces(geometry, first):
            codes = self._base_codes(self._scaling.values(self._X[rows]), rng)
            pieces.append(pack_base(codes, self._scaling.labels(self._y[rows]), geometry, groups))
        return np.concatenate(pieces)

    def draws(self, geometry: Geometry, first: int, rng: np.random.Generator) -> Words:
        """Return the draw region of this geometry, with the rows from `first` on."""
        pieces = []
        for groups, rows in self._pieces(geometry, first):
            codes = self._draw_codes(self._scaling.values(self._X[rows]), rng)
            pieces.append(pack_draws(codes, geometry, groups))
        return np.concatenate(pieces)

    def _base_codes(self, values: Floats, rng: np.random.Generator | None) -> NDArray[np.uint32]:
        if self.levels is not None:
            return codebook_codes(values, self.levels)
        return base_codes(values, self._precision, rng)

    def _draw_codes(self, values: Floats, rng: np.random.Generator) -> NDArray[np.uint8]:
        if self.levels is not None:
            return codebook_draws(values, self.levels, rng)
        return draw_codes(values, self._precision, rng)

    def _pieces(self, geometry: Geometry, first: int) -> Iterator[tuple[range, slice]]:
        """Yield groups that begin at label words and hold about `ENCODE_VALUES` values, and their rows."""
        values = self._X.shape[1] * geometry.rows_per_beat
        step = max(1, ENCODE_VALUES // values // LABELS_PER_WORD) * LABELS_PER_WORD
        for start in range(0, geometry.groups, step):
            groups = range(start, min(start + step, geometry.groups))
            rows = geometry.rows_of(groups)
            yield groups, slice(first + rows.start, first + rows.stop)
