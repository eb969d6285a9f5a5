"""From a table in a file to an encoded one: one or two passes, row after row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.column_codes import ColumnCodes, check_code_bits
from bitlane.encoded.layout import TableDescription
from bitlane.encoded.plane_blocks import block_rows
from bitlane.encoded.table import EncodedTable, warn_of_clipped
from bitlane.encoded.writer import (
    RowsToWrite,
    TableWriter,
    appended_table,
    new_table,
    not_finite,
    part_of,
    unfinished_description,
)
from bitlane.errors import DataError
from bitlane.quantization.ranges import Ranges, feature_ranges
from bitlane.support.text import near_names

from .pieces import PieceSource

FIRST_PASS = 1 << 20  # values of a piece whose ranges are found at a time
OnRows = Callable[[int], object]
Numbers = NDArray[np.intp]


@dataclass(frozen=True)
class EncodingOptions:
    """How a table is encoded.

    Attributes
    ----------
    bits : int, default=8
        Of a code: even, 2 to 16.
    targets : tuple of str
        Columns that are labels, and not encoded; by number in a file without names, -1 for the last.
    weight_column, group_column : str, optional
        Columns of the weights and groups of the rows.
    ignored : tuple of str
        Columns that are not read.
    column_range : pair of floats, optional
        Low and high of all columns: the first pass, which finds the ranges, is left out then.
    like : Path, optional
        An encoded table whose scales are taken: no first pass either.
    clip : bool, default=True
        Whether columns with outliers are clipped, where the ranges are found.
    centered : bool, default=True
        Whether scales lie around means; otherwise around 0.
    """

    bits: int = 8
    targets: tuple[str, ...] = ()
    weight_column: str | None = None
    group_column: str | None = None
    ignored: tuple[str, ...] = ()
    column_range: tuple[float, float] | None = None
    like: Path | None = None
    clip: bool = True
    centered: bool = True


def encode_file(
    source: PieceSource,
    out: Path,
    options: EncodingOptions,
    *,
    threads: int | None = None,
    on_rows: OnRows | None = None,
) -> int:
    """Encode a table into a file, and return how many rows a killed run had left there.

    Parameters
    ----------
    source : PieceSource
    out : Path
    options : EncodingOptions
    threads : int, optional
        As many as the machine has by default. The bytes do not depend on it.
    on_rows : callable, optional
        Called as ``on_rows(rows)`` after so many rows more, of each pass.

    Raises
    ------
    DataError
        Data or an option that cannot be used.
    """
    check_code_bits(options.bits)
    chosen = _ChosenColumns.of(source, options)
    told = f"{source.identity} {source.column_names} {options}"
    if options.like is not None:
        told += EncodedTable.open(options.like).fingerprint
    job = int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "little") | 1
    found = unfinished_description(part_of(out), job)
    if found is None:
        codes = _codes(source, chosen, options, on_rows)
        step = block_rows(len(codes.active))
        description = TableDescription(
            codes, chosen.target_names, chosen.weight is not None, chosen.group is not None, step
        )
    else:
        description = TableDescription.unpacked(found)
    with new_table(out, description, job) as writer:
        recovered = writer.rows
        _write(writer, source, chosen, recovered, threads, on_rows)
    warn_of_clipped(EncodedTable.open(out).clipped, description.codes)
    return recovered


def append_file(
    source: PieceSource,
    out: Path,
    options: EncodingOptions,
    *,
    threads: int | None = None,
    on_rows: OnRows | None = None,
) -> int:
    """Encode the rows of a table with the scales of a file, behind its rows; return how many values were clipped.

    Parameters and errors are those of `encode_file`; of the options those that name columns are used.
    """
    with appended_table(out) as writer:
        chosen, description = _ChosenColumns.of(source, options), writer.description
        codes = description.codes
        here = (len(chosen.features), chosen.target_names, chosen.weight is not None, chosen.group is not None)
        there = (len(codes.scale), description.targets, description.weights, description.groups)
        if here != there:
            raise DataError(
                f"{source.name} has {_told(*here)}, but {out.name} {_told(*there)}: append the same columns"
            )
        if chosen.names is not None and codes.names is not None and chosen.names != codes.names:
            different = next(a for a, b in zip(chosen.names, codes.names, strict=True) if a != b)
            raise DataError(f"{source.name}: column {different!r} is at another place in {out.name}: order them alike")
        assert writer.statistics is not None
        before = writer.statistics.clipped.sum()
        _write(writer, source, chosen, 0, threads, on_rows)
        clipped = int(writer.statistics.clipped.sum() - before)
    return clipped


@dataclass(frozen=True, eq=False)
class _ChosenColumns:
    """Numbers of the columns of a source by what they are."""

    names: tuple[str, ...] | None
    features: Numbers
    targets: Numbers
    target_names: tuple[str, ...]
    weight: int | None
    group: int | None

    @classmethod
    def of(cls, source: PieceSource, options: EncodingOptions) -> _ChosenColumns:
        names = source.column_names
        find = partial(_find, source)
        targets = [find("target", name) for name in options.targets]
        weight = None if options.weight_column is None else find("weight", options.weight_column)
        group = None if options.group_column is None else find("groups", options.group_column)
        ignored = [find("ignore", name) for name in options.ignored]
        other = {*targets, weight, group, *ignored}
        if len(other - {None}) < len(targets) + (weight is not None) + (group is not None) + len(set(ignored)):
            raise DataError("a column is named twice: each is a target, the weight, the group, or ignored")
        features = [j for j in range(len(names)) if j not in other]
        if not features:
            raise DataError(f"{source.name} has no columns to encode")
        of_features = tuple(names[j] for j in features) if source.named else None
        return cls(
            of_features,
            np.array(features, np.intp),
            np.array(targets, np.intp),
            tuple(names[j] for j in targets),
            weight,
            group,
        )

    def row_block(self, rows: NDArray[Any], first: int) -> RowsToWrite:
        """Return rows of the source, from number `first` on, as rows to write."""
        y = np.ascontiguousarray(rows[:, self.targets], np.float64)
        weights = None if self.weight is None else rows[:, self.weight].astype(np.float64)
        group = None if self.group is None else rows[:, self.group]
        for values, what in ((y, "target"), (weights, "weight"), (group, "group")):
            if values is not None and not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values).reshape(len(rows), -1).all(axis=1)))
                raise DataError(f"the {what} of row {first + row + 1} is not finite: drop such rows")
        if weights is not None and (weights < 0).any():
            raise DataError(f"the weight of row {first + int(np.argmax(weights < 0)) + 1} is negative")
        groups = None if group is None else group.astype(np.int64)
        if groups is not None and (groups != group).any():
            raise DataError(f"the group of row {first + int(np.argmax(groups != group)) + 1} is no integer")
        return RowsToWrite(self.of_features(rows), y, weights, groups, first)

    def of_features(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the columns to encode."""
        return rows if len(self.features) == rows.shape[1] else np.ascontiguousarray(rows[:, self.features])


def _told(columns: int, targets: tuple[str, ...], weights: bool, groups: bool) -> str:
    more = [*(f"target {name}" for name in targets), *["weights"] * weights, *["groups"] * groups]
    return ", ".join([f"{columns} column(s)", *more])


def _find(source: PieceSource, option: str, name: str) -> int:
    """Return the number of a column; by number in a file without names."""
    names = source.column_names
    if name in names:
        return names.index(name)
    try:
        number = int(name)
    except ValueError:
        number = len(names)
    if source.named or not -len(names) <= number < len(names):
        what = f"its columns are 0 to {len(names) - 1}" if not source.named else f"it has {len(names)} columns"
        raise DataError(f"--{option} {name}: {source.name} has no such column{near_names(name, names)}; {what}")
    return number % len(names)


def _codes(
    source: PieceSource, chosen: _ChosenColumns, options: EncodingOptions, on_rows: OnRows | None
) -> ColumnCodes:
    """Return the scales of the columns: those of another table, of a given range, or found by a pass."""
    n = len(chosen.features)
    if options.like is not None:
        like = EncodedTable.open(options.like).column_codes
        if len(like.scale) != n:
            raise DataError(f"{options.like.name} has {len(like.scale)} columns, but {source.name} {n}")
        return ColumnCodes(like.bits, like.center, like.scale, chosen.names or like.names)
    if options.column_range is not None:
        low, high = options.column_range
        if not low < high:
            raise DataError(f"--range {low:g},{high:g}: the low end must be below the high end")
        bounds = np.full(n, low), np.full(n, high)
        center = np.full(n, (low + high) / 2 if options.centered else 0.0)
        ranges = Ranges(*bounds, center, 1, np.empty((0, n)), np.empty(0, np.int64))
    else:
        ranges = _found_ranges(source, chosen, on_rows)
    return ColumnCodes.of(ranges, options.bits, chosen.names, clip=options.clip, centered=options.centered)


def _found_ranges(source: PieceSource, chosen: _ChosenColumns, on_rows: OnRows | None) -> Ranges:
    """Return the ranges of all rows, which do not depend on the pieces that a file has."""
    step, ranges = max(1, FIRST_PASS // len(source.column_names)), None
    for rows in source.blocks(step):
        X, first = chosen.of_features(rows), 0 if ranges is None else ranges.rows
        some = feature_ranges(X, first)
        if not np.isfinite(some.mean).all() and not np.isfinite(X).all():
            raise DataError(not_finite(X, chosen.names, first))
        ranges = some if ranges is None else ranges.merged(some)
        if on_rows is not None:
            on_rows(len(X))
    if ranges is None:
        raise DataError(f"{source.name} has no rows")
    return ranges


def _write(
    writer: TableWriter,
    source: PieceSource,
    chosen: _ChosenColumns,
    first: int,
    threads: int | None,
    on_rows: OnRows | None,
) -> None:
    """Write the rows of a source from number `first` on."""

    def blocks() -> Iterator[RowsToWrite]:
        done = first
        for rows in source.blocks(writer.description.block_rows, first):
            yield chosen.row_block(rows, done)
            done += len(rows)

    before = writer.rows
    for rows in writer.write(blocks(), threads):
        if on_rows is not None:
            on_rows(rows - before)
        before = rows
