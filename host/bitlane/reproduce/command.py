"""`bitlane reproduce zipml`: all claims, one after the other."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from .. import __version__
from ..cifar10 import load_cifar10
from ..datasets import load_dataset
from ..devices import Device, open_device
from ..extras import extra
from . import batches, convergence, fewest, network, speed, tomography, variance
from .claim import Claim, Say, Size
from .network import torch_or_error
from .page import write_page
from .tasks import REAL

Measure = Callable[[Size, Device, Say], Claim]

MEASURES: Sequence[Measure] = tuple(
    module.measure for module in (convergence, fewest, batches, speed, variance, network, tomography)
)
WIDTH = 512  # of the emulator's port: the same bits, sooner


def check_needs() -> None:
    """Refuse what is missing before anything is measured: BitlaneError for a library, DataError for a data set."""
    extra("matplotlib", "plotting")
    torch_or_error()
    for name in REAL:
        load_dataset(name)
    load_cifar10()


def reproduce(out: Path, size: Size, say: Say) -> list[Path]:
    """Measure every claim, then write the page `out` and its plots; returns their paths.

    Raises BitlaneError where a library, a data set or a device is missing: nothing is written then.
    """
    check_needs()
    began, worked, claims = time.perf_counter(), time.process_time(), []
    device = open_device("emulator", WIDTH)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # that a baseline diverges, or a column is constant, is no news
            for number, measure in enumerate(MEASURES, start=1):
                say(f"claim {number} of {len(MEASURES)}, {(time.perf_counter() - began) / 60:.0f} minutes so far")
                claims.append(measure(size, device, say))
    finally:
        device.close()
    minutes = (time.process_time() - worked) / 60
    today = datetime.now(timezone.utc).strftime("%d %B %Y")
    about = f"bitlane {__version__}, {today}, {size.name} size, {size.seeds} seeds, {minutes:.0f} minutes of one core."
    return write_page(claims, out, about)
