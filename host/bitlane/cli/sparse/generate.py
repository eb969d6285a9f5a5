"""`bitlane sparse generate`: write a click log with planted truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bitlane.cli.argument_types import positive, seed
from bitlane.cli.command import Command

from . import data
from .progress import row_progress

FORMATS = ("parquet", "arrow", "csv", "libffm")
SETTINGS = (
    *("keys", "fields", "growth", "zipf", "dim", "linear", "interactions", "base_rate", "churn", "turn"),
    *("start_time", "rows_per_second", "seed"),
)


def count(text: str) -> int:
    """A whole number of at least 1, also as 1e6."""
    try:
        number = int(text) if text.isdigit() else float(text)
        if number < 1 or number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1, such as 5 or 1e6") from None
    return int(number)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder for the files")
    add = parser.add_argument
    add("--rows", type=count, default=1_000_000, metavar="N", help="rows in total (default: 1000000)")
    add("--segment-rows", type=count, default=1 << 20, metavar="N", help="rows per file (default: 1048576)")
    add("--format", choices=FORMATS, default="parquet", help="format of the files (default: parquet)")
    add("--threads", type=positive, default=2, metavar="N", help="files generated in parallel (default: 2)")
    add = parser.add_argument_group("what the log is like").add_argument
    add("--keys", type=count, metavar="N", help="keys in use at any time, such as 1e6 (default: 1e6)")
    add("--fields", type=positive, metavar="N", help="columns; each row has one key per column (default: 10)")
    add("--growth", type=float, metavar="X", help="ratio of the key counts of consecutive columns (default: 2)")
    add("--zipf", type=float, metavar="S", help="key frequency is proportional to rank^-S (default: 1.1)")
    add("--dim", type=positive, metavar="K", help="length of the true factors (default: 4)")
    add("--linear", type=float, metavar="X", help="scale of the true linear weights (default: 1)")
    add("--interactions", type=float, metavar="X", help="scale of the true interactions (default: 1)")
    add("--base-rate", type=float, metavar="SHARE", help="initial share of clicks (default: 0.2)")
    add("--churn", type=float, metavar="X", help="key changes of each rank per million rows (default: 0)")
    add("--turn", type=float, metavar="RADIANS", help="rotation of the true factors per million rows (default: 0)")
    add("--start-time", type=seed, metavar="T", help="time of the first row in seconds since 1970 (default: 1.7e9)")
    add("--rows-per-second", type=float, metavar="X", help="rows per second of log time (default: 1000)")
    add("--seed", type=seed, help="seed of keys, true weights and clicks (default: 0)")


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("a click log")
    from bitlane.sparse.generator.click_log import ClickLog
    from bitlane.sparse.generator.settings import ClickLogSettings
    from bitlane.sparse.generator.write import write_click_log

    given: dict[str, Any] = {
        name: getattr(arguments, name) for name in SETTINGS if getattr(arguments, name) is not None
    }
    log = ClickLog(ClickLogSettings(**given))
    with row_progress("generating", arguments.rows) as bar:
        ceiling = write_click_log(
            log,
            arguments.folder,
            arguments.rows,
            segment_rows=arguments.segment_rows,
            format=arguments.format,
            threads=arguments.threads,
            on_segment=None if bar is None else lambda segment: bar.on_rows(segment.rows),
        )
    auc = "-" if ceiling.auc is None else f"{ceiling.auc:.4f}"
    print(
        f"{arguments.rows:,} rows written to {arguments.folder}; the true probabilities have AUC {auc}, "
        f"log loss {ceiling.log_loss:.4f}"
    )


COMMAND = Command(
    "generate",
    "write a click log with planted truth",
    _add_arguments,
    _run,
    description="Write a click log with clicks drawn from a factorization machine and Zipf-distributed keys. Print "
    "the AUC and log loss of the true probabilities, which no model can beat except by chance.",
)
