"""The columns of a training: what its arguments say, what a file declares, and what the first file suggests."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bitlane.errors import DataError
from bitlane.support.text import option_of, shown_name
from bitlane.support.user_warnings import warn_user

if TYPE_CHECKING:
    from bitlane.sparse.batches.declaration import Declaration
    from bitlane.sparse.batches.schema import ListSchema, Schema
    from bitlane.sparse.batches.source import FileSource

# Arguments that say what columns are.
COLUMNS = ("target", "time", "weight", "categorical", "numeric", "several", "ignore", "cross", "decimal")
READER_ENTRIES = {"sep": "separator"}  # arguments whose entries of [reader] have other names
TIME = "time"  # a column of this name is the time, and no feature


def apply_reader(arguments: argparse.Namespace) -> None:
    """Read the file of --schema, if there is one, and set the arguments of the reader to what it says.

    Parameters
    ----------
    arguments : Namespace
        Without defaults. Gets the `declaration`.

    Raises
    ------
    DataError
        An argument says something else than the file.
    """
    from bitlane.sparse.batches.schema_file import read_declaration

    if getattr(arguments, "schema", None) is None:
        return
    arguments.declaration = read_declaration(arguments.schema)
    names = {entry: name for name, entry in READER_ENTRIES.items()}
    for entry, given in arguments.declaration.reader.items():
        name = names.get(entry, entry)
        if getattr(arguments, name, given) != given:
            raise DataError(f"{option_of(name)}: {arguments.schema} says otherwise; omit it, or change the file")
        setattr(arguments, name, given)


def open_columns(
    opened: Callable[..., FileSource], arguments: argparse.Namespace
) -> tuple[FileSource, Schema | ListSchema | None]:
    """Open files, and return their schema: declared, or what the first file suggests and the arguments say.

    Parameters
    ----------
    opened : callable
        Opens the files with options of `ReadOptions` as its keywords.
    arguments : Namespace

    Returns
    -------
    FileSource
    Schema, ListSchema or None
        None if the files have no columns.
    """
    if arguments.schema is not None:
        return _declared(opened, arguments)
    source = opened(ignore=tuple(arguments.ignore), decimal=arguments.decimal or ".")
    return source, _suggested(source, arguments)


def _declared(opened: Callable[..., FileSource], arguments: argparse.Namespace) -> tuple[FileSource, Schema]:
    """Return the schema of a file, with what it leaves to the first rows of the data."""
    from bitlane.sparse.batches.moments import unlike
    from bitlane.sparse.batches.schema import Schema

    options = (*COLUMNS, "unscaled", "several_separator", "several_pooling")
    if given := [option for option in options if getattr(arguments, option) not in (None, [], False)]:
        raise DataError(f"{option_of(given[0])}: say it in {arguments.schema}, the file of --schema")
    declaration: Declaration = arguments.declaration
    fit = declaration.fit_of()
    source = opened(schema=fit.schema)
    if not source.has_tables:
        raise DataError(f"--schema {arguments.schema}: {source.files[0].name} has no columns; omit it")
    if declaration.has_patterns:
        fit = declaration.fit_of(source.column_names())
        source = opened(schema=fit.schema)
    assert isinstance(source.schema, Schema)
    schema = source.fitted(source.schema, fit.standard, fit.buckets)
    if fit.schema.scales:
        rows, location = source.first_rows(schema)
        for line in [] if rows is None else unlike(rows, fit.schema, location):
            warn_user(line)
    return source, schema


def _suggested(source: FileSource, arguments: argparse.Namespace) -> Schema | ListSchema | None:
    from bitlane.sparse.batches.schema import POOLINGS, SEPARATOR, ListSchema, Schema, no_features

    schema = source.schema
    if schema is None:
        return None
    named = {name: list(getattr(arguments, name)) for name in ("categorical", "numeric", "several")}
    moved = [name for names in named.values() for name in names]
    if isinstance(schema, ListSchema):
        if arguments.cross or moved:
            raise DataError(f"{source.files[0].name} has lists of keys: omit --categorical and similar options")
        return replace(schema, time=arguments.time)
    assert isinstance(schema, Schema)
    columns = [*schema.categorical, *schema.numeric, *dict(schema.several)]
    time = arguments.time or (TIME if TIME in columns and TIME not in moved else None)
    known = (*columns, *arguments.ignore, schema.weight)  # crosses may have columns that are no feature alone
    for name in [*moved, *(name for group in arguments.cross for name in group), *([time] if time else [])]:
        if name not in known:
            raise DataError(
                f"{source.files[0].name} has no column {name!r}; there are {', '.join(map(shown_name, columns))}"
            )
    away = {time, *moved}
    several = [*(name for name in dict(schema.several) if name not in away), *named["several"]]
    chosen = Schema(
        label=schema.label,
        categorical=tuple(named["categorical"] or (name for name in schema.categorical if name not in away)),
        numeric=tuple(named["numeric"] or (name for name in schema.numeric if name not in away)),
        crosses=tuple(tuple(group) for group in arguments.cross),
        time=time,
        several=tuple((name, arguments.several_pooling or POOLINGS[0]) for name in several),
        several_separator=SEPARATOR if arguments.several_separator is None else arguments.several_separator,
        decimal=schema.decimal,
        weight=schema.weight,
    )
    if not chosen.columns:
        raise no_features(source.files[0].name, chosen.label)
    if schema.weight is None:
        _warn_of_weights([name for name in columns if name in chosen.columns and name not in moved])
    typed = chosen.with_types(source.types)
    return typed if arguments.unscaled else source.fitted(typed)


def _warn_of_weights(features: Sequence[str]) -> None:
    """Tell of features whose names suggest that they have the weights of rows: nobody has said so."""
    from bitlane.sparse.batches.weights import looks_like_weights

    for name in filter(looks_like_weights, features):
        warn_user(
            f"column {name!r} is a feature; if it says how many rows a row counts as, use --weight {name}, else "
            "name it among --numeric or --categorical"
        )
