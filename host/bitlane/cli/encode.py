"""`bitlane encode`: store a table once with few bits a value."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bitlane.data.encoding import EncodingOptions, append_file, encode_file
from bitlane.data.pieces import PieceSource, piece_source
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.support.optional import require_extra

from .argument_types import bounds, positive, words
from .command import Command
from .output import check_file
from .reading import READING, add_reading_arguments
from .summaries import SUMMARIES
from .training_arguments import fill

ENCODE_DEFAULTS = {
    **READING,
    "target": [],
    "weight": None,
    "groups": None,
    "bits": 8,
    "range": None,
    "like": None,
    "clip": True,
    "centered": True,
    "append": False,
    "threads": None,
    "json": False,
}
OF_SCALES = ("bits", "range", "like", "clip", "centered")  # what an appended table has already


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="TABLE", help="npy, parquet, arrow, feather, csv or tsv file, of any size")
    add("--out", type=Path, required=True, metavar="FILE", help="encoded table to write, such as t.bits")
    add("--bits", type=positive, help="bits of a value: even, 2 to 16 (default: 8)")
    add("--target", type=words, metavar="COLUMNS", help="label columns, separated by commas (default: none)")
    add("--weight", metavar="COLUMN", help="column with the weights of the rows (default: none)")
    add("--groups", metavar="COLUMN", help="column with groups of rows, such as folds; integers (default: none)")
    add(
        "--range",
        type=bounds,
        metavar="LOW,HIGH",
        help="range of all columns, in their units; beyond it values are clipped (default: a first pass finds ranges)",
    )
    add("--like", type=Path, metavar="FILE", help="encoded table whose scales and bits are taken (default: none)")
    add(
        "--clip",
        action=argparse.BooleanOptionalAction,
        help="whether outliers of the columns are clipped (default: yes)",
    )
    add(
        "--centered",
        action=argparse.BooleanOptionalAction,
        help="whether scales lie around the means; around 0, models need no intercept (default: yes)",
    )
    add("--append", action="store_true", help="add the rows to those of --out, with its scales (default: a new file)")
    add("--threads", type=positive, help="threads that encode (default: one for each processor)")
    add("--json", action="store_true", help="print what was written as JSON (default: as text)")
    add_reading_arguments(parser)


def _run(arguments: argparse.Namespace) -> None:
    given = [name for name in OF_SCALES if hasattr(arguments, name)]
    fill(arguments, ENCODE_DEFAULTS)
    out = arguments.out
    check_file(out)
    if out.exists() and out.resolve() == Path(arguments.source).resolve():
        raise DataError(f"--out {out} is the table itself: name another file")
    if arguments.append and not out.is_file():
        raise DataError(f"--append: there is no file {out}: omit the option")
    if arguments.append and given:
        raise DataError(f"--{given[0]}: {out} has its scales already; omit the option with --append")
    if arguments.like is not None and len(given) > 1:
        other = next(name for name in given if name != "like")
        raise DataError(f"--{other}: the scales are those of --like {arguments.like}; omit the option")
    if arguments.range is not None and None in arguments.range:
        raise DataError("--range needs both ends, such as --range=-1,1")
    source = piece_source(arguments.source, arguments.sep, header=arguments.header)
    options = EncodingOptions(
        bits=arguments.bits,
        targets=tuple(arguments.target),
        weight_column=arguments.weight,
        group_column=arguments.groups,
        ignored=tuple(arguments.ignore),
        column_range=arguments.range,
        like=arguments.like,
        clip=arguments.clip,
        centered=arguments.centered,
    )
    act = append_file if arguments.append else encode_file
    with _row_progress(source) as on_rows:
        count = act(source, out, options, threads=arguments.threads, on_rows=on_rows)
    print(_summary(out, count, arguments.append, as_json=arguments.json))


def _summary(out: Path, count: int, appended: bool, *, as_json: bool) -> str:
    """Return what a file holds; `count` is that of clipped values of appended rows, or of rows that were there."""
    table = EncodedTable.open(out)
    (rows, n), stored = table.shape, table.coded.shape[1]
    found = {
        "rows": rows,
        "columns": n,
        "constant_columns": n - stored,
        "targets": list(table.targets),
        "bits": table.column_codes.bits,
        "bytes": out.stat().st_size,
        "float32_bytes": 4 * rows * n,
        "clipped": float(table.clipped.mean()),
    }
    found["clipped_values_appended" if appended else "resumed_rows"] = count
    if as_json:
        return json.dumps(found)
    size, bits = out.stat().st_size, table.column_codes.bits
    lines = [
        f"{out}: {rows} rows, {n} columns, {n - stored} of them constant, {bits} bits a value",
        f"{size} bytes, {size / (4 * rows * n):.3f} of float32; a training with b bits reads b/{bits} of the codes",
    ]
    if table.clipped.any():
        lines.append(f"clipped: {table.clipped.mean():.2g} of all values")
    if appended:
        lines.append(f"appended: {count} values were beyond the scales and are clipped")
    elif count:
        lines.append(f"continued a run that had been interrupted after {count} rows")
    return "\n".join(lines)


@contextlib.contextmanager
def _row_progress(source: PieceSource) -> Iterator[Callable[[int], object] | None]:
    """Show the rows of all passes on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    tqdm = require_extra("tqdm", "a progress bar").tqdm
    with tqdm(desc=f"encoding {source.name}", unit=" rows", unit_scale=True, leave=False) as bar:
        yield bar.update


COMMAND = Command("encode", SUMMARIES["encode"], _add_arguments, _run, suppress_defaults=True)
