"""How text and tables are read: arguments that all commands share which read files."""

from __future__ import annotations

import argparse
from typing import Any

from bitlane.errors import DataError
from bitlane.support.csv_text import separator

from .argument_types import words

# Values of arguments that are not given.
READING: dict[str, Any] = {"sep": None, "header": True, "ignore": []}


def add_reading_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup, **defaults: Any) -> None:
    """Add the arguments; `defaults` are those of a parser whose missing arguments are set at once."""
    add = parser.add_argument
    add(
        "--sep",
        type=_separator,
        metavar="CHARACTER",
        help="separator of csv columns, such as ';', or tab (default: comma; tab in tsv)",
        **_default(defaults, "sep"),
    )
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first row of a csv file has the column names; without, they are x0, x1, ... (default: yes)",
        **_default(defaults, "header"),
    )
    add(
        "--ignore",
        type=words,
        metavar="COLUMNS",
        help="columns that are not read, separated by commas (default: none)",
        **_default(defaults, "ignore"),
    )


def _default(defaults: dict[str, Any], name: str) -> dict[str, Any]:
    return {"default": defaults[name]} if name in defaults else {}


def _separator(text: str) -> str:
    try:
        return separator(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
