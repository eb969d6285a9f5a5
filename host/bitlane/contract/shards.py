"""Regions of a build with shards or several ports: the words of one without, in another order.

With S shards a chunk has 32 S features and a digit of it S words, which lie side by side in a beat: words ``e * P`` to
``e * P + P - 1`` of each beat, one for each row of the group, are the region of the features of shard e. Only labels
differ: a beat has those of 4 S groups, with the first four in the words of shard 0.

With N ports port k has words ``k * W`` to ``k * W + W - 1`` of each beat of W N words, in a memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .geometry import Geometry
from .layout import CHUNK_MODEL_WORDS

Words = NDArray[np.uint64]
HALF_BITS = np.uint64(32)  # of a word of half digits, for one of its two chunks
HALF_MASK = np.uint64((1 << 32) - 1)


def port_regions(words: Words, geometry: Geometry) -> Words:
    """Return complete beats of any region as the part of each port: uint64 [ports, words]."""
    beats = words.reshape(-1, geometry.ports, geometry.port_words)
    parts: Words = beats.transpose(1, 0, 2).reshape(geometry.ports, -1)
    return parts


def join_ports(parts: Sequence[Words], geometry: Geometry) -> Words:
    """Return complete beats from the part of each port: the inverse of `port_regions`; one part is returned itself."""
    if geometry.ports == 1:
        return parts[0]
    beats = np.stack(parts).reshape(geometry.ports, -1, geometry.port_words)
    words: Words = beats.transpose(1, 0, 2).reshape(-1)
    return words


def shard_base(words: Words, geometry: Geometry, groups: range | None = None) -> Words:
    """Return a base region of a geometry from the words of `geometry.unsharded`.

    Parameters
    ----------
    words : uint64 array
        Without shards.
    geometry : Geometry
        Of the complete region.
    groups : range, optional
        Groups in these words, from a multiple of `geometry.label_groups` on; all by default.

    Returns
    -------
    uint64 array
        ``geometry.base_span(groups)``; the same array without shards.
    """
    if geometry.shards == 1:
        return words
    groups = range(geometry.groups) if groups is None else groups
    plain, shards, outputs = geometry.unsharded, geometry.shards, geometry.outputs
    sets = -(-len(groups) // geometry.label_groups)
    labels, rows = _split(words, plain, sets * shards)
    count = _even_chunks(geometry)
    chunks = _padded(_to_chunks(rows, plain), shards * count, axis=1)
    apart = chunks.reshape(len(rows), count, shards, *chunks.shape[2:]).transpose(0, 1, 3, 2, 4)
    side_by_side = apart.reshape(*apart.shape[:3], geometry.words_per_beat)
    of_sets = labels.reshape(sets, shards, outputs, plain.words_per_beat).transpose(0, 2, 1, 3)
    beats = _joined(of_sets, _to_rows(side_by_side, geometry), geometry)
    span = geometry.base_span(groups)
    return beats[: span.stop - span.start]


def unshard_base(words: Words, geometry: Geometry, groups: range | None = None) -> Words:
    """Return the words of `geometry.unsharded` from a base region of a geometry: the inverse of `shard_base`."""
    if geometry.shards == 1:
        return words
    groups = range(geometry.groups) if groups is None else groups
    plain, shards, outputs = geometry.unsharded, geometry.shards, geometry.outputs
    sets = -(-len(groups) // geometry.label_groups)
    labels, rows = _split(words, geometry, sets)
    chunks = _to_chunks(rows, geometry)
    apart = chunks.reshape(*chunks.shape[:3], shards, plain.words_per_beat).transpose(0, 1, 3, 2, 4)
    in_a_row = apart.reshape(len(rows), chunks.shape[1] * shards, *apart.shape[3:])[:, : _even_chunks(plain)]
    labels_of_rows = labels.reshape(sets, outputs, shards, plain.words_per_beat).transpose(0, 2, 1, 3)
    beats = _joined(labels_of_rows, _to_rows(in_a_row, plain), plain)
    span = plain.base_span(groups)
    return beats[: span.stop - span.start]


def shard_draws(words: Words, geometry: Geometry) -> Words:
    """Return a draw region, or some groups of it, from the words of `geometry.unsharded`."""
    if geometry.shards == 1:
        return words
    rows = words.reshape(-1, geometry.unsharded.chunks, geometry.rows_per_beat)
    padded = _padded(rows, geometry.shards * geometry.chunks, axis=1)
    return padded.reshape(-1)  # chunks that follow each other are shards side by side


def unshard_draws(words: Words, geometry: Geometry) -> Words:
    """Return the words of `geometry.unsharded` from a draw region or some groups: the inverse of `shard_draws`."""
    if geometry.shards == 1:
        return words
    rows = words.reshape(-1, geometry.shards * geometry.chunks, geometry.rows_per_beat)
    return np.ascontiguousarray(rows[:, : geometry.unsharded.chunks]).reshape(-1)


def shard_models(words: Words, geometry: Geometry) -> Words:
    """Return models or levels, one after the other, from the words of `geometry.unsharded`."""
    if geometry.shards == 1:
        return words
    models = words.reshape(-1, geometry.unsharded.chunks, CHUNK_MODEL_WORDS)
    padded = _padded(models, geometry.shards * geometry.chunks, axis=1)
    beats = padded.reshape(len(models), geometry.chunks, geometry.shards, -1, geometry.rows_per_beat)
    return np.ascontiguousarray(beats.transpose(0, 1, 3, 2, 4)).reshape(-1)


def unshard_models(words: Words, geometry: Geometry) -> Words:
    """Return the words of `geometry.unsharded` from models or levels: the inverse of `shard_models`."""
    if geometry.shards == 1:
        return words
    beats = words.reshape(-1, geometry.chunks, CHUNK_MODEL_WORDS // geometry.rows_per_beat, geometry.words_per_beat)
    apart = beats.reshape(*beats.shape[:3], geometry.shards, -1).transpose(0, 1, 3, 2, 4)
    models = apart.reshape(len(beats), -1, CHUNK_MODEL_WORDS)
    return np.ascontiguousarray(models[:, : geometry.unsharded.chunks]).reshape(-1)


def _split(words: Words, geometry: Geometry, sets: int) -> tuple[Words, Words]:
    """Return the label beats [sets, outputs, words] and the digit beats [groups, beats, words] of a base region.

    A set consists of the groups whose labels share a beat.
    """
    set_beats = geometry.outputs + geometry.label_groups * geometry.base_row_words
    beats = np.zeros((sets, set_beats, geometry.words_per_beat), np.uint64)
    beats.reshape(-1)[: len(words)] = words
    groups = sets * geometry.label_groups
    rows = beats[:, geometry.outputs :].reshape(groups, geometry.base_row_words, geometry.words_per_beat)
    return beats[:, : geometry.outputs], rows


def _joined(labels: Words, rows: Words, geometry: Geometry) -> Words:
    """Return the words of complete sets from their labels and digits: the inverse of `_split`."""
    words = geometry.words_per_beat
    of_sets = labels.reshape(-1, geometry.outputs, words)
    digits = rows.reshape(len(of_sets), geometry.label_groups * geometry.base_row_words, words)
    return np.concatenate([of_sets, digits], axis=1).reshape(-1)


def _even_chunks(geometry: Geometry) -> int:
    """Return the chunks of a row, or with half digits an even number: two chunks share a word of these."""
    return 2 * geometry.half_words if geometry.half_digit else geometry.chunks


def _to_chunks(rows: Words, geometry: Geometry) -> Words:
    """Return base words [groups, beats, words] as [groups, chunks, digits, words], half digits first, if any."""
    groups, digits, words = len(rows), geometry.base_digits, geometry.words_per_beat
    if not geometry.half_digit:
        return rows.reshape(groups, geometry.chunks, digits, words)
    pairs = geometry.half_words
    padded = _padded(rows, pairs * (1 + 2 * digits), axis=1).reshape(groups, pairs, 1 + 2 * digits, words)
    halves = np.stack([padded[:, :, :1] & HALF_MASK, padded[:, :, :1] >> HALF_BITS], axis=2)
    of_chunks = padded[:, :, 1:].reshape(groups, pairs, 2, digits, words)
    return np.concatenate([halves, of_chunks], axis=3).reshape(groups, 2 * pairs, 1 + digits, words)


def _to_rows(chunks: Words, geometry: Geometry) -> Words:
    """Return base words [groups, beats, words]: the inverse of `_to_chunks`."""
    groups, digits, words = len(chunks), geometry.base_digits, geometry.words_per_beat
    if not geometry.half_digit:
        return chunks.reshape(groups, geometry.base_row_words, words)
    pairs = geometry.half_words
    apart = chunks.reshape(groups, pairs, 2, 1 + digits, words)
    halves = apart[:, :, 0, :1] | apart[:, :, 1, :1] << HALF_BITS
    of_chunks = apart[:, :, :, 1:].reshape(groups, pairs, 2 * digits, words)
    rows = np.concatenate([halves, of_chunks], axis=2).reshape(groups, pairs * (1 + 2 * digits), words)
    return rows[:, : geometry.base_row_words]


def _padded(array: Words, size: int, axis: int) -> Words:
    """Return an array with zeros behind it, up to a size along an axis."""
    missing = [(0, 0)] * array.ndim
    missing[axis] = 0, size - array.shape[axis]
    return np.pad(array, missing)
