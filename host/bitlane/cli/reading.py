"""How text and tables are read: arguments that all commands share which read files."""

from __future__ import annotations

import argparse
from typing import Any

from bitlane.errors import DataError
from bitlane.support.csv_text import separator

from .argument_types import words

# Values of arguments that are not given.
Parser = argparse.ArgumentParser | argparse._ArgumentGroup
READING: dict[str, Any] = {"sep": None, "header": True, "ignore": []}


def add_reading_arguments(parser: Parser) -> None:
    """Add the arguments of a training, for a parser that leaves out what is not given."""
    add_layout_arguments(parser)
    add_ignore_argument(parser)


def add_ignore_argument(parser: Parser) -> None:
    """Add the argument of columns that are left out."""
    parser.add_argument(
        "--ignore",
        type=words,
        metavar="COLUMNS",
        help="columns that are not read, separated by commas (default: none)",
    )


def add_layout_arguments(parser: Parser, usual: str = "", **kind: Any) -> None:
    """Add the arguments of CSV files.

    Parameters
    ----------
    parser : ArgumentParser or group
    usual : str, optional
        The default of both, for the help.
    **kind
        More arguments of `add_argument`.
    """
    add = parser.add_argument
    add(
        "--sep",
        type=_separator,
        metavar="CHARACTER",
        help=f"separator of csv columns, such as ';', or tab (default: {usual or 'comma; tab in tsv'})",
        **kind,
    )
    add(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first row of a csv file has the column names; without, they are x0, x1, ... "
        f"(default: {usual or 'yes'})",
        **kind,
    )


def _separator(text: str) -> str:
    try:
        return separator(text)
    except DataError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
