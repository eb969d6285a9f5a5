"""Codes, labels and weights as the 64-bit words in the accelerator's memory.

A row is `chunks` chunks of 32 features. A word holds one radix-4 digit of each feature of a chunk, feature j in bits
``2j+1 .. 2j``. A code with an odd number of bits has one bit before its digits; a separate word holds these bits of two
chunks. A beat is `rows_per_beat` words side by side, each from a different row of the group; for builds with shards see
`bitlane.contract.shards`.
Words are numpy uint64 of a little-endian host; all supported hosts are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .digits import pack_digits, pack_halves, unpack_digits, unpack_halves
from .formats import MASTER, MASTER_OFFSET, WEIGHT
from .geometry import Geometry
from .layout import (
    CHUNK,
    DIGIT_BITS,
    LABELS_PER_WORD,
)
from .shards import Words as Words
from .shards import shard_base, shard_draws, unshard_base, unshard_draws

BLOCK_ROWS = 1024  # rows packed at a time, a multiple of LABELS_PER_WORD groups: what a cache holds
CUT_BITS = MASTER.fraction - WEIGHT.fraction  # of a master weight, that the dot product does not read


def pack_base(
    codes: NDArray[np.uint32], labels: NDArray[np.int16], geometry: Geometry, groups: range | None = None
) -> Words:
    """Pack base codes and labels as a base region, or as some rows of it.

    Parameters
    ----------
    codes : uint32 array [rows, n]
        Base codes below ``2**base_bits``.
    labels : int16 array [rows, outputs]
        In units of ``2**-15``.
    geometry : Geometry
        Of the complete region.
    groups : range, optional
        Groups that these rows fill; they start and end at a multiple of `geometry.label_groups`, or at the end of the
        epoch. All groups by default.

    Returns
    -------
    uint64 array
        The words ``geometry.base_span(groups)`` of the region.

    Raises
    ------
    DataError
        An array has another shape.
    """
    if geometry.shards > 1:
        return shard_base(pack_base(codes, labels, geometry.unsharded, groups), geometry, groups)
    groups = range(geometry.groups) if groups is None else groups
    slots = geometry.slots(groups)
    _check_shape(codes, (len(slots), geometry.features), "codes")
    columns, outputs, row_words = geometry.rows_per_beat, geometry.outputs, geometry.base_row_words
    beats = _label_beats(labels, geometry, groups)
    if row_words:
        step = BLOCK_ROWS // columns
        for first in range(0, len(groups), step):
            words = _pack_rows(codes, slots, range(first * columns, (first + step) * columns), geometry)
            some = beats[first // LABELS_PER_WORD : (first + step) // LABELS_PER_WORD, outputs:]
            turned = words.reshape(-1, LABELS_PER_WORD, columns, row_words).transpose(0, 1, 3, 2)
            some[:] = turned.reshape(-1, LABELS_PER_WORD * row_words, columns)[: len(some)]
    span = geometry.base_span(groups)
    return beats.reshape(-1)[: span.stop - span.start]


def pack_labels(labels: NDArray[np.int16], geometry: Geometry) -> Words:
    """Return the base region of labels, int16 [rows, outputs], whose digits are all 0."""
    groups = range(geometry.groups)
    return _label_beats(labels, geometry, groups).reshape(-1)[: geometry.base_words]


def base_row_offsets(geometry: Geometry) -> NDArray[np.intp]:
    """Return where the digits of each row begin in a base region: int [rows]. A row has every P-th word from there."""
    group, column = np.divmod(geometry.slots(range(geometry.groups)), geometry.rows_per_beat)
    beat = (group // LABELS_PER_WORD + 1) * geometry.outputs + group * geometry.base_row_words
    offsets: NDArray[np.intp] = beat * geometry.rows_per_beat + column
    return offsets


def draw_row_offsets(geometry: Geometry) -> NDArray[np.intp]:
    """Return where the draw words of each row begin in a draw region: int [rows]. A row has every P-th word."""
    group, column = np.divmod(geometry.slots(range(geometry.groups)), geometry.rows_per_beat)
    offsets: NDArray[np.intp] = group * geometry.chunks * geometry.rows_per_beat + column
    return offsets


def unpack_base(
    words: Words, geometry: Geometry, groups: range | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.int16]]:
    """Return codes, uint32 [rows, n], and labels, int16 [rows, outputs]: the inverse of `pack_base`."""
    groups = range(geometry.groups) if groups is None else groups
    span = geometry.base_span(groups)
    _check_shape(words, (span.stop - span.start,), "words")
    if geometry.shards > 1:
        return unpack_base(unshard_base(words, geometry, groups), geometry.unsharded, groups)
    columns, outputs, row_words = geometry.rows_per_beat, geometry.outputs, geometry.base_row_words
    fours = -(-len(groups) // LABELS_PER_WORD)
    beats = np.zeros((fours, outputs + LABELS_PER_WORD * row_words, columns), np.uint64)
    beats.reshape(-1)[: len(words)] = words
    slots = geometry.slots(groups)
    fields = np.ascontiguousarray(beats[:, :outputs, :, None]).view(np.int16)
    labels = fields.transpose(0, 3, 2, 1).reshape(-1, outputs)[slots]
    turned = beats[:, outputs:].reshape(fours * LABELS_PER_WORD, row_words, columns).transpose(0, 2, 1)
    return _unpack_rows(turned.reshape(fours * LABELS_PER_WORD * columns, row_words)[slots], geometry), labels


def pack_draws(codes: NDArray[np.uint8], geometry: Geometry, groups: range | None = None) -> Words:
    """Pack draw codes as a draw region, or as some groups of it.

    Parameters
    ----------
    codes : uint8 array [rows, n]
        ``2 * u1 + u2``.
    geometry : Geometry
        Of the complete region.
    groups : range, optional
        Groups that these rows fill; all by default.

    Returns
    -------
    uint64 array
        The words ``geometry.draw_span(groups)`` of the region.

    Raises
    ------
    DataError
        The array has another shape.
    """
    if geometry.shards > 1:
        return shard_draws(pack_draws(codes, geometry.unsharded, groups), geometry)
    groups = range(geometry.groups) if groups is None else groups
    slots = geometry.slots(groups)
    _check_shape(codes, (len(slots), geometry.features), "codes")
    columns = geometry.rows_per_beat
    words = np.zeros((len(groups) * columns, geometry.chunks, 1), np.uint64)
    for first in range(0, len(words), BLOCK_ROWS):
        _pack_slots(pack_digits, codes, slots, first, words[first : first + BLOCK_ROWS])
    turned: Words = words.reshape(-1, columns, geometry.chunks).transpose(0, 2, 1)
    return turned.reshape(-1)


def unpack_draws(words: Words, geometry: Geometry, groups: range | None = None) -> NDArray[np.uint8]:
    """Return the draw codes, uint8 [rows, n], of a draw region: the inverse of `pack_draws`."""
    groups = range(geometry.groups) if groups is None else groups
    columns = geometry.rows_per_beat
    _check_shape(words, (len(groups) * geometry.chunks * geometry.words_per_beat,), "words")
    if geometry.shards > 1:
        return unpack_draws(unshard_draws(words, geometry), geometry.unsharded, groups)
    turned = words.reshape(-1, geometry.chunks, columns).transpose(0, 2, 1)
    digits = turned.reshape(-1, geometry.chunks, 1)[geometry.slots(groups)]
    return unpack_digits(digits, geometry.features).astype(np.uint8)


def master_weights(weights: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return scaled weights as stored: int32 in units of ``2**-28``.

    Each weight becomes the nearest value that the dot product can read, and is clipped to the range of the format.

    Parameters
    ----------
    weights : float64 array

    Returns
    -------
    int32 array
        With the same shape.
    """
    units = np.clip(np.rint(np.ldexp(weights, WEIGHT.fraction)), WEIGHT.minimum, WEIGHT.maximum).astype(np.int32)
    master: NDArray[np.int32] = (units << CUT_BITS) + np.int32(MASTER_OFFSET)
    return master


def weight_values(master: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the scaled weights, float64, that the dot product reads from master weights of any shape."""
    return np.ldexp((master >> CUT_BITS).astype(np.float64), -WEIGHT.fraction)


def pack_master(master: NDArray[np.int32]) -> Words:
    """Pack master weights or levels, int32 [..., n]: two in a word, the even feature in the low half, padded with 0."""
    features = master.shape[-1]
    padded = np.zeros((*master.shape[:-1], -(-features // CHUNK) * CHUNK), np.int32)
    padded[..., :features] = master
    return padded.reshape(-1).view(np.uint64)


def unpack_master(words: Words, features: int) -> NDArray[np.int32]:
    """Return the int32 values [models, features] of consecutive models or levels: the inverse of `pack_master`."""
    chunks = -(-features // CHUNK)
    models: NDArray[np.int32] = np.array(words).view(np.int32).reshape(-1, chunks * CHUNK)
    return models[:, :features]


def _label_beats(labels: NDArray[np.int16], geometry: Geometry, groups: range) -> Words:
    """Return complete fours of groups, [fours, beats, columns], with labels and without digits."""
    slots = geometry.slots(groups)
    _check_shape(labels, (len(slots), geometry.outputs), "labels")
    columns, outputs = geometry.rows_per_beat, geometry.outputs
    fours = -(-len(groups) // LABELS_PER_WORD)
    beats = np.zeros((fours, outputs + LABELS_PER_WORD * geometry.base_row_words, columns), np.uint64)
    padded = np.zeros((fours * LABELS_PER_WORD * columns, outputs), np.int16)
    padded[slots] = labels
    fields = padded.reshape(fours, LABELS_PER_WORD, columns, outputs).transpose(0, 3, 2, 1)
    beats[:, :outputs] = np.ascontiguousarray(fields).view(np.uint64)[..., 0]
    return beats


def _pack_rows(codes: NDArray[np.uint32], slots: NDArray[np.intp], some: range, geometry: Geometry) -> Words:
    """Return the base words of some slots, [slots, base_row_words]; 0 for slots without a row."""
    chunks = 2 * geometry.half_words if geometry.half_digit else geometry.chunks
    digits = np.zeros((len(some), chunks, geometry.base_digits), np.uint64)
    if geometry.base_digits:
        _pack_slots(pack_digits, codes, slots, some.start, digits)
    if not geometry.half_digit:
        return digits.reshape(len(some), -1)
    halves = np.zeros((len(some), geometry.half_words), np.uint64)
    _pack_slots(partial(pack_halves, digits=geometry.base_digits), codes, slots, some.start, halves)
    of_pairs = digits.reshape(*halves.shape, 2 * geometry.base_digits)
    words = np.concatenate([halves[..., np.newaxis], of_pairs], axis=2)
    return words.reshape(len(some), -1)[:, : geometry.base_row_words]


def _unpack_rows(words: Words, geometry: Geometry) -> NDArray[np.uint32]:
    """Return the codes, uint32 [rows, features], of base words [rows, base_row_words]."""
    rows, features, digits = len(words), geometry.features, geometry.base_digits
    if not geometry.half_digit:
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
    """Fill words [slots, ...], starting with slot `first`, with the result of `pack` for the rows in these slots."""
    start, stop = np.searchsorted(slots, [first, first + len(words)])
    if stop > start and slots[stop - 1] - slots[start] == stop - 1 - start:  # nothing missing between
        at = slots[start] - first
        pack(codes[start:stop], words[at : at + stop - start])
        return
    packed = np.zeros((stop - start, *words.shape[1:]), np.uint64)
    pack(codes[start:stop], packed)
    words[slots[start:stop] - first] = packed


def _check_shape(array: NDArray[np.generic], shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}, but the geometry needs {shape}")
