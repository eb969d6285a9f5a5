"""Measure memory and speed of the table of sparse parameters: `python -m bitlane_studies.sparse.table_memory`.

The table grows from nothing, by batches of 1 % of its rows and at most 65,536 new keys. After each batch, its memory is
compared with its data (8 bytes of key and 4 per column): by count, from the sizes of its arrays; and by RSS, from what
the system gave the process since it began, which was after a batch on another table. The peak is what the process
reached at any moment inside the batches; Linux resets it on request. RSS counts from a million rows on: below, it is
noise of pages.

Then random keys of the table are looked up in batches, by one thread: `find` returns slots, `gather` copies rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.tables.table import Table
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns

FIRST_ROWS = 1000
RSS_ROWS = 1_000_000
BATCH = 65_536
LOOKUPS = 100_000
REPEATS = 200
DICT_ROWS = 1_000_000
PLOTTED = 400  # points of a curve
_STEP = np.uint64(0x9E3779B97F4A7C15)  # keys are multiples of it: all different, and a key follows from its number

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class MemorySample:
    """Memory after one batch of insertions.

    Attributes
    ----------
    rows : int
    counted : float
        Bytes of the table's arrays over the bytes of its data.
    resident : float
        Growth of the process since it began, over the same.
    peak : float
        The largest growth inside the batch, over the same; nan where the system does not tell.
    """

    rows: int
    counted: float
    resident: float
    peak: float


def keys_of(numbers: NDArray[np.uint64]) -> Keys:
    """Return the keys of these numbers, uint64 [n]: different numbers have different keys."""
    keys: Keys = numbers * _STEP
    return keys


def resident_bytes() -> int:
    """Return the memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def take_peak() -> float:
    """Return the largest memory of the process since the last call, and begin anew; nan where that is not possible."""
    try:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, StopIteration):
        return float("nan")
    return 1024.0 * int(line.split()[1])


def grow(table: Table, rows: int) -> tuple[list[MemorySample], float]:
    """Insert keys 0 to `rows` - 1 and sample the memory after each batch.

    Parameters
    ----------
    table : Table
        Empty.
    rows : int

    Returns
    -------
    samples : list of MemorySample
        From `FIRST_ROWS` rows on.
    seconds : float
        Of the insertions alone.
    """
    samples: list[MemorySample] = []
    seconds, count = 0.0, 0
    before = resident_bytes()
    take_peak()
    while count < rows:
        last = min(rows, count + max(16, min(BATCH, count // 100)))
        keys = keys_of(np.arange(count, last, dtype=np.uint64))
        begin = time.perf_counter()
        table.find_or_insert(keys)
        seconds += time.perf_counter() - begin
        count = last
        if count >= FIRST_ROWS:
            data = table.data_nbytes
            resident, peak = resident_bytes() - before, take_peak() - before
            samples.append(MemorySample(count, table.nbytes / data, resident / data, peak / data))
    return samples, seconds


def look_up(table: Table, method: str, seed: int) -> NDArray[np.float64]:
    """Look up `REPEATS` batches of `LOOKUPS` random keys.

    Parameters
    ----------
    table : Table
        With the keys of numbers 0 to len(table) - 1.
    method : {"find", "gather", "absent"}
        `absent`: find keys that the table does not have.
    seed : int

    Returns
    -------
    float64 [2, REPEATS]
        Seconds of each batch: those that passed, and those that the thread had a core.
    """
    rng = np.random.default_rng(seed)
    first = len(table) if method == "absent" else 0
    out = np.empty((LOOKUPS, table.width), np.float32)
    seconds = np.empty((2, REPEATS))
    for i in range(REPEATS):
        keys = keys_of(rng.integers(first, first + len(table), LOOKUPS, dtype=np.uint64))
        begin, worked = time.perf_counter(), time.thread_time()
        slots = table.gather(keys, out) if method == "gather" else table.find(keys)
        seconds[:, i] = time.perf_counter() - begin, time.thread_time() - worked
        if method != "gather" and (slots < 0).any() != (method == "absent"):
            raise BitlaneError(f"the table answered wrongly: {method}")
    return seconds


def dict_bytes(rows: int) -> float:
    """Return the bytes per entry of a dict from int to float, by the sizes of its objects."""
    entries = dict(zip(keys_of(np.arange(rows, dtype=np.uint64)).tolist(), np.arange(rows) / 2, strict=True))
    objects = sum(sys.getsizeof(key) + sys.getsizeof(float(value)) for key, value in entries.items())
    return (sys.getsizeof(entries) + objects) / rows


def draw(samples: Sequence[MemorySample], title: str, path: Path) -> None:
    """Plot memory over data against rows to `path`."""
    pyplot: Any = require_extra("matplotlib.pyplot", "a plot")
    figure, axes = pyplot.subplots(figsize=(7, 4), constrained_layout=True)
    shown = thinned(samples)
    rows = [sample.rows for sample in shown]
    axes.plot(rows, [sample.counted for sample in shown], color="#0072B2", label="by count")
    large = [sample for sample in shown if sample.rows >= RSS_ROWS]
    if large:
        axes.plot([s.rows for s in large], [s.resident for s in large], "--", color="#D55E00", label="by RSS")
    axes.axhline(1.2, color="#777777", linewidth=1, label="1.2")
    axes.set(xscale="log", xlabel="rows", ylabel="memory over data", ylim=(1, 1.3), title=title)
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def thinned(samples: Sequence[MemorySample]) -> list[MemorySample]:
    """Return at most `PLOTTED` samples, with about equal ratios between their rows."""
    numbers = np.geomspace(samples[0].rows, samples[-1].rows, PLOTTED)
    index = np.unique(np.searchsorted([sample.rows for sample in samples], numbers))
    return [samples[i] for i in index if i < len(samples)]


def report(width: int, samples: Sequence[MemorySample], insert_seconds: float) -> str:
    """Return the table of memory: the largest ratios and the speed of insertion."""
    large = [sample for sample in samples if sample.rows >= RSS_ROWS] or [samples[-1]]
    rows = samples[-1].rows
    cells = [("memory over data", "largest", "at rows", "at the end")]
    for name, field, some in (
        (f"by count, from {FIRST_ROWS:,} rows, {len(samples):,} samples", "counted", samples),
        (f"by RSS, from {large[0].rows:,} rows", "resident", large),
        ("by RSS, peak inside batches", "peak", large),
    ):
        ratios = [float(getattr(sample, field)) for sample in some]
        largest = max(ratios)
        cells.append((name, f"{largest:.3f}", f"{some[ratios.index(largest)].rows:,}", f"{ratios[-1]:.3f}"))
    cells += [
        ("insertion of a key, us", f"{1e6 * insert_seconds / rows:.2f}", f"{rows:,}", ""),
        ("bytes of data per row", f"{8 + 4 * width}", "", ""),
    ]
    return align_columns(cells)


def times(table: Table, seed: int) -> str:
    """Return the table of lookup times: what passed, and what the core worked, which other programs change little."""
    cells: list[tuple[str, ...]] = [
        (f"{LOOKUPS:,} keys, one thread", "p50, ms", "p99, ms", "max, ms", "core p50, ms", "core p99, ms")
    ]
    names = (("find", "find"), ("find of absent keys", "absent"), (f"gather of {4 * table.width} bytes", "gather"))
    for name, method in names:
        passed, worked = 1e3 * look_up(table, method, seed)
        quantiles = (*np.quantile(passed, (0.5, 0.99, 1)), *np.quantile(worked, (0.5, 0.99)))
        cells.append((name, *(f"{milliseconds:.2f}" for milliseconds in quantiles)))
    return align_columns(cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Grow a table, and print its memory, its times, and a dict beside it."""
    parser = argparse.ArgumentParser(description="Measure memory and speed of the table of sparse parameters.")
    parser.add_argument("--rows", type=int, default=50_000_000, metavar="N", help="default: 50,000,000")
    parser.add_argument(
        "--width", type=int, default=1, metavar="N", help="float32 per row: 1 for LR, 18 for FM (default: 1)"
    )
    parser.add_argument("--out", type=Path, metavar="PNG", help="plot memory over data to this file")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the keys that are looked up (default: 0)")
    options = parser.parse_args(arguments)
    if options.rows < FIRST_ROWS or options.width < 1:
        parser.error(f"--rows must be at least {FIRST_ROWS}, --width at least 1")
    warm = Table(options.width)  # the memory of the compiler, and of batches, counts as before
    grow(warm, 5000)
    warm.find_or_insert(keys_of(np.arange(2 * BATCH, dtype=np.uint64)))
    look_up(warm, "gather", options.seed)
    del warm
    table = Table(options.width)
    samples, seconds = grow(table, options.rows)
    print(report(options.width, samples, seconds), end="\n\n")
    print(times(table, options.seed), end="\n\n")
    entries = min(DICT_ROWS, options.rows)
    print(f"dict from int to float, {entries:,} entries: {dict_bytes(entries):.1f} bytes each; a row of width 1: 12")
    if options.out is not None:
        draw(samples, f"{options.rows:,} rows of {8 + 4 * options.width} bytes", options.out)
        print(f"plot: {options.out}")


if __name__ == "__main__":
    main()
