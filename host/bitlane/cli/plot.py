"""`bitlane plot`: draw a run folder's plots again."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from bitlane.reporting.plots import draw
from bitlane.reporting.records import read_record

from .command import Command
from .summaries import SUMMARIES


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN_DIR", help="a run folder written by train or compare")


def _run(arguments: argparse.Namespace) -> None:
    record = read_record(arguments.folder)
    with tempfile.TemporaryDirectory(prefix=".plots.", dir=arguments.folder) as temporary:
        for path in draw(record, temporary):
            os.replace(path, arguments.folder / path.name)
            print(arguments.folder / path.name)


COMMAND = Command("plot", SUMMARIES["plot"], _add_arguments, _run)
