"""`bitlane sparse schema`: what `train` makes of the columns of data, as a file to edit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.cli.training_arguments import fill
from bitlane.errors import DataError

from . import columns, data, data_arguments

if TYPE_CHECKING:
    from bitlane.sparse.batches.schema import ListSchema, Schema
    from bitlane.sparse.batches.source import FileSource


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="+", metavar="DATA", help="CSV, TSV, JSON lines, Parquet or Arrow files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the schema to this file (default: print it)")
    data_arguments.add_columns_arguments(parser)


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("reading columns")
    from bitlane.sparse.batches.schema import Schema
    from bitlane.sparse.batches.schema_file import schema_to_toml

    out = getattr(arguments, "out", None)
    if out is not None:
        check_file(out)
    fill(arguments, {**data_arguments.DEFAULTS, "out": None})
    if arguments.schema is not None:
        raise DataError(f"--schema {arguments.schema}: this command proposes a schema; omit it")
    source, schema = _proposed(arguments)
    if not isinstance(schema, Schema):
        raise DataError(f"{arguments.data[0]} has no columns that a schema could declare")
    text = schema_to_toml(schema, _reader(arguments), _hints(source, schema))
    if out is None:
        print(text, end="")
        return
    out.write_text(text, encoding="utf-8")
    print(f"{len(schema.columns)} columns written to {out}: edit it, and use bitlane sparse train --schema {out}")


def _proposed(arguments: argparse.Namespace) -> tuple[FileSource, Schema | ListSchema | None]:
    """Return the files, and the schema that a training with these arguments has; None without columns."""
    settings = {
        "schema": None,
        "label": arguments.target,
        "weight": arguments.weight,
        "task": "classification",
        "fields": None,
        **{name: getattr(arguments, name) for name in (*data.LAYOUT, *data.ENCODING, *data.READING)},
    }
    paths = data.absolute_paths(arguments.data)
    return columns.open_columns(lambda **options: data.open_files(settings, paths, **options), arguments)


def _reader(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how the arguments say that files are read, where it is not as usual."""
    usual = {**data.LAYOUT, **data.ENCODING, "format": None, "positive": None}
    given = {name: getattr(arguments, name) for name in usual}
    return {
        columns.READER_ENTRIES.get(name, name): setting for name, setting in given.items() if setting != usual[name]
    }


def _hints(source: FileSource, schema: Schema) -> dict[str, str]:
    """Return what is said of columns whose numbers have a long tail."""
    from bitlane.sparse.batches.moments import long_tails

    rows, location = source.first_rows(schema)
    if rows is None:
        return {}
    codes = [name for name in schema.categorical if schema.type_of(name) == "number"]
    tails = long_tails(rows, [*schema.numeric, *codes], location, schema)
    log = "{ log1p = true, standard = true }"
    return {
        name: f"long tail of numbers, {spreads:.0f} spreads: "
        + (f'in [numeric], {{ buckets = "log" }} or {log}?' if name in codes else f"{log}?")
        for name, spreads in tails.items()
    }


COMMAND = Command(
    "schema",
    "propose a schema for data: label, types of columns, centres and scales of numbers",
    _add_arguments,
    _run,
    description="Print what `train` makes of the columns, as TOML: label and time, categorical columns with their "
    "types, numeric columns with centres and scales, crosses. Edit it, and give it to `train --schema`.",
    suppress_defaults=True,
)
