"""Optimal levels: seconds, memory, and how near the approximate ones are: `python -m bitlane.studies.levels_speed`.

2^20 values of three distributions, and of gradients of least squares on MNIST (digits as ten columns of 0 and 1,
pixels from 0 to 1, weights drawn near zero, no intercept): of one sample each, and of batches of 16. Times are the
best of several runs on one core, of unsorted float32; numba's are warm. Memory is what is taken beside the values.
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
HEAD = ("values", "intervals", "exact, s", "bytes a value", "approximate, ms", "above the optimum", "certified")

Values = NDArray[np.float32]


def gradients(batch: int) -> Values:
    """Gradients of least squares on MNIST at a random start, each the mean of `batch` samples': COUNT values."""
    table = load_dataset("mnist")
    rng = np.random.default_rng(0)
    size = table.X.shape[1] * 10
    rows = rng.permutation(table.rows)[: batch * -(-COUNT // size)]
    X = np.asarray(table.X[rows], np.float32) / 255
    digits = np.asarray(table.y[rows], np.float64).astype(np.int64)
    residual = X @ rng.normal(0, 0.01, (X.shape[1], 10)) - np.eye(10)[digits]
    X, residual = X.reshape(-1, batch, X.shape[1]), residual.reshape(-1, batch, 10)
    found: Values = (np.einsum("gbf,gbc->gfc", X, residual) / batch).astype(np.float32).ravel()[:COUNT]
    return found


def samples() -> Iterator[tuple[str, Values]]:
    """Names and values. MNIST is left out, with a line, where it cannot be had."""
    rng = np.random.default_rng(0)
    yield "normal", rng.normal(size=COUNT).astype(np.float32)
    yield "Laplace", rng.laplace(size=COUNT).astype(np.float32)
    yield "lognormal", rng.lognormal(size=COUNT).astype(np.float32)
    try:
        yield "MNIST gradients", gradients(1)
        yield "MNIST gradients, batch 16", gradients(16)
    except DataError as error:
        print(f"MNIST left out: {error}", file=sys.stderr)


def seconds(values: Values, intervals: int, method: str) -> float:
    """The best of REPEATS runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        optimal_levels(values, intervals, method)
        times.append(time.perf_counter() - begin)
    return min(times)


def memory(values: Values, intervals: int) -> float:
    """Bytes a value that the exact method takes at its peak."""
    tracemalloc.start()
    optimal_levels(values, intervals)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(values)


def row(name: str, values: Values, intervals: int) -> tuple[str, ...]:
    """A line of the table."""
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
    """Print the table."""
    print(f"{COUNT:,} values, numba {jit.numba().__version__ if jit.numba() else 'not installed'}")
    print(
        align_columns([HEAD, *(row(name, values, intervals) for name, values in samples() for intervals in INTERVALS)])
    )


if __name__ == "__main__":
    main()
