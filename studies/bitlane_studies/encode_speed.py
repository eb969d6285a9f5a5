"""Measure the time of encoding: `python -m bitlane_studies.encode_speed`.

Base and draw words of MNIST, as uint8 and as float32, and of a synthetic float32 table, in C on one thread and on two,
and in numpy, beside a plain copy of the same table as float32, which only moves its bytes. The fingerprint of the data
is the hash that a checkpoint holds. A time is the minimum of several runs, after the library has been built; the runs
take turns, so that all have the same neighbours on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bitlane import DataError
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.quantization.c_kernels import Kernels, c_kernels
from bitlane.quantization.scaling import Matrix, fit_scaling
from bitlane.support.text import align_columns
from bitlane.training.fingerprint import fingerprint
from bitlane.training.samples import SampleEncoder

BITS = (2, 4, 8, 32)
THREADS = (1, 2)
SETS = 8
REPEATS = 7
BATCH = 64
SYNTHETIC = (100_000, 500)
HEAD = ("table", "work", "by", "threads", "ms", "over a copy")

Work = Callable[[], object]
Named = tuple[str, str]  # what is done, and what does it


def tables() -> Iterator[tuple[str, Matrix]]:
    """Yield the name and the rows of each table. If MNIST is not available, skip it and print the reason."""
    try:
        pixels = np.asarray(load_dataset("mnist").X)
        for dtype in (np.uint8, np.float32):
            yield f"MNIST, {np.dtype(dtype).name}", pixels.astype(dtype)
    except DataError as error:
        print(f"MNIST skipped: {error}", file=sys.stderr)
    yield "normal, float32", np.random.default_rng(0).normal(size=SYNTHETIC).astype(np.float32)


def engines(threads: int) -> dict[str, Kernels | None]:
    """Return what this machine can encode with on so many threads, by name; numpy has one thread.

    Parameters
    ----------
    threads : int

    Returns
    -------
    dict of Kernels
        None is numpy.
    """
    in_c = c_kernels()
    found: dict[str, Kernels | None] = {} if in_c is None else {"C": in_c}
    return found if threads > 1 else {**found, "numpy": None}


def milliseconds(works: dict[Named, Work]) -> dict[Named, float]:
    """Return the minimum time of each work, in milliseconds; each runs once before it is measured.

    Parameters
    ----------
    works : dict of callables

    Returns
    -------
    dict of float
    """
    for work in works.values():
        work()
    least = dict.fromkeys(works, float("inf"))
    for _ in range(REPEATS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            least[name] = min(least[name], 1e3 * (time.perf_counter() - begin))
    return least


def works_of(X: Matrix, threads: int) -> dict[Named, Work]:
    """Return the steps from a table to words.

    Parameters
    ----------
    X : array [rows, n]
    threads : int

    Returns
    -------
    dict of callables
    """
    y: NDArray[np.float64] = np.zeros((len(X), 1))
    y[::2] = 1.0
    scaling = fit_scaling(X, y)
    works: dict[Named, Work] = {("fingerprint", "hashlib"): partial(fingerprint, X, y, threads)}
    for bits in BITS:
        precision = Precision(bits)
        geometry = Geometry.of(precision, scaling.stored_features, len(X), BATCH)
        for name, kernels in engines(threads).items():
            encoder = SampleEncoder(X, y, scaling, precision, 0, threads=threads)
            encoder.kernels = kernels
            works[f"base, s={bits}", name] = partial(encoder.base, geometry, 0)
            works[f"draws, s={bits}", name] = partial(encoder.draws, geometry, 0, [0])
            if kernels is not None:  # numpy does one set after the other
                works[f"{SETS} x draws, s={bits}", name] = partial(encoder.draws, geometry, 0, range(SETS))
    return works


def rows(name: str, X: Matrix) -> Iterator[tuple[str, ...]]:
    """Measure one table and yield the rows of the text, one cell for each column of `HEAD`.

    Parameters
    ----------
    name : str
        Name of the table.
    X : array [rows, n]

    Yields
    ------
    tuple of str
    """
    floats = X.astype(np.float32)
    for threads in THREADS:
        copy = ("copy", "numpy")
        times = milliseconds({copy: partial(np.copy, floats), **works_of(X, threads)})
        for (work, by), needed in times.items():
            yield name, work, by, str(threads), f"{needed:.3g}", f"{needed / times[copy]:.2f}"


def main() -> None:
    """Measure all tables and print the times."""
    print(align_columns([HEAD, *(row for name, X in tables() for row in rows(name, X))]))


if __name__ == "__main__":
    main()
