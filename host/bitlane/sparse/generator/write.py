"""A click log in a folder: segments, each complete or absent, and a manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.pipeline import in_order
from bitlane.support.atomic import atomic_write
from bitlane.support.scalars import as_integer

from .ceiling import Ceiling, CeilingCounter
from .click_log import ClickLog
from .formats import find_writer

MANIFEST = "_manifest.json"  # readers of folders skip names that begin with _
SEGMENT_ROWS = 1 << 20


@dataclass(frozen=True)
class LogSegment:
    """One file of a log.

    Attributes
    ----------
    name : str
    first_row, rows : int
    bytes : int
    """

    name: str
    first_row: int
    rows: int
    bytes: int


Progress = Callable[[LogSegment], object]


def write_click_log(
    log: ClickLog,
    folder: Path | str,
    rows: int,
    *,
    segment_rows: int = SEGMENT_ROWS,
    format: str = "parquet",
    threads: int = 1,
    on_segment: Progress | None = None,
) -> Ceiling:
    """Write the first rows of a log as files of `segment_rows` rows each, in the order of their names.

    Each file is written under a temporary name and renamed, so that a reader that follows the folder sees complete
    files only. ``_manifest.json`` comes last: the settings, the segments, and the log loss and AUC of the true
    probabilities, which no model can beat but by chance.

    Parameters
    ----------
    log : ClickLog
    folder : path
        Made if it does not exist; it must be empty.
    rows : int
    segment_rows : int, default=1,048,576
    format : {"parquet", "arrow", "csv", "libffm"}, default="parquet"
        The first three have columns of whole numbers: label, time (seconds since 1970), f0, f1, ...; libffm has no
        times.
    threads : int, default=1
        Segments that are made at a time. The files are the same for any number.
    on_segment : callable, optional
        Called with each `LogSegment` that is written.

    Returns
    -------
    Ceiling
        Metrics of the true probabilities.

    Raises
    ------
    DataError
        The folder holds something already, or a parameter is out of range.
    OSError
        A file cannot be written. What was written before stays, without a manifest.
    """
    folder = Path(folder)
    suffix, writer = find_writer(format)
    rows, segment_rows = as_integer("rows", rows, 1), as_integer("segment_rows", segment_rows, 1)
    threads = as_integer("threads", threads, 1, 256)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists and is not an empty folder: use a new name")
    folder.mkdir(parents=True, exist_ok=True)
    names = log.settings.field_names

    def write(first: int) -> tuple[LogSegment, NDArray[np.float32], NDArray[np.float64]]:
        batch, probabilities = log.sample(first, min(segment_rows, rows - first))
        path = folder / f"clicks-{first // segment_rows:08d}{suffix}"
        with atomic_write(path) as unfinished:
            writer(batch, names, unfinished)
            size = unfinished.stat().st_size
        return LogSegment(path.name, first, batch.rows, size), batch.labels, probabilities

    counter, segments = CeilingCounter(), []
    tasks = (partial(write, first) for first in range(0, rows, segment_rows))
    for segment, labels, probabilities in in_order(tasks, threads):
        counter.add(labels, probabilities)
        segments.append(segment)
        if on_segment is not None:
            on_segment(segment)
    ceiling = counter.result()
    manifest = {
        "settings": asdict(log.settings),
        "format": format,
        "rows": rows,
        "truth": asdict(ceiling),
        "segments": [asdict(segment) for segment in segments],
    }
    with atomic_write(folder / MANIFEST) as unfinished:
        unfinished.write_text(json.dumps(manifest, indent=1) + "\n")
    return ceiling
