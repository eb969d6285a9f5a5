"""`bitlane reproduce PAPER`: all claims of a paper, one after the other."""

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


def reproduce(name: str, out: Path, quick: bool, say: Log) -> list[Path]:
    """Measure every claim of the paper `name`, then write the page `out` and its plots; returns their paths.

    Raises BitlaneError where a library, a data set or a device is missing: nothing is written then.
    """
    require_extra("matplotlib", "plotting")
    found = load_paper(name)
    found.check_needs()
    size = found.quick if quick else found.full
    began, worked, claims = time.perf_counter(), time.process_time(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a baseline diverges, or a column is constant, is no news
        for number, measure in enumerate(found.measures, start=1):
            say(f"claim {number} of {len(found.measures)}, {(time.perf_counter() - began) / 60:.0f} minutes so far")
            claims.append(measure(size, say))
    minutes = (time.process_time() - worked) / 60
    today = datetime.now(timezone.utc).strftime("%d %B %Y")
    about = f"bitlane {__version__}, {today}, {size.name} size, {size.seeds} seeds, {minutes:.0f} minutes of one core."
    return write_page(found, claims, out, about)
