"""`bitlane sparse schema`: what `train` makes of the columns of data, as a file to edit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.cli.training_arguments import fill
from bitlane.errors import DataError

from . import columns, data, data_arguments

if TYPE_CHECKING:
    from bitlane.sparse.batches.schema import ListSchema, Schema


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
    schema = _proposed(arguments)
    if not isinstance(schema, Schema):
        raise DataError(f"{arguments.data[0]} has no columns that a schema could declare")
    text = schema_to_toml(schema)
    if out is None:
        print(text, end="")
        return
    out.write_text(text, encoding="utf-8")
    print(f"{len(schema.columns)} columns written to {out}: edit it, and use bitlane sparse train --schema {out}")


def _proposed(arguments: argparse.Namespace) -> Schema | ListSchema | None:
    """Return the schema that a training with these arguments has; None without columns."""
    reading = {"schema": None, "label": arguments.target, "task": "classification", "fields": None}
    settings = {**reading, **{name: getattr(arguments, name) for name in (*data.LAYOUT, *data.READING)}}
    source = data.open_files(settings, data.absolute_paths(arguments.data), **columns.suggested(arguments))
    return columns.schema_of(source, arguments)


COMMAND = Command(
    "schema",
    "propose a schema for data: label, types of columns, centres and scales of numbers",
    _add_arguments,
    _run,
    description="Print what `train` makes of the columns, as TOML: label and time, categorical columns with their "
    "types, numeric columns with centres and scales, crosses. Edit it, and give it to `train --schema`.",
    suppress_defaults=True,
)
