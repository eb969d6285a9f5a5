"""Record batches with a cell for each feature: categorical and numeric columns to a batch."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.arrow_cells import is_cell, is_list, is_several, is_text, missing_of, text_of
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.cell_keys import keys_of, type_of
from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.checks import RowLocation, check_finite, check_labels, near_names, one_line
from bitlane.sparse.batches.derived_keys import bucket_keys, part_keys
from bitlane.sparse.batches.first_cell_keys import first_keys_of
from bitlane.sparse.batches.hashing import column_key, cross_keys
from bitlane.sparse.batches.labels import labels_of_values
from bitlane.sparse.batches.scanning import numbers_of_cells
from bitlane.sparse.batches.schema import DEFAULT_LABEL, POINT, ListSchema, Schema, no_features, wanted_columns
from bitlane.sparse.batches.several import interleaved, values_of
from bitlane.sparse.batches.times import NANOSECONDS, PER_SECOND, local_seconds, nanoseconds_of, seconds_of_counts
from bitlane.sparse.batches.transforms import PARTS, changed, part_name
from bitlane.sparse.batches.weights import check_row_weights
from bitlane.support.user_warnings import warn_user

Floats = NDArray[np.float64]
_SWAPPED = np.arange(256, dtype=np.uint8)  # points and commas change places
_SWAPPED[[ord("."), ord(",")]] = [ord(","), ord(".")]
FAR = 1000.0  # spreads from the centre of a standardised column
_MISSING = np.frombuffer("".join(f"{text}\n" for text in sorted(MISSING) if text).encode(), np.uint8)


def default_schema(
    columns: pa.Schema,
    file: str,
    *,
    label: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    labelled: bool = True,
    ignore: Sequence[str] = (),
    decimal: str = POINT,
) -> Schema | ListSchema:
    """Return the schema of a file whose columns nobody named.

    A file with a list of integers ``keys`` is a `ListSchema`; ``fields`` and ``values`` are taken if they are there.
    Otherwise text, dictionaries, booleans, integers, dates and times are categorical, floats and decimals numeric.
    Lists of text and integers have several values, of which the mean counts: a long list weighs no more than a short
    one, and a list of one entry is read as a categorical cell.

    Parameters
    ----------
    columns : pyarrow.Schema
    file : str
        For the errors.
    label, time, weight : str, optional
    labelled : bool, default=True
        False: the label may be missing.
    ignore : sequence of str
        Columns that are left out.
    decimal : {".", ","}, default="."
        Of the schema.

    Raises
    ------
    DataError
        The label is missing, there is no other column, or a column is neither.
    """
    label = DEFAULT_LABEL if label is None else label
    names = columns.names
    for name in ignore:
        if name not in names:
            raise DataError(f"{file} has no column {name!r}{near_names(name, names)}")
    if "keys" in names and "keys" not in ignore and _has_keys(columns.field("keys").type):
        optional = {name: name if name in names and name not in ignore else None for name in ("fields", "values")}
        lists = ListSchema(label, "keys", optional["fields"], optional["values"], time, weight)
        wanted_columns(lists, names, file, labelled)
        return lists
    wanted_columns(Schema(label, time=time, weight=weight), names, file, labelled)
    fields = [field for field in columns if field.name not in (label, time, weight, *ignore)]
    _check_cells(fields, file)
    categorical, numeric, several = [], [], []
    for field in fields:
        if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type):
            numeric.append(field.name)
        elif is_list(field.type):
            several.append((field.name, "mean"))
        else:
            categorical.append(field.name)
    found = Schema(
        label, tuple(categorical), tuple(numeric), (), time, several=tuple(several), decimal=decimal, weight=weight
    )
    if not found.columns:
        raise no_features(file, label)
    return found.with_types(types_of(columns))


def _has_keys(kind: pa.DataType) -> bool:
    return is_list(kind) and not is_text(kind.value_type)


def _check_cells(fields: Sequence[pa.Field], file: str) -> None:
    """Refuse columns that cannot be features, and tell how to leave them out."""
    twins = [name for name, times in Counter(field.name for field in fields).items() if times > 1]
    if twins:
        raise DataError(f"{file}: column {twins[0]!r} appears twice: rename one of them, or use --ignore {twins[0]}")
    wrong = {field.name: str(field.type) for field in fields if not (is_cell(field.type) or is_several(field.type))}
    if wrong:
        shown = [f"column {name!r} is {kind if len(kind) <= 60 else kind[:57] + '...'}" for name, kind in wrong.items()]
        remedy = f"leave {'it' if len(wrong) == 1 else 'them'} out, --ignore {','.join(wrong)}"
        raise DataError(f"{file}: {', '.join(shown)}, which is no feature: {remedy}")


def types_of(columns: pa.Schema) -> dict[str, str]:
    """Return the type of each column of a file, one of `cell_texts.TYPES`; of twins that of the last one."""
    return {field.name: type_of(field.type) for field in columns}


def batch_of_columns(
    rows: pa.RecordBatch,
    schema: Schema,
    *,
    task: str = "classification",
    positive: str | None = None,
    location: RowLocation,
    labelled: bool = True,
) -> Batch:
    """Return a record batch as a batch.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        With the columns of `schema`.
    schema : Schema
    task : {"classification", "regression"}, default="classification"
        Which labels are valid: see `check_labels`.
    positive : str, optional
        The label that is 1: see `labels.labels_of_values`.
    location : RowLocation
        Of the first row.
    labelled : bool, default=True
        False: without a label column, labels are nan; weights are not read.

    Returns
    -------
    Batch

    Raises
    ------
    DataError
        A cell cannot be used: the message has file and row.
    """
    wanted_columns(schema, rows.schema.names, location.file, labelled)
    cells = {name: _keys_of(rows.column(name), name, schema, location) for name in schema.hashed}
    cells |= _parts_of(rows, schema, location)
    width, count = len(schema.field_names), rows.num_rows
    keys, values = np.empty((count, width), np.uint64), np.ones((count, width), np.float32)
    crossed = [cross_keys([cells[name] for name in group]) for group in schema.crosses]
    scales = {name: (center, scale) for name, center, scale in schema.scales}
    first = len(schema.categorical)
    place = first + len(schema.numeric)  # of the columns of several values
    several = {
        field: values_of(rows.column(name), name, schema, location)
        for field, name in enumerate(dict(schema.several), place)
    }
    for field, column_keys in enumerate([cells[name] for name in schema.categorical]):
        keys[:, field] = column_keys
    present = np.ones((count, width), np.bool_) if schema.numeric else None
    for field, name in enumerate(schema.numeric, first):
        numbers, missing = numbers_of(rows.column(name), f"numeric column {name!r}", location, schema.decimal)
        keys[:, field] = column_key(name)
        if transforms := schema.transforms_of(name):
            check_finite(numbers, None, f"numeric column {name!r}", location)
            numbers = changed(numbers, transforms)
        if name in scales:
            numbers = _standardised(numbers, scales[name], name)
        with np.errstate(over="ignore"):
            values[:, field] = np.where(missing, 0, numbers)
        check_finite(values[:, field], None, f"numeric column {name!r}", location)
        if present is not None:
            present[:, field] = ~missing
    derived = [cells[name] for name in schema.part_names]
    for field, column_keys in enumerate([*derived, *crossed], place + len(several)):
        keys[:, field] = column_keys
    labels, times = labels_of(rows, schema, task, positive, location), times_of(rows, schema, location)
    described = (labels, times, weights_of(rows, schema, location, labelled))
    if several:
        counts = np.ones((count, width), np.int64) if present is None else present.astype(np.int64)
        return Batch(*interleaved(keys, values, counts, several), *described)
    fields = np.broadcast_to(np.arange(width, dtype=np.uint16), keys.shape)
    if present is None or present.all():
        offsets = np.arange(count + 1, dtype=np.int64) * width
        return Batch(keys.ravel(), fields.ravel(), values.ravel(), offsets, *described)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(present.sum(axis=1, dtype=np.int64))])
    return Batch(keys[present], fields[present], values[present], offsets, *described)


def _standardised(numbers: Floats, moments: tuple[float, float], name: str) -> Floats:
    center, scale = moments
    with np.errstate(over="ignore"):
        units = (numbers - center) / scale
    far = np.abs(units) > FAR
    if far.any():
        row = int(far.argmax())
        warn_user(
            f"numeric column {name!r} has {numbers[row]:g}, {abs(units[row]):.3g} times the spread of its first rows "
            "away from them: mix the rows and train anew, declare log1p or clip in a schema, or leave it out"
        )
    return units


def _keys_of(column: pa.Array, name: str, schema: Schema, location: RowLocation) -> NDArray[np.uint64]:
    if schema.key_rule == 1:
        return first_keys_of(column, name, location)
    if schema.transforms and (edges := schema.transforms_of(name).get("buckets")) is not None:
        what = f"column {name!r} of buckets"
        numbers, missing = numbers_of(column, what, location, schema.decimal)
        with np.errstate(over="ignore"):
            singles = numbers.astype(np.float32)
        check_finite(singles, None, what, location)
        return bucket_keys(name, singles, missing, edges)
    return keys_of(column, name, schema.type_of(name), location, schema.decimal)


def _parts_of(rows: pa.RecordBatch, schema: Schema, location: RowLocation) -> dict[str, NDArray[np.uint64]]:
    """Return the keys of the parts of times, by their names."""
    cells = {}
    for column, part, settings in schema.transforms:
        if part in PARTS:
            seconds, missing = seconds_of(rows.column(column), f"column {column!r} of times", location)
            cells[part_name(column, part)] = part_keys(column, part, local_seconds(seconds, *settings), missing)
    return cells


def numbers_of(
    column: pa.Array, what: str, location: RowLocation, decimal: str = POINT
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the cells of a column as float64 [rows], and which of them are missing.

    Numbers and booleans may come as text. Null and NaN are missing, and the texts of `cell_texts.MISSING`.
    `decimal` is that of texts.

    Raises
    ------
    DataError
        A cell is not a number.
    """
    kind = column.type
    missing = missing_of(column)
    if pa.types.is_null(kind):
        return np.zeros(len(column)), np.ones(len(column), np.bool_)
    if pa.types.is_dictionary(kind):
        return numbers_of(column.dictionary_decode(), what, location, decimal)
    if not (
        is_text(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        raise DataError(f"{location.file}: {what} is {kind}, not a number")
    if not is_text(kind):
        floats = np.asarray(pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0))
        missing = np.zeros(len(floats), np.bool_) if missing is None else missing
        if not (empty := np.isnan(floats)).any():
            return floats, missing
        return np.where(empty, 0.0, floats), missing | empty
    text, offsets = text_of(column)
    numbers = np.empty(len(column))
    shown = text if decimal == POINT else _SWAPPED[text]
    wrong = numbers_of_cells(shown, offsets, _MISSING, numbers)
    if wrong >= 0:
        cell = text[offsets[wrong] : offsets[wrong + 1]].tobytes().decode("utf-8", "replace")
        hint = ""
        if decimal == POINT and "," in cell:
            hint = ": say so if the comma is the decimal one, --decimal ','; commas between thousands are not read"
        elif decimal != POINT and "." in cell:
            hint = " with a decimal comma; points between thousands are not read"
        raise location.error(wrong, f"{what} has {cell[:40]!r}, which is not a finite number{hint}")
    empty = np.isnan(numbers)
    numbers[empty] = 0.0
    return numbers, empty


def labels_of(
    rows: pa.RecordBatch, schema: Schema | ListSchema, task: str, positive: str | None, location: RowLocation
) -> NDArray[np.float32]:
    """Return the labels of a record batch: float32 [rows]; nan where it has no such column."""
    if schema.label not in rows.schema.names:
        return np.full(rows.num_rows, np.nan, np.float32)
    column, what = rows.column(schema.label), f"label column {schema.label!r}"
    if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        raise DataError(f"{location.file}: {what} is {column.type}: it has more than one value in a row")
    missing = missing_of(column)
    if missing is not None:
        raise location.error(int(np.argmax(missing)), f"{what} is empty")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if task == "classification" and (positive is not None or is_text(column.type)):
        coded = pc.dictionary_encode(column)
        return labels_of_values(coded.dictionary.to_pylist(), np.asarray(coded.indices), positive, what, location)
    numbers, missing = numbers_of(column, what, location, schema.decimal if isinstance(schema, Schema) else POINT)
    if missing.any():
        raise location.error(int(np.argmax(missing)), f"{what} is empty")
    return check_labels(numbers, task, location)


def times_of(rows: pa.RecordBatch, schema: Schema | ListSchema, location: RowLocation) -> NDArray[np.int64] | None:
    """Return the times of a record batch, int64 [rows] in seconds since 1970, or None without such a column."""
    if schema.time is None:
        return None
    column, what = rows.column(schema.time), f"time column {schema.time!r}"
    seconds, missing = seconds_of(column, what, location)
    if missing.any():
        raise location.error(int(np.argmax(missing)), f"{what} is empty")
    return seconds


def seconds_of(column: pa.Array, what: str, location: RowLocation) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return times, as ISO 8601, counts or times of Arrow, in seconds since 1970, int64 [rows], and which are missing.

    Raises
    ------
    DataError
        A cell is no time.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_temporal(column.type):
        missing = missing_of(column)
        missing = np.zeros(len(column), np.bool_) if missing is None else missing
        try:
            if pa.types.is_timestamp(column.type):
                counts = np.asarray(pc.fill_null(pc.cast(column, pa.int64()), 0))
                return counts // PER_SECOND[column.type.unit], missing
            return np.asarray(pc.fill_null(pc.cast(pc.cast(column, pa.timestamp("s")), pa.int64()), 0)), missing
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if missing.any():
                raise location.error(int(np.argmax(missing)), f"{what} is empty") from error
            raise DataError(f"{location.file}: {what}: {one_line(error)}") from error
    if is_text(column.type) and (found := _seconds_of_texts(column, what, location)) is not None:
        return found
    numbers, empty = numbers_of(column, what, location)
    check_finite(numbers, None, what, location)
    return np.floor(seconds_of_counts(numbers)).astype(np.int64), empty


def weights_of(
    rows: pa.RecordBatch, schema: Schema | ListSchema, location: RowLocation, labelled: bool
) -> NDArray[np.float32] | None:
    """Return the weights of a record batch, float32 [rows]; None if the schema has none, or without labels.

    Raises
    ------
    DataError
        A cell is empty or no number, or as of `weights.check_row_weights`.
    """
    if schema.weight is None or not labelled:
        return None
    what = f"weight column {schema.weight!r}"
    decimal = schema.decimal if isinstance(schema, Schema) else POINT
    numbers, missing = numbers_of(rows.column(schema.weight), what, location, decimal)
    if missing.any():
        raise location.error(int(np.argmax(missing)), f"{what} is empty")
    return check_row_weights(numbers, what, location.error)


def _seconds_of_texts(
    column: pa.Array, what: str, location: RowLocation
) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """Return texts of times as `seconds_of` does, or None if none is a time."""
    try:  # without zones
        stamps = pc.cast(column, pa.string()) if pa.types.is_binary(column.type) else column
        seconds = pc.cast(pc.cast(stamps, pa.timestamp("s"), safe=False), pa.int64())
        return np.asarray(pc.fill_null(seconds, 0)), np.asarray(column.is_null())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        coded = pc.dictionary_encode(pc.fill_null(column, "" if "string" in str(column.type) else b""))
    decoded = [
        str(each, "utf-8", "replace") if isinstance(each, bytes) else each for each in coded.dictionary.to_pylist()
    ]
    empty = np.array([text.strip() in MISSING for text in decoded], np.bool_)
    counts = [0 if text.strip() in MISSING else nanoseconds_of(text) for text in decoded]
    codes = np.asarray(coded.indices)
    if None in counts:
        if all(count is None or is_empty for count, is_empty in zip(counts, empty, strict=True)):
            return None
        wrong = counts.index(None)
        raise location.error(int(np.argmax(codes == wrong)), f"{what} has {decoded[wrong][:40]!r}, which is no time")
    if empty.all():
        return None
    seconds = np.array([count // NANOSECONDS for count in counts if count is not None], np.int64)
    return seconds[codes], empty[codes]
