"""Codes, labels and weights as the 64-bit words that lie in the accelerator's memory.

A row is `chunks` chunks of 32 features; a word holds one radix-4 digit of each feature of a chunk, feature j
in bits `2j+1 .. 2j`. The bit that an odd code has in front of its digits lies in a word of its own, one for two
chunks. A beat is `columns` words side by side, each of a row of its own: the rows of a group.
Words are numpy uint64 of a little-endian host, which all supported hosts are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .contract import (
    CHUNK,
    CHUNK_MODEL_BYTES,
    CHUNK_MODEL_WORDS,
    DIGIT_BITS,
    LABEL,
    LABELS_PER_WORD,
    MASTER,
    MASTER_OFFSET,
    MAX_DIGITS,
    MAX_OUTPUTS,
    PORT_WIDTHS,
    TABLE_BITS,
    WEIGHT,
    WORD_BITS,
    level_count,
    level_slots,
    record_words,
)
from .digits import pack_digits, pack_halves, unpack_digits, unpack_halves
from .errors import DataError

BLOCK_ROWS = 1024  # rows packed at a time, a multiple of LABELS_PER_WORD groups: what a cache holds
CUT_BITS = MASTER.fraction - WEIGHT.fraction  # of a master weight, that the dot product does not read

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Geometry:
    """The shape of a stored data set.

    An epoch's rows are cut into batches, each batch into groups of `columns` rows; the last batch may be
    shorter, and the last group of each batch. A beat of the memory port serves the rows of one group.

    Parameters
    ----------
    features: features of a row, without padding.
    rows: rows of an epoch.
    base_digits: radix-4 base digits a feature, 0 to 16.
    draws: whether a draw digit follows them.
    batch: rows of a mini-batch; may be more than there are.
    columns: words side by side in a beat: 1, 2, 4 or 8.
    outputs: models trained at a time, each with a label of its own.
    half: whether a base code has a bit in front of its digits; a word of them is two chunks'. With a table alone.
    table: whether features have levels of their own, for table lanes: double sampling, 1 to 3 base bits.

    Raises
    ------
    DataError: a size below one, too many digits, or none; columns or outputs that no hardware has.
    """

    features: int
    rows: int
    base_digits: int
    draws: bool
    batch: int
    columns: int = 1
    outputs: int = 1
    half: bool = False
    table: bool = False

    def __post_init__(self) -> None:
        if self.features < 1 or self.rows < 1:
            raise DataError(f"a table of {self.rows} rows and {self.features} features holds no sample")
        if not 0 <= self.base_digits <= MAX_DIGITS or not self.digits:
            raise DataError(f"{self.base_digits} base digits and {self.draws:d} draw digits are no precision")
        if self.half > self.table or (self.table and not (self.draws and self.base_bits in TABLE_BITS)):
            raise DataError(f"{self.base_bits} base bits, draws={self.draws}, table={self.table} are no precision")
        if self.batch < 1:
            raise DataError(f"a batch of {self.batch} rows holds no sample")
        if self.columns * WORD_BITS not in PORT_WIDTHS:
            raise DataError(f"{self.columns} columns: a port has 1, 2, 4 or 8")
        if not 1 <= self.outputs <= MAX_OUTPUTS:
            raise DataError(f"{self.outputs} outputs: the hardware trains 1 to {MAX_OUTPUTS} at a time")

    # --- rows, batches and groups ---
    @property
    def batches(self) -> int:
        """Batches an epoch."""
        return -(-self.rows // self.batch)

    @property
    def batch_groups(self) -> int:
        """Groups of a whole batch."""
        return -(-min(self.batch, self.rows) // self.columns)

    @property
    def groups(self) -> int:
        """Groups an epoch."""
        last = self.rows - (self.batches - 1) * self.batch
        return (self.batches - 1) * self.batch_groups - (-last // self.columns)

    @property
    def tails(self) -> tuple[int, int]:
        """Rows in the last group of a whole batch, and of the epoch."""
        last = self.rows - (self.batches - 1) * self.batch
        whole = min(self.batch, self.rows)
        return (whole - 1) % self.columns + 1, (last - 1) % self.columns + 1

    def first_row(self, group: int) -> int:
        """The row in column 0 of a group; all rows where there is no such group any more."""
        batch, place = divmod(group, self.batch_groups)
        return min(batch * self.batch + place * self.columns, self.rows)

    def group_start(self, row: int) -> int:
        """The first row of the group that holds `row`; all rows for the end of the epoch."""
        return row if row == self.rows else row - row % self.batch % self.columns

    def rows_of(self, groups: range) -> slice:
        """The rows of consecutive groups."""
        return slice(self.first_row(groups.start), self.first_row(groups.stop))

    def slots(self, groups: range) -> NDArray[np.intp]:
        """Where the rows of consecutive groups lie among their columns, group after group: int [rows]."""
        rows = self.rows_of(groups)
        batch, place = np.divmod(np.arange(rows.start, rows.stop), self.batch)
        group, column = np.divmod(place, self.columns)
        slots: NDArray[np.intp] = (batch * self.batch_groups + group - groups.start) * self.columns + column
        return slots

    # --- beats and words ---
    @property
    def chunks(self) -> int:
        """Chunks of 32 features a row."""
        return -(-self.features // CHUNK)

    @property
    def base_bits(self) -> int:
        """Bits of a base code."""
        return DIGIT_BITS * self.base_digits + self.half

    @property
    def digits(self) -> int:
        """Beats a chunk, half digits apart."""
        return self.base_digits + self.draws

    @property
    def stored_bits(self) -> int:
        """Bits that a feature is stored in."""
        return self.base_bits + DIGIT_BITS * self.draws

    @property
    def base_row_words(self) -> int:
        """Words of a row in the base region; with half digits every second chunk, from the first on, has one more."""
        return self.chunks * self.base_digits + self.half_words

    @property
    def row_words(self) -> int:
        """Words a row, and beats a group, labels apart."""
        return self.base_row_words + self.chunks * self.draws

    @property
    def levels(self) -> int:
        """Levels of a feature in its table; 0 without one."""
        return level_count(self.base_bits) if self.table else 0

    @property
    def level_slots(self) -> int:
        """Places that the levels of all chunks take in a lane; 0 without tables."""
        return self.chunks * level_slots(self.base_bits) if self.table else 0

    @property
    def half_words(self) -> int:
        """Words of half digits a row."""
        return self.half * -(-self.chunks // 2)

    @property
    def label_beats(self) -> int:
        """Label beats an epoch."""
        return -(-self.groups // LABELS_PER_WORD) * self.outputs

    @property
    def base_beats(self) -> int:
        """Beats of a base region: labels and base digits."""
        return self.label_beats + self.groups * self.base_row_words

    @property
    def draw_beats(self) -> int:
        """Beats of a draw region."""
        return self.groups * self.chunks * self.draws

    @property
    def base_words(self) -> int:
        """Words of a base region."""
        return self.base_beats * self.columns

    @property
    def draw_words(self) -> int:
        """Words of a draw region."""
        return self.draw_beats * self.columns

    @property
    def model_words(self) -> int:
        """Words of the models of all outputs."""
        return self.outputs * self.chunks * CHUNK_MODEL_WORDS

    @property
    def load_words(self) -> int:
        """Words that are read before the samples: the models, and each level of the tables like one more model."""
        return (self.outputs + self.levels) * self.chunks * CHUNK_MODEL_WORDS

    @property
    def load_beats(self) -> int:
        """Beats of them."""
        return self.load_words // self.columns

    @property
    def model_bytes(self) -> int:
        """Bytes of the models of all outputs."""
        return self.outputs * self.chunks * CHUNK_MODEL_BYTES

    @property
    def record_words(self) -> int:
        """Words of an epoch's trace record."""
        return record_words(self.outputs, self.columns)

    @property
    def beats(self) -> int:
        """Beats that an epoch reads."""
        return self.base_beats + self.draw_beats

    @property
    def raw_bound(self) -> float:
        """Cycles an epoch if nothing but the stored bits of features and labels moved, one beat a cycle."""
        return self.rows * (self.features * self.stored_bits + self._label_bits) / self._beat_bits

    @property
    def layout_bound(self) -> float:
        """Cycles an epoch at one beat a cycle, with the padding of the last chunk."""
        return self.rows * (CHUNK * self.row_words * DIGIT_BITS + self._label_bits) / self._beat_bits

    def base_span(self, groups: range) -> slice:
        """The words of a base region that hold some groups, from a multiple of four on."""
        labels = (-(-group // LABELS_PER_WORD) * self.outputs for group in (groups.start, groups.stop))
        return self._span(groups, self.base_row_words, *labels)

    def draw_span(self, groups: range) -> slice:
        """The words of a draw region that hold some groups."""
        return self._span(groups, self.chunks * self.draws)

    def _span(self, groups: range, group_beats: int, before: int = 0, until: int = 0) -> slice:
        start, stop = groups.start * group_beats + before, groups.stop * group_beats + until
        return slice(start * self.columns, stop * self.columns)

    @property
    def _label_bits(self) -> int:
        return self.outputs * LABEL.bits

    @property
    def _beat_bits(self) -> int:
        return self.columns * WORD_BITS


def pack_base(
    codes: NDArray[np.uint32], labels: NDArray[np.int16], geometry: Geometry, groups: range | None = None
) -> Words:
    """A base region, or a part of it.

    Parameters
    ----------
    codes: uint32 [rows, n], base codes below `2**base_bits`.
    labels: int16 [rows, outputs], in units of `2**-15`.
    geometry: of the whole region.
    groups: that these rows fill, all when None; they begin and end at a multiple of four, or at the end.

    Returns
    -------
    uint64, `geometry.base_span(groups)` of the region.

    Raises
    ------
    DataError: arrays of another shape.
    """
    groups = range(geometry.groups) if groups is None else groups
    slots = geometry.slots(groups)
    _expect(codes, (len(slots), geometry.features), "codes")
    _expect(labels, (len(slots), geometry.outputs), "labels")
    columns, outputs, row_words = geometry.columns, geometry.outputs, geometry.base_row_words
    fours = -(-len(groups) // LABELS_PER_WORD)
    beats = np.zeros((fours, outputs + LABELS_PER_WORD * row_words, columns), np.uint64)

    padded = np.zeros((fours * LABELS_PER_WORD * columns, outputs), np.int16)
    padded[slots] = labels
    fields = padded.reshape(fours, LABELS_PER_WORD, columns, outputs).transpose(0, 3, 2, 1)
    beats[:, :outputs] = np.ascontiguousarray(fields).view(np.uint64)[..., 0]
    if row_words:
        step = BLOCK_ROWS // columns
        for first in range(0, len(groups), step):
            words = _pack_rows(codes, slots, range(first * columns, (first + step) * columns), geometry)
            some = beats[first // LABELS_PER_WORD : (first + step) // LABELS_PER_WORD, outputs:]
            turned = words.reshape(-1, LABELS_PER_WORD, columns, row_words).transpose(0, 1, 3, 2)
            some[:] = turned.reshape(-1, LABELS_PER_WORD * row_words, columns)[: len(some)]
    span = geometry.base_span(groups)
    return beats.reshape(-1)[: span.stop - span.start]


def unpack_base(
    words: Words, geometry: Geometry, groups: range | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.int16]]:
    """Codes uint32 [rows, n] and labels int16 [rows, outputs] of a base region: the inverse of `pack_base`."""
    groups = range(geometry.groups) if groups is None else groups
    span = geometry.base_span(groups)
    _expect(words, (span.stop - span.start,), "words")
    columns, outputs, row_words = geometry.columns, geometry.outputs, geometry.base_row_words
    fours = -(-len(groups) // LABELS_PER_WORD)
    beats = np.zeros((fours, outputs + LABELS_PER_WORD * row_words, columns), np.uint64)
    beats.reshape(-1)[: len(words)] = words
    slots = geometry.slots(groups)
    fields = np.ascontiguousarray(beats[:, :outputs, :, None]).view(np.int16)
    labels = fields.transpose(0, 3, 2, 1).reshape(-1, outputs)[slots]
    turned = beats[:, outputs:].reshape(fours * LABELS_PER_WORD, row_words, columns).transpose(0, 2, 1)
    return _unpack_rows(turned.reshape(fours * LABELS_PER_WORD * columns, row_words)[slots], geometry), labels


def pack_draws(codes: NDArray[np.uint8], geometry: Geometry, groups: range | None = None) -> Words:
    """A draw region, or some groups of it.

    codes uint8 [rows, n], `2 * u1 + u2`; the words are `geometry.draw_span(groups)`. DataError otherwise.
    """
    groups = range(geometry.groups) if groups is None else groups
    slots = geometry.slots(groups)
    _expect(codes, (len(slots), geometry.features), "codes")
    columns = geometry.columns
    words = np.zeros((len(groups) * columns, geometry.chunks, 1), np.uint64)
    for first in range(0, len(words), BLOCK_ROWS):
        _pack_slots(pack_digits, codes, slots, first, words[first : first + BLOCK_ROWS])
    turned: Words = words.reshape(-1, columns, geometry.chunks).transpose(0, 2, 1)
    return turned.reshape(-1)


def unpack_draws(words: Words, geometry: Geometry, groups: range | None = None) -> NDArray[np.uint8]:
    """Draw codes uint8 [rows, n] of a draw region: the inverse of `pack_draws`."""
    groups = range(geometry.groups) if groups is None else groups
    columns = geometry.columns
    _expect(words, (len(groups) * geometry.chunks * columns,), "words")
    turned = words.reshape(-1, geometry.chunks, columns).transpose(0, 2, 1)
    digits = turned.reshape(-1, geometry.chunks, 1)[geometry.slots(groups)]
    return unpack_digits(digits, geometry.features).astype(np.uint8)


def master_weights(weights: NDArray[np.float64]) -> NDArray[np.int32]:
    """Scaled weights, float64 of any shape, as stored: int32 in units of `2**-28`, nearest of those read, clipped."""
    units = np.clip(np.rint(np.ldexp(weights, WEIGHT.fraction)), WEIGHT.minimum, WEIGHT.maximum).astype(np.int32)
    master: NDArray[np.int32] = (units << CUT_BITS) + np.int32(MASTER_OFFSET)
    return master


def weight_values(master: NDArray[np.int32]) -> NDArray[np.float64]:
    """Scaled weights, float64, that the dot product reads of stored int32 ones of any shape."""
    return np.ldexp((master >> CUT_BITS).astype(np.float64), -WEIGHT.fraction)


def pack_master(master: NDArray[np.int32]) -> Words:
    """Master weights int32 [..., n], two a word, the even feature low; missing features are stored as 0 is."""
    return _pack_model(master, MASTER_OFFSET)


def pack_levels(levels: NDArray[np.int32]) -> Words:
    """Level k of every feature, int32 [levels, n] in units of `2**-16`, as one more model; missing features are 0."""
    return _pack_model(levels, 0)


def unpack_master(words: Words, features: int) -> NDArray[np.int32]:
    """Int32 [models, features] of models, or levels, stored one after the other: the packing undone."""
    chunks = -(-features // CHUNK)
    models: NDArray[np.int32] = np.array(words).view(np.int32).reshape(-1, chunks * CHUNK)
    return models[:, :features]


def _pack_model(values: NDArray[np.int32], missing: int) -> Words:
    features = values.shape[-1]
    padded = np.full((*values.shape[:-1], -(-features // CHUNK) * CHUNK), missing, np.int32)
    padded[..., :features] = values
    return padded.reshape(-1).view(np.uint64)


def _pack_rows(codes: NDArray[np.uint32], slots: NDArray[np.intp], some: range, geometry: Geometry) -> Words:
    """The base words of some slots, [slots, base_row_words], 0 where no row lies."""
    chunks = 2 * geometry.half_words if geometry.half else geometry.chunks
    digits = np.zeros((len(some), chunks, geometry.base_digits), np.uint64)
    if geometry.base_digits:
        _pack_slots(pack_digits, codes, slots, some.start, digits)
    if not geometry.half:
        return digits.reshape(len(some), -1)
    halves = np.zeros((len(some), geometry.half_words), np.uint64)
    _pack_slots(partial(pack_halves, digits=geometry.base_digits), codes, slots, some.start, halves)
    of_pairs = digits.reshape(*halves.shape, 2 * geometry.base_digits)
    words = np.concatenate([halves[..., np.newaxis], of_pairs], axis=2)
    return words.reshape(len(some), -1)[:, : geometry.base_row_words]


def _unpack_rows(words: Words, geometry: Geometry) -> NDArray[np.uint32]:
    """Codes uint32 [rows, features] of base words [rows, base_row_words]."""
    rows, features, digits = len(words), geometry.features, geometry.base_digits
    if not geometry.half:
        return unpack_digits(words.reshape(rows, geometry.chunks, digits), features)
    padded = np.zeros((rows, geometry.half_words * (1 + 2 * digits)), np.uint64)
    padded[:, : geometry.base_row_words] = words
    pairs = padded.reshape(rows, geometry.half_words, 1 + 2 * digits)
    codes = unpack_digits(pairs[..., 1:].reshape(rows, 2 * geometry.half_words, digits), features)
    codes |= unpack_halves(pairs[..., 0], features).astype(np.uint32) << np.uint32(DIGIT_BITS * digits)
    return codes


def _pack_slots(
    pack: Callable[[NDArray[np.unsignedinteger], Words], None],
    codes: NDArray[np.unsignedinteger],
    slots: NDArray[np.intp],
    first: int,
    words: Words,
) -> None:
    """Fills words [slots, ...], the slots from `first` on, with what `pack` makes of the rows that lie there."""
    start, stop = np.searchsorted(slots, [first, first + len(words)])
    if stop > start and slots[stop - 1] - slots[start] == stop - 1 - start:  # nothing missing between
        at = slots[start] - first
        pack(codes[start:stop], words[at : at + stop - start])
        return
    packed = np.zeros((stop - start, *words.shape[1:]), np.uint64)
    pack(codes[start:stop], packed)
    words[slots[start:stop] - first] = packed


def _expect(array: NDArray[np.generic], shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}, but the geometry says {shape}")
