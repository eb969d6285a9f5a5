"""Measure the time, memory and accuracy of `optimal_levels`: `python -m bitlane_studies.levels_speed`.

The inputs are 2^20 unsorted float32 values: of three distributions, and least-squares gradients on MNIST, of single
samples and of batches of 16. The MNIST model has ten outputs with 0/1 labels, pixels from 0 to 1, random weights near
zero and no intercept. A time is the minimum of several runs on one core, after numba has compiled the loops. The memory
does not include the values themselves.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitlane import DataError, optimal_levels
from bitlane.data.datasets import load_dataset
from bitlane.support import jit
from bitlane.support.text import align_columns

COUNT = 1 << 20
INTERVALS = (16, 64, 256)
REPEATS = 5
HEAD = ("values", "intervals", "exact, s", "bytes/value", "approximate, ms", "above the optimum", "certified gap")

Values = NDArray[np.float32]


def gradients(batch: int) -> Values:
    """Return the first COUNT values of least-squares gradients on MNIST at random weights, averaged over batches.

    Parameters
    ----------
    batch : int
        Samples per gradient.

    Returns
    -------
    float32 array of shape (COUNT,)
    """
    table = load_dataset("mnist")
    rng = np.random.default_rng(0)
    size = table.X.shape[1] * 10
    rows = rng.permutation(table.rows)[: batch * -(-COUNT // size)]
    X = np.asarray(table.X[rows], np.float32) / 255
    digits = np.asarray(table.y[rows], np.float64).astype(np.int64)
    residual = X @ rng.normal(0, 0.01, (X.shape[1], 10)) - np.eye(10)[digits]
    X, residual = X.reshape(-1, batch, X.shape[1]), residual.reshape(-1, batch, 10)
    values: Values = (np.einsum("gbf,gbc->gfc", X, residual) / batch).astype(np.float32).ravel()[:COUNT]
    return values


def samples() -> Iterator[tuple[str, Values]]:
    """Yield the name and the values of each input. If MNIST is not available, skip it and print the reason."""
    rng = np.random.default_rng(0)
    yield "normal", rng.normal(size=COUNT).astype(np.float32)
    yield "Laplace", rng.laplace(size=COUNT).astype(np.float32)
    yield "lognormal", rng.lognormal(size=COUNT).astype(np.float32)
    try:
        yield "MNIST gradients", gradients(1)
        yield "MNIST gradients, batch 16", gradients(16)
    except DataError as error:
        print(f"MNIST skipped: {error}", file=sys.stderr)


def seconds(values: Values, intervals: int, method: str) -> float:
    """Return the time of `optimal_levels`, the minimum of REPEATS runs.

    Parameters
    ----------
    values : float32 array of shape (count,)
    intervals : int
        Number of intervals between levels.
    method : {"exact", "approximate"}

    Returns
    -------
    float
        Seconds.
    """
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        optimal_levels(values, intervals, method)
        times.append(time.perf_counter() - begin)
    return min(times)


def memory(values: Values, intervals: int) -> float:
    """Return the peak memory of the exact method in bytes per value.

    Parameters
    ----------
    values : float32 array of shape (count,)
    intervals : int
        Number of intervals between levels.

    Returns
    -------
    float
    """
    tracemalloc.start()
    optimal_levels(values, intervals)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(values)


def row(name: str, values: Values, intervals: int) -> tuple[str, ...]:
    """Measure one input and return its table row, one cell for each column of HEAD.

    Parameters
    ----------
    name : str
        Name of the input.
    values : float32 array of shape (count,)
    intervals : int
        Number of intervals between levels.

    Returns
    -------
    tuple of str
    """
    _, exact = optimal_levels(values, intervals, return_info=True)
    _, near = optimal_levels(values, intervals, "approximate", return_info=True)
    return (
        name,
        str(intervals),
        f"{seconds(values, intervals, 'exact'):.3f}",
        f"{memory(values, intervals):.1f}",
        f"{1e3 * seconds(values, intervals, 'approximate'):.1f}",
        f"{near.cost / exact.cost - 1:.4%}",
        f"{near.gap:.4%}",
    )


def main() -> None:
    """Measure all inputs and print the table."""
    print(f"{COUNT:,} values, numba {jit.numba().__version__ if jit.numba() else 'not installed'}")
    print(
        align_columns([HEAD, *(row(name, values, intervals) for name, values in samples() for intervals in INTERVALS)])
    )


if __name__ == "__main__":
    main()
