"""`bitlane reproduce`: measure every claim of a paper, and write a page."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.errors import DataError

from .command import reproduce
from .paper import NAMES, default_page

LOG = logging.getLogger(__name__)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paper", choices=NAMES)
    add("--out", type=Path, metavar="FILE", help="the page; its plots go beside it (default: docs/PAPER.md)")
    add("--quick", action="store_true", help="toy sizes, to see that everything works: the verdicts mean nothing")


def _run(arguments: argparse.Namespace) -> None:
    out: Path = arguments.out or default_page(arguments.paper)
    check_file(out)
    if out.suffix != ".md":
        raise DataError(f"--out {out}: the page is Markdown: give a name that ends with .md")
    if out.with_suffix("").exists() and not out.with_suffix("").is_dir():
        raise DataError(f"--out {out}: its plots go to {out.with_suffix('')}, which is not a folder")
    for path in reproduce(arguments.paper, out, arguments.quick, LOG.info):
        print(path)


COMMAND = Command(
    "reproduce",
    "measure every claim of a paper, and write a page",
    _add_arguments,
    _run,
    description="Measure every claim of a paper on data at hand, and write a page with plots. ZipML takes about 15 "
    "minutes of one core; all papers need torch: pip install 'bitlane[torch]'.",
)
