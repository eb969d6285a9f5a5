"""`bitlane reproduce PAPER`: measure all claims of a paper."""

from __future__ import annotations

import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

from bitlane import __version__
from bitlane.support.optional import require_extra

from .claim import Log
from .page import write_page
from .paper import load_paper


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
    found = load_paper(name)
    found.check_needs()
    size = found.quick if quick else found.full
    start, start_cpu, claims = time.perf_counter(), time.process_time(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # diverging baselines and constant columns are expected
        for number, measure in enumerate(found.measures, start=1):
            log(f"claim {number} of {len(found.measures)}, {(time.perf_counter() - start) / 60:.0f} minutes elapsed")
            claims.append(measure(size, log))
    minutes = (time.process_time() - start_cpu) / 60
    today = datetime.now(timezone.utc).strftime("%d %B %Y")
    about = f"bitlane {__version__}, {today}, {size.name} size, {size.seeds} seeds, {minutes:.0f} minutes of one core."
    return write_page(found, claims, out, about)
