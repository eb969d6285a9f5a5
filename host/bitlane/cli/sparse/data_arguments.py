"""Arguments of the data of `bitlane sparse train`: columns, held-out rows, order."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bitlane.cli.argument_types import seed, words
from bitlane.cli.old_spellings import add_old_spelling
from bitlane.cli.reading import READING, Parser, add_ignore_argument, add_layout_arguments
from bitlane.sparse.batches.formats import NAMES

DEFAULTS: dict[str, Any] = {
    "format": None,
    "target": None,
    "positive": None,
    "time": None,
    "weight": None,
    "categorical": [],
    "numeric": [],
    "unscaled": False,
    "schema": None,
    "several": [],
    "several_separator": None,
    "several_pooling": None,
    **READING,
    "names": None,
    "encoding": None,
    "comment": None,
    "decimal": None,
    "cross": [],
    "fields": None,
    "test": [],
    "test_fraction": None,
    "shuffle_rows": 0,
    "negatives": None,
    "seed": 0,
    "follow": False,
}


def add_columns_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what the columns of tables are."""
    group = parser.add_argument_group("format, and columns of CSV, JSON lines, Parquet and Arrow files")
    add = group.add_argument
    add_reader_arguments(group)
    add(
        "--target", metavar="COLUMN", help="label column; without a header its number, -1 for the last (default: label)"
    )
    add_old_spelling(group, "--label", "--target")
    add(
        "--positive",
        metavar="VALUE",
        help="label that is 1; all others are 0 (default: 1, and true, t, yes and y in any case)",
    )
    add("--time", metavar="NAME", help="timestamp column, not a feature (default: time, if there is one)")
    add(
        "--weight",
        metavar="COLUMN",
        help="column of how many rows each row counts as, 0 or more, not a feature; of npz files an array "
        "(default: each counts as one)",
    )
    add(
        "--categorical",
        type=words,
        metavar="NAMES",
        help="categorical columns, separated by commas (default: all except floating point)",
    )
    add("--numeric", type=words, metavar="NAMES", help="numeric columns (default: floating-point columns)")
    add(
        "--schema",
        type=Path,
        metavar="FILE",
        help="columns as this file declares them, from `bitlane sparse schema` (default: as the first file suggests)",
    )
    add(
        "--unscaled",
        action="store_true",
        help="take numbers as they are (default: standardised by the first rows of the first file)",
    )
    add(
        "--several",
        type=words,
        metavar="NAMES",
        help="columns of text with several values in a cell, each of which is a feature (default: columns of lists)",
    )
    add("--several-separator", metavar="TEXT", help="between the values of a cell (default: a vertical bar)")
    add(
        "--several-pooling",
        choices=("mean", "sum"),
        help="whether each value counts 1 over the number of values in the cell, or 1 (default: mean)",
    )
    add(
        "--cross",
        type=words,
        action="append",
        metavar="NAMES",
        help="columns whose combination is an additional feature; may be repeated (default: none)",
    )
    add_ignore_argument(group)


def add_reader_arguments(parser: Parser, usual: str = "", **kind: Any) -> None:
    """Add the arguments that say how files are read.

    Parameters
    ----------
    parser : ArgumentParser or group
    usual : str, optional
        The default of all, for the help.
    **kind
        More arguments of `add_argument`.
    """
    add = parser.add_argument
    add(
        "--format",
        choices=NAMES,
        metavar="NAME",
        help=f"format of files whose suffix says none, such as .txt or part-00000: {', '.join(NAMES)} "
        f"(default: {usual or 'by the suffix'})",
        **kind,
    )
    add_layout_arguments(parser, usual, **kind)
    add(
        "--names",
        type=words,
        metavar="NAMES",
        help=f"columns of a csv file without a header, separated by commas (default: {usual or 'x0, x1, ...'})",
        **kind,
    )
    add(
        "--encoding",
        metavar="NAME",
        help=f"encoding of text files, such as latin1 (default: {usual or 'utf-8'})",
        **kind,
    )
    add(
        "--comment",
        metavar="TEXT",
        help=f"what begins a line of text files that is a comment, such as '#' (default: {usual or 'nothing'})",
        **kind,
    )
    add(
        "--decimal",
        choices=(".", ","),
        help=f"what begins the fraction of a number in text (default: {usual or 'a point'})",
        **kind,
    )


def add_test_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of held-out rows."""
    add = parser.add_argument_group("held-out rows").add_argument
    add("--test", nargs="+", metavar="DATA", help="data for an evaluation at the end")
    add(
        "--test-fraction",
        type=float,
        metavar="SHARE",
        help="hold out this share of the rows, the same in each run, and evaluate on them at the end",
    )


def add_order_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the order of the rows."""
    add = parser.add_argument_group("order of the rows").add_argument
    add(
        "--negatives",
        type=float,
        metavar="SHARE",
        help="keep this share of the rows with label 0, the same in each run, each weighing 1 / SHARE (default: all)",
    )
    add("--shuffle-rows", type=seed, metavar="N", help="shuffle within groups of N rows (default: 0, no shuffling)")
    add(
        "--follow",
        action="store_true",
        help="DATA is a folder that receives Parquet or Arrow files: train until Ctrl-C",
    )
    add("--seed", type=seed, help="seed of the row order, the negatives kept and the initial weights (default: 0)")
