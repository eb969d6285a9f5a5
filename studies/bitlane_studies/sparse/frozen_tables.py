"""Measure size and speed of frozen tables: `python -m bitlane_studies.sparse.frozen_tables`.

Random keys with normally distributed values are frozen: as float32, and as codes of 8, 4 and 2 bits. Batches of random
keys are looked up, from memory and from a mapped file that the system has in its cache; the ways take turns, one thread
each. Beside them: the table of a training, which grows, and numpy's gather by row number, without keys.
"""

from __future__ import annotations

import argparse
import mmap
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.tables.codebooks import BITS, fit_codebook
from bitlane.sparse.tables.frozen import FrozenTable, freeze
from bitlane.sparse.tables.mixing import keys_of
from bitlane.sparse.tables.table import Table
from bitlane.support.text import align_columns

LOOKUPS = 100_000
BATCHES = 16  # of keys, which take turns
WARM_UP = 3  # rounds that do not count
SAMPLE = 100_000  # rows from which levels are chosen
_CHUNK = 1 << 16

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Way = Callable[[Keys], object]


def random_rows(rows: int, width: int, seed: int) -> tuple[Keys, Floats]:
    """Return at most `rows` distinct random keys, uint64 [n], in the order of words, and rows, float32 [n, width]."""
    draw = np.random.default_rng(seed)
    words = np.unique(draw.integers(0, 2**64 - 1, rows, np.uint64))
    return keys_of(words), draw.standard_normal((len(words), width), np.float32)


def chunks_of(keys: Keys, rows: Floats) -> Iterator[tuple[Keys, Floats]]:
    """Yield keys and rows in parts, as `freeze` takes them."""
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK], rows[start : start + _CHUNK]


def frozen_tables(keys: Keys, rows: Floats) -> dict[str, tuple[FrozenTable, float]]:
    """Return tables of float32 and of codes, each with the seconds of freezing it."""
    found = {}
    for bits in (None, *sorted(BITS, reverse=True)):
        codebook = None if bits is None else fit_codebook(rows[:SAMPLE], bits)
        begin = time.perf_counter()
        table = freeze(chunks_of(keys, rows), len(keys), rows.shape[1], codebook)
        found["float32" if bits is None else f"{bits} bits"] = table, time.perf_counter() - begin
    return found


def measure(ways: dict[str, Way], keys: Keys, rounds: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return the milliseconds of each call, float64 [rounds], of ways that take turns; each gets the same keys."""
    draw = np.random.default_rng(seed)
    batches = [keys[draw.integers(0, len(keys), LOOKUPS)] for _ in range(BATCHES)]
    times: dict[str, list[float]] = {name: [] for name in ways}
    for each in range(rounds + WARM_UP):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(batches[each % BATCHES])
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: np.array(found[WARM_UP:]) for name, found in times.items()}


def ways_of(tables: dict[str, tuple[FrozenTable, float]], keys: Keys, rows: Floats, folder: Path) -> dict[str, Way]:
    """Return what is measured, by name."""
    table = Table(rows.shape[1])
    for some, values in chunks_of(keys, rows):
        table.scatter(some, values)
    places = np.random.default_rng(0).integers(0, len(keys), LOOKUPS)
    ways: dict[str, Way] = {name: _reader(each) for name, (each, _) in tables.items()}
    path = folder / "rows.frozen"
    path.write_bytes(b"".join(tables["float32"][0].buffers()))
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    ways["float32, mapped"] = _reader(FrozenTable.from_buffer(mapped))
    ways["table of a training"] = table.gather
    ways["numpy gather"] = lambda _: rows[places]
    return ways


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table: bytes a row, their share of key and values, milliseconds for 100,000 keys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=1, help="values of a row (default: 1)")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        keys, rows = random_rows(options.rows, options.width, options.seed)
        tables = frozen_tables(keys, rows)
        with tempfile.TemporaryDirectory() as folder:
            times = measure(ways_of(tables, keys, rows, Path(folder)), keys, options.rounds, options.seed)
    except (BitlaneError, MemoryError) as error:
        sys.exit(f"error: {error or 'out of memory'}")
    plain = 8 + 4 * options.width
    print(f"{len(keys):,} keys, {options.width} values each; {LOOKUPS:,} lookups, ms\n")
    lines = [["", "bytes a row", "of key + values", "freezing s", "p50", "p99"]]
    for name, found in times.items():
        size = ["", "", ""]
        if name in tables:
            table, seconds = tables[name]
            size = [f"{table.nbytes / len(keys):.2f}", f"{table.nbytes / len(keys) / plain:.3f}", f"{seconds:.2f}"]
        lines.append([name, *size, *(f"{np.percentile(found, each):.2f}" for each in (50, 99))])
    print(align_columns(lines))


def _reader(table: FrozenTable) -> Way:
    return lambda keys: table.read(table.find(keys))


if __name__ == "__main__":
    main()
