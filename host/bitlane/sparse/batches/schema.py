"""Which columns of a data set are features, label, time and weight; stored in a saved model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import TYPES
from bitlane.sparse.batches.checks import LARGEST_FIELD, near_names
from bitlane.sparse.batches.transforms import (
    ON_NUMBERS,
    PARTS,
    Transform,
    as_transforms,
    check_columns,
    part_name,
    text_of_transform,
)

DEFAULT_LABEL = "label"
KEY_RULE = 2
POOLINGS = ("mean", "sum")  # of the values of a cell with several
SEPARATOR = "|"
POINT, COMMA = ".", ","  # of numbers in text


@dataclass(frozen=True)
class Schema:
    """Columns of cells.

    Fields are numbered in order: categorical columns, numeric columns, columns of several values, parts of times,
    crosses.

    Attributes
    ----------
    label : str, default="label"
    categorical : tuple of str
        A cell has the key of `hashing.cell_key` and the value 1. A missing cell has the key of the empty text.
    numeric : tuple of str
        A cell has the key of its column and the number as value, standardised if `scales` has the column. A missing
        cell is left out.
    crosses : tuple of tuples of str
        Groups of two columns or more, none of them numeric: one feature with the key of `hashing.cross_keys` and the
        value 1. The columns need not be among `categorical`; parts of times have names such as ``hour(when)``.
    time : str, optional
        Timestamps, dates, or seconds since 1970.
    types : tuple of pairs of str
        Hashed columns and their types, of `cell_texts.TYPES`: how their texts are read. Others are text.
    scales : tuple of (str, float, float)
        Numeric columns, their centres and scales: the value of a number x is ``(x - centre) / scale``.
    key_rule : {2, 1}, default=2
        2: equal values have equal keys, whichever type or file has them (`cell_texts`). 1: the rule of models that were
        saved without it: texts as Arrow writes them.
    several : tuple of pairs of str
        Columns whose cells have several values, lists or texts with a separator, and "mean" or "sum": each value is a
        feature with the key of such a cell, and the value 1 over their number, or 1. An empty cell has the key of the
        missing one.
    several_separator : str, default="|"
        Between the values of a text.
    transforms : tuple of (str, str, tuple)
        Columns, their transforms and the settings of these, in the order of application of `transforms`:
        ``("price", "clip", (0, 100))``, ``("price", "log1p", ())``, ``("age", "buckets", (1.5, 7.0))`` with the edges,
        ``("when", "hour", ("UTC",))`` and ``("when", "weekday", ("UTC",))``. A column with buckets is categorical.
    decimal : {".", ","}, default="."
        Of numbers in text: of labels, of numeric columns and of others of the type number. With a comma, texts with a
        point are no numbers.
    weight : str, optional
        How many rows each row counts as: see `columns.weights_of`.
    """

    label: str = DEFAULT_LABEL
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    crosses: tuple[tuple[str, ...], ...] = ()
    time: str | None = None
    types: tuple[tuple[str, str], ...] = ()
    scales: tuple[tuple[str, float, float], ...] = ()
    key_rule: int = KEY_RULE
    several: tuple[tuple[str, str], ...] = ()
    several_separator: str = SEPARATOR
    transforms: tuple[Transform, ...] = ()
    decimal: str = POINT
    weight: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple((str(name), str(kind)) for name, kind in self.types))
        object.__setattr__(self, "scales", tuple((str(name), float(a), float(b)) for name, a, b in self.scales))
        for name, center, scale in self.scales:
            if name not in self.numeric or not (math.isfinite(center) and 0 < scale < math.inf):
                raise DataError(f"scales: {name!r} must be a numeric column, with a finite centre and a scale above 0")
        for name, kind in self.types:
            if kind not in TYPES:
                raise DataError(f"column {name!r} has the type {kind!r}; {', '.join(TYPES)} are known")
        check_decimal(self.decimal)
        if self.key_rule not in (1, KEY_RULE):
            raise DataError(f"the schema's keys follow rule {self.key_rule!r}, which is unknown here: update bitlane")
        for name in ("categorical", "numeric"):
            object.__setattr__(self, name, _names(getattr(self, name), name))
        object.__setattr__(self, "crosses", tuple(_names(group, "a cross") for group in self.crosses))
        object.__setattr__(self, "several", tuple((str(name), str(pooling)) for name, pooling in self.several))
        for name, pooling in self.several:
            if pooling not in POOLINGS:
                raise DataError(f"column {name!r} of several values has the pooling {pooling!r}: choose mean or sum")
        if not isinstance(self.several_separator, str) or not self.several_separator:
            raise DataError(f"several_separator={self.several_separator!r}: use a character, such as '|'")
        several = [name for name, _ in self.several]
        object.__setattr__(self, "transforms", as_transforms(self.transforms))
        check_columns(self.transforms, self.numeric, self.categorical, self.label)
        others = [name for name in (self.label, self.time, self.weight) if name]
        used = Counter([*self.categorical, *self.numeric, *several, *others, *self.part_names])
        for name, times in used.items():
            if times > 1:
                raise DataError(f"column {name!r} is used twice in the schema")
        self._check_crosses()
        if len(self.field_names) > LARGEST_FIELD + 1:
            raise DataError(f"the schema has {len(self.field_names)} fields; at most {LARGEST_FIELD + 1} are possible")
        texts = {*self.typed, *self.part_names}
        for name in self.columns:  # "a=b" of a column "a" and a column "a=b" would share keys
            head = name.partition("=")[0]
            if "=" in name and head in texts:
                raise DataError(f"columns {head!r} and {name!r} would share keys: rename one of them")

    def _check_crosses(self) -> None:
        for group in self.crosses:
            shown = " x ".join(group)
            if len(group) < 2 or len(set(group)) < len(group):
                raise DataError(f"cross {shown!r} needs two different columns or more")
            for name in group:
                if name in dict(self.several):
                    raise DataError(f"cross {shown!r} has column {name!r}, which has several values in a cell")
                if name in self.numeric or name in (self.label, self.time, self.weight):
                    raise DataError(f"cross {shown!r} has column {name!r}, which is not categorical")

    @property
    def hashed(self) -> tuple[str, ...]:
        """Columns whose cells are hashed, once each: the categorical ones, and those of crosses alone."""
        crossed = [name for group in self.crosses for name in group if name not in self.part_names]
        return tuple(dict.fromkeys([*self.categorical, *crossed]))

    @property
    def typed(self) -> tuple[str, ...]:
        """Columns whose types matter: those that are hashed, and those of several values."""
        return (*self.hashed, *dict(self.several))

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the features that are parts of times."""
        return tuple(part_name(column, kind) for column, kind, _ in self.transforms if kind in PARTS)

    @property
    def read_as_numbers(self) -> frozenset[str]:
        """Columns whose cells are numbers: the numeric ones, and those with buckets."""
        return frozenset([*self.numeric, *(column for column, kind, _ in self.transforms if kind == "buckets")])

    def transforms_of(self, column: str) -> dict[str, tuple[Any, ...]]:
        """Return the transforms of a column: their settings by kind."""
        return {kind: settings for name, kind, settings in self.transforms if name == column}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read for the features, once each."""
        timed = [column for column, kind, _ in self.transforms if kind in PARTS]
        return tuple(dict.fromkeys([*self.hashed, *self.numeric, *dict(self.several), *timed]))

    @property
    def field_names(self) -> tuple[str, ...]:
        """The fields' names by number; a cross is ``a&b``."""
        crosses = ["&".join(group) for group in self.crosses]
        return (*self.categorical, *self.numeric, *dict(self.several), *self.part_names, *crosses)

    def type_of(self, column: str) -> str:
        """Return the type of a hashed column."""
        return dict(self.types).get(column, "text")

    @property
    def lacks_types(self) -> bool:
        """Whether the type of such a column is open: `with_types` says it."""
        return self.key_rule > 1 and not set(self.typed) <= set(dict(self.types))

    def with_types(self, types: Mapping[str, str]) -> Schema:
        """Return the schema with types for all columns of `typed`: its own, else those of `types`, else text."""
        known = {**types, **dict(self.types)}
        return replace(self, types=tuple((name, known.get(name, "text")) for name in self.typed))

    def text(self) -> str:
        """Return the columns and what they are as a line, for people."""
        parts = [f"label {self.label}"]
        parts += [f"time {self.time}"] if self.time is not None else []
        parts += ["decimal commas"] if self.decimal == COMMA else []
        parts += [f"weight {self.weight}"] if self.weight is not None else []
        if self.categorical:
            parts.append("categorical " + ", ".join(f"{name} ({self._kind_of(name)})" for name in self.categorical))
        if self.numeric:
            parts.append("numeric " + ", ".join(f"{name}{self._scale_of(name)}" for name in self.numeric))
        if self.several:
            parts.append("several values in " + ", ".join(f"{name} ({pooling})" for name, pooling in self.several))
        for column, kind, settings in self.transforms:
            if kind in PARTS:
                parts.append(f"{part_name(column, kind)} {text_of_transform(kind, settings)}")
        parts += ["crosses " + ", ".join(" x ".join(group) for group in self.crosses)] if self.crosses else []
        return "; ".join(parts)

    def _kind_of(self, name: str) -> str:
        edges = self.transforms_of(name).get("buckets")
        return self.type_of(name) if edges is None else text_of_transform("buckets", edges)

    def _scale_of(self, name: str) -> str:
        transforms = self.transforms_of(name)
        words = [text_of_transform(kind, transforms[kind]) for kind in ON_NUMBERS if kind in transforms]
        words += [f"{center:.3g} +- {scale:.3g}" for column, center, scale in self.scales if column == name]
        return f" ({', '.join(words)})" if words else ""

    def as_json(self) -> dict[str, Any]:
        """Return the schema as JSON takes it."""
        settings = asdict(self)
        if not self.several:  # as versions wrote it that were published before
            del settings["several"], settings["several_separator"]
        if not self.transforms:
            del settings["transforms"]
        if self.decimal == POINT:
            del settings["decimal"]
        return _without_weight({"kind": "columns", **settings})


@dataclass(frozen=True)
class ListSchema:
    """Columns of lists, one list a row.

    Attributes
    ----------
    label : str, default="label"
    keys : str, default="keys"
        Lists of integers, the features' keys.
    fields : str, optional
        Lists of the features' fields, as long as the keys; without it all fields are 0.
    values : str, optional
        Lists of numbers, as long as the keys; without it all values are 1.
    time : str, optional
        Timestamps, dates, or seconds since 1970.
    weight : str, optional
        How many rows each row counts as: see `columns.weights_of`.
    """

    label: str = DEFAULT_LABEL
    keys: str = "keys"
    fields: str | None = None
    values: str | None = None
    time: str | None = None
    weight: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read for the features."""
        return tuple(name for name in (self.keys, self.fields, self.values) if name is not None)

    def as_json(self) -> dict[str, Any]:
        """Return the schema as JSON takes it."""
        return _without_weight({"kind": "lists", **asdict(self)})


def schema_from_json(data: Mapping[str, Any]) -> Schema | ListSchema:
    """Return the schema whose `as_json` gave `data`."""
    settings = dict(data)
    kind = settings.pop("kind", None)
    if kind == "columns":
        settings.setdefault("key_rule", 1)
    if kind not in ("columns", "lists"):
        raise DataError(f"schema has kind {kind!r}; 'columns' and 'lists' are known")
    try:
        return Schema(**settings) if kind == "columns" else ListSchema(**settings)
    except TypeError as error:
        raise DataError(f"schema has settings that this version does not know: {error}") from error


def _without_weight(record: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without weights as versions wrote it that knew none."""
    return {name: given for name, given in record.items() if name != "weight" or given is not None}


def read_schema(data: Mapping[str, Any]) -> Schema | ListSchema | None:
    """Return the schema in the settings of a training's data, or None without one."""
    schema = data.get("schema")
    return None if schema is None else schema_from_json(schema)


def wanted_columns(schema: Schema | ListSchema, names: Sequence[str], file: str, labelled: bool = True) -> list[str]:
    """Return the columns of a file that must be read.

    Parameters
    ----------
    schema : Schema or ListSchema
    names : sequence of str
        The file's columns.
    file : str
    labelled : bool, default=True
        False: the label may be missing, and weights are not read.

    Raises
    ------
    DataError
        One is missing: the message has names that are near.
    """
    wanted = list(schema.columns)
    if labelled or schema.label in names:
        wanted.append(schema.label)
    if schema.time is not None:
        wanted.append(schema.time)
    if schema.weight is not None and labelled:
        wanted.append(schema.weight)
    there = Counter(names)
    for name in wanted:
        if name not in there:
            what = {schema.label: "label column", schema.weight: "weight column"}.get(name, "column")
            raise DataError(f"{file}: there is no {what} {name!r}{near_names(name, names)}")
        if there[name] > 1:
            raise DataError(f"{file}: column {name!r} appears twice: rename one of them")
    return list(dict.fromkeys(wanted))


def check_decimal(decimal: object) -> None:
    """Raise DataError if this is no point or comma."""
    if decimal not in (POINT, COMMA):
        raise DataError(f"decimal={decimal!r}: choose '.' or ','")


def no_features(file: str, label: str) -> DataError:
    """Return the error of a file from which no feature is read."""
    return DataError(f"{file} has no column to learn from, except the label {label!r}")


def _names(given: object, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise DataError(f"{what} must be a tuple of column names; got {given!r}")
    return tuple(given)
