"""Rows of a data set, encoded as the words of the accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import GROUP_SETS, DrawSet, draw_words, row_words
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import LABELS_PER_WORD
from bitlane.contract.packing import Words, base_row_offsets, draw_row_offsets, pack_base, pack_draws, pack_labels
from bitlane.contract.precision import Precision
from bitlane.contract.prng import INDEX_STEP, SEED_BITS
from bitlane.contract.prng import Words as RandomWords
from bitlane.contract.shards import shard_base, shard_draws
from bitlane.levels.codebooks import Codebook
from bitlane.levels.codes import codebook_codes, codebook_draws
from bitlane.quantization.c_kernels import RowsInRegion, c_kernels
from bitlane.quantization.encode import encode_base, encode_draws
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import Matrix, Scaling
from bitlane.quantization.source import VALUE_TYPES, holds_scales, pack_source
from bitlane.support.rng import seed_word

from .plane_samples import PlaneSamples

ENCODE_VALUES = 1 << 15  # values that numpy encodes at a time: what a cache holds
SMALL = 1 << 18  # values of a table that numpy encodes, so that nothing is built


class SampleEncoder:
    """Encodes rows of a data set as words: large tables in C, small ones, and all without a compiler, in numpy.

    Both give the same bits. Words of an encoded table are moved and drawn from its planes.

    The draws of a row depend on the seed, the set and the number of the row. So they do not depend on the launches and
    the order in which rows are encoded.

    Parameters
    ----------
    X : array, RowTable or EncodedTable, shape (rows, n)
        Features, in user units.
    y : array, shape (rows, outputs)
        Targets, in user units.
    scaling : Scaling
        Scaling of both.
    precision : Precision
        Precision of the stored samples.
    seed : int
        Seed of the draws.
    levels : ndarray of int32, optional
        Codebook of each feature, if the precision has codebooks. These are encoded in numpy.
    threads : int, optional
        Threads of machine code; as many as the machine has by default.
    first_row : int, default=0
        Number of the first row, if these are some rows of a data set.

    Attributes
    ----------
    levels : ndarray of int32 or None
        As the parameter.
    kernels : Kernels or None
        Machine code that encodes: None is numpy.
    """

    def __init__(
        self,
        X: Matrix,
        y: Matrix,
        scaling: Scaling,
        precision: Precision,
        seed: int,
        levels: Codebook | None = None,
        threads: int | None = None,
        *,
        first_row: int = 0,
    ):
        self.levels = levels
        self._X = X
        self._y = y
        self._scaling = scaling
        self._precision = precision
        self._seed = seed
        self._threads = threads
        self._first_row = first_row
        self._mapped = position_map(scaling, precision)
        self.kernels = c_kernels() if levels is None and X.size >= SMALL else None
        suits = levels is None and PlaneSamples.suit(X, scaling, precision)
        self._planes = PlaneSamples(X, scaling, precision, threads) if suits else None  # type: ignore[arg-type]

    def base(self, geometry: Geometry, first: int, number: int = 0) -> Words:
        """Return the base region of this geometry, with the rows from `first` on, of draw set `number`.

        Only with naive sampling do the sets have different base regions.
        """
        return shard_base(self._base(geometry.unsharded, first, number), geometry)

    def draws(self, geometry: Geometry, first: int, numbers: Sequence[int]) -> list[Words]:
        """Return the draw regions of this geometry, with the rows from `first` on, of the draw sets `numbers`."""
        return [shard_draws(words, geometry) for words in self._draws(geometry.unsharded, first, numbers)]

    def _base(self, geometry: Geometry, first: int, number: int) -> Words:
        """Return a base region for a build without shards."""
        rows = slice(first, first + geometry.rows)
        random = self._random(number, rows) if self._precision.sampling == "naive" else None
        if self._planes is not None:
            return self._planes.base(self._scaling.labels(self._y[rows]), geometry, rows)
        if self.kernels is None:
            return self._numpy_base(geometry, rows, random)
        words = pack_labels(self._scaling.labels(self._y[rows]), geometry)
        if geometry.base_row_words:
            target = RowsInRegion(words, base_row_offsets(geometry), geometry.rows_per_beat)
            encode_base(self.kernels, self._X[rows], self._mapped, random, target, self._threads)
        return words

    def _draws(self, geometry: Geometry, first: int, numbers: Sequence[int]) -> list[Words]:
        """Return draw regions for a build without shards."""
        rows = slice(first, first + geometry.rows)
        regions = []
        for group, sets in groupby(numbers, lambda number: number // GROUP_SETS):
            masks = np.array([self._draw_set(number).mask for number in sets])
            random = self._random(group, rows)
            if self._planes is not None:
                regions += self._planes.draws(geometry, rows, random, masks)
                continue
            if self.kernels is None:
                regions += self._numpy_draws(geometry, rows, random, masks)
                continue
            words = np.zeros((len(masks), geometry.draw_words), np.uint64)
            target = RowsInRegion(words, draw_row_offsets(geometry), geometry.rows_per_beat)
            encode_draws(self.kernels, self._X[rows], self._mapped, random, masks, target, self._threads)
            regions += list(words)
        return regions

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        dtype: np.dtype[Any] = self._X.dtype
        return dtype

    def device_can_encode(self, base_bits: int) -> bool:
        """Return whether an encoder in hardware reads such features, with scales of up to `base_bits` base bits."""
        return self.dtype in VALUE_TYPES and holds_scales(self._mapped, base_bits)

    def source(self, geometry: Geometry, base_bits: int) -> Words:
        """Return the source region of all rows for an encoder in hardware."""
        labels = self._scaling.labels(self._y[: geometry.rows])
        return pack_source(np.asarray(self._X[: geometry.rows]), labels, self._mapped, geometry, base_bits)

    def device_set(self, number: int) -> DrawSet:
        """Return draw set `number` for an encoder in hardware, which counts rows from the first one here."""
        seed, in_group = self._draw_set(number)
        return DrawSet((seed + self._first_row * INDEX_STEP) % (1 << SEED_BITS), in_group)

    def _draw_set(self, number: int) -> DrawSet:
        group, in_group = divmod(number, GROUP_SETS)
        return DrawSet(seed_word(self._seed, group), in_group)

    def _random(self, purpose: int, rows: slice) -> RandomWords:
        """Return the random words of rows in a group of draw sets, or in a set of naive sampling: uint32 [rows]."""
        return row_words(
            seed_word(self._seed, purpose), range(self._first_row + rows.start, self._first_row + rows.stop)
        )

    def _numpy_base(self, geometry: Geometry, rows: slice, random: RandomWords | None) -> Words:
        X, labels = self._X[rows], self._scaling.labels(self._y[rows])
        pieces = []
        for groups, some in _pieces(geometry):
            words = None if random is None else draw_words(random[some], geometry.features)
            pieces.append(pack_base(self._base_codes(X[some], words), labels[some], geometry, groups))
        return np.concatenate(pieces)

    def _numpy_draws(
        self, geometry: Geometry, rows: slice, random: RandomWords, masks: NDArray[np.uint32]
    ) -> list[Words]:
        X = self._X[rows]
        pieces: list[list[Words]] = [[] for _ in masks]
        for groups, some in _pieces(geometry):
            words = draw_words(random[some], geometry.features) ^ masks[:, None, None]
            for codes, done in zip(self._draw_codes(X[some], words), pieces, strict=True):
                done.append(pack_draws(codes, geometry, groups))
        return [np.concatenate(each) for each in pieces]

    def _base_codes(self, X: Matrix, words: RandomWords | None) -> NDArray[np.uint32]:
        if self.levels is not None:
            return codebook_codes(self._scaling.values(X), self.levels)
        return base_codes(self._mapped.positions(X), self._precision, words)

    def _draw_codes(self, X: Matrix, words: RandomWords) -> NDArray[np.uint8]:
        if self.levels is not None:
            return codebook_draws(self._scaling.values(X), self.levels, words)
        return draw_codes(self._mapped.positions(X), self._precision, words)


def _pieces(geometry: Geometry) -> Iterator[tuple[range, slice]]:
    """Yield groups that begin at label words and hold about `ENCODE_VALUES` values, and their rows."""
    values = geometry.features * geometry.rows_per_beat
    step = max(1, ENCODE_VALUES // values // LABELS_PER_WORD) * LABELS_PER_WORD
    for start in range(0, geometry.groups, step):
        groups = range(start, min(start + step, geometry.groups))
        yield groups, geometry.rows_of(groups)
