"""The columns of a training: what its arguments say, what a file declares, and what the first file suggests."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bitlane.errors import DataError
from bitlane.support.text import option_of, shown_name

if TYPE_CHECKING:
    from bitlane.sparse.batches.schema import ListSchema, Schema
    from bitlane.sparse.batches.source import FileSource

COLUMNS = ("target", "time", "categorical", "numeric", "several", "ignore", "cross")  # arguments that name columns
TIME = "time"  # a column of this name is the time, and no feature


def suggested(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a reader of files whose columns nobody has named yet, or a file has."""
    if arguments.schema is None:
        return {"ignore": tuple(arguments.ignore)}
    from bitlane.sparse.batches.schema_file import schema_from_toml

    options = (*COLUMNS, "unscaled", "several_separator", "several_pooling")
    if given := [option for option in options if getattr(arguments, option) not in (None, [], False)]:
        raise DataError(f"{option_of(given[0])}: say it in {arguments.schema}, the file of --schema")
    return {"schema": schema_from_toml(arguments.schema)}


def schema_of(source: FileSource, arguments: argparse.Namespace) -> Schema | ListSchema | None:
    """Return the schema that a file suggests, with what the arguments say; None if it has no columns."""
    from bitlane.sparse.batches.schema import POOLINGS, SEPARATOR, ListSchema, Schema, no_features

    schema = source.schema
    if schema is None or arguments.schema is not None:
        return schema
    named = {name: list(getattr(arguments, name)) for name in ("categorical", "numeric", "several")}
    moved = [name for names in named.values() for name in names]
    if isinstance(schema, ListSchema):
        if arguments.cross or moved:
            raise DataError(f"{source.files[0].name} has lists of keys: omit --categorical and similar options")
        return replace(schema, time=arguments.time)
    assert isinstance(schema, Schema)
    columns = [*schema.categorical, *schema.numeric, *dict(schema.several)]
    time = arguments.time or (TIME if TIME in columns and TIME not in moved else None)
    for name in [*moved, *(name for group in arguments.cross for name in group), *([time] if time else [])]:
        if name not in (*columns, *arguments.ignore):  # crosses may have columns that are no feature alone
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
    )
    if not chosen.columns:
        raise no_features(source.files[0].name, chosen.label)
    typed = chosen.with_types(source.types)
    return typed if arguments.unscaled else source.standardised(typed)
