"""`bitlane reproduce`: measure every claim of a paper, and write a page about the results."""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

from bitlane import __version__
from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.errors import DataError
from bitlane.support.optional import require_extra

from .claim import Log
from .page import write_page
from .paper import NAMES, default_page, load_paper

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


def reproduce(name: str, out: Path, quick: bool, log: Log) -> list[Path]:
    """Measure every claim of a paper, and write the page and its plots.

    Parameters
    ----------
    name : str
        A paper of `NAMES`.
    out : Path
        File of the page.
    quick : bool
        Use toy sizes to check that everything works.
    log : Log
        Receives progress messages.

    Returns
    -------
    list of Path
        The plots, then the page.

    Raises
    ------
    BitlaneError
        If a library, a data set or a device is missing. Nothing is written then.
    """
    require_extra("matplotlib", "plotting")
    paper = load_paper(name)
    paper.check_needs()
    size = paper.quick if quick else paper.full
    start, start_cpu, claims = time.perf_counter(), time.process_time(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # diverging baselines and constant columns are expected
        for number, measure in enumerate(paper.measures, start=1):
            log(f"claim {number} of {len(paper.measures)}, {(time.perf_counter() - start) / 60:.0f} minutes elapsed")
            claims.append(measure(size, log))
    minutes = (time.process_time() - start_cpu) / 60
    today = datetime.now(timezone.utc).strftime("%d %B %Y")
    about = f"bitlane {__version__}, {today}, {size.name} size, {size.seeds} seeds, {minutes:.0f} minutes of one core."
    return write_page(paper, claims, out, about)


COMMAND = Command(
    "reproduce",
    "measure every claim of a paper, and write a page about the results",
    _add_arguments,
    _run,
    description="Measure every claim of a paper on available data, and write a page with plots. ZipML takes about 15 "
    "minutes on one core. All papers need torch: pip install 'bitlane[torch]'.",
)
