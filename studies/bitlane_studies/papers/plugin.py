"""`bitlane reproduce`: measure every claim of a paper, and write a page about the results."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.errors import DataError

from .command import reproduce
from .paper import NAMES, default_page

LOG = logging.getLogger("bitlane.reproduce")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paper", choices=NAMES, help="the paper")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="Markdown file of the page; its plots are written to the folder of this name without .md "
        "(default: docs/PAPER.md)",
    )
    add("--quick", action="store_true", help="check with toy sizes that everything works; the verdicts are meaningless")


def _run(arguments: argparse.Namespace) -> None:
    LOG.setLevel(logging.INFO)  # the command takes an hour: its progress is shown without --verbose
    out: Path = arguments.out or default_page(arguments.paper)
    check_file(out)
    if out.suffix != ".md":
        raise DataError(f"--out must end with .md, because the page is Markdown; got {out}")
    if out.with_suffix("").exists() and not out.with_suffix("").is_dir():
        raise DataError(f"cannot write plots to {out.with_suffix('')}, which is not a folder: give another --out")
    for path in reproduce(arguments.paper, out, arguments.quick, LOG.info):
        print(path)


COMMAND = Command(
    "reproduce",
    "measure every claim of a paper, and write a page about the results",
    _add_arguments,
    _run,
    description="Measure every claim of a paper on available data, and write a page with plots. ZipML takes about 15 "
    "minutes on one core. All papers need torch: pip install 'bitlane[torch]'.",
)
