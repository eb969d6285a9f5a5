"""Measure an epoch of `device="cpu"`: `OPENBLAS_NUM_THREADS=1 python -m bitlane_studies.cpu_speed`.

Two tables: MNIST with 2 to 32 stored bits, beside the emulator, and 4 GiB of float32 with 4 stored bits. Beside them
stands mini-batch SGD of least squares in float32 by BLAS: two products of a matrix and a vector for each batch. All
have batches of 64 rows and one thread. A time is processor time of that thread, so that other programs disturb it less:
the minimum of several runs, divided by their epochs, without encoding.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import draw_words, row_words
from bitlane.contract.fixed_point import encode_float
from bitlane.contract.formats import LABEL, STEP_FRACTION
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.precision import Precision
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.data.datasets import load_dataset
from bitlane.devices import Device, open_device
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.buffers import SampleBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DataError
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.support.text import align_columns
from bitlane_studies.float_sgd import run_epoch

BATCH = 64
RATE = 0.01
BITS = range(2, 34, 2)
REPEATS = 7
EPOCHS = 5  # of a run
LARGE_FEATURES = 1024
LARGE_BLOCK = 1 << 14  # rows that are repeated
LARGE_COPIES = 64
EMULATOR_BYTES = 1 << 30
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """Rows to train on.

    Attributes
    ----------
    X : float32 array of shape (rows, n)
        Within [-1, 1].
    y : float32 array of shape (rows,)
        Within [-1, 1].
    copies : int, default=1
        How often the rows follow one another; above 1, the rows are a multiple of the batch.
    """

    X: Floats
    y: Floats
    copies: int = 1


def mnist() -> Samples:
    """Return the pixels of MNIST that are not constant, and the digits, both within [-1, 1]: 60,000 rows of 717."""
    table = load_dataset("mnist")
    X = np.asarray(table.X, np.float32)[:60_000]
    X = X[:, X.min(axis=0) < X.max(axis=0)]
    X = X / X.max(axis=0)
    return Samples(np.ascontiguousarray(X), (np.asarray(table.y[: len(X)], np.float32) - 4.5) / 4.5)


def fastest(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least processor time of several runs in this thread, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        run()
        times.append(time.thread_time() - begin)
    return min(times)


def blas_epoch(X: Floats, y: Floats) -> Floats:
    """Run an epoch of least squares in float32; return the weights, float32 [n]."""
    weights = np.zeros(X.shape[1], np.float32)
    run_epoch(X, y, weights, BATCH, np.float32(RATE / BATCH))
    return weights


def device_epoch(device: Device, samples: Samples, bits: int, epochs: int = 1, repeats: int = 1) -> float:
    """Return the time of an epoch on a device, in seconds.

    Parameters
    ----------
    device : Device
    samples : Samples
    bits : int
        Stored bits of a feature, with double sampling.
    epochs, repeats : int, default=1
        Epochs of a run, and runs.
    """
    X, copies = samples.X, samples.copies
    precision = Precision(bits)
    block = Geometry.of(precision, X.shape[1], len(X), BATCH)
    labels = np.rint(samples.y * LABEL.maximum).astype(np.int16)[:, np.newaxis]
    positions = value_positions(X, precision)
    base = pack_base(base_codes(positions, precision), labels, block)
    draws = pack_draws(draw_codes(positions, precision, draw_words(row_words(0, range(len(X))), X.shape[1])), block)
    step = encode_float(RATE / BATCH, STEP_FRACTION)
    state = ModelState(np.zeros((1, X.shape[1]), np.int32), Settings(step, step))
    geometry = Geometry.of(precision, X.shape[1], copies * len(X), BATCH)
    driver = Driver(device)
    with SampleBuffers(device, geometry, copies * len(base), copies * len(draws)) as buffers:
        buffers.fill([base] * copies, [draws] * copies)
        (regions,), (drawn,) = buffers.base, buffers.draws
        job = Job(geometry, [regions.array], [drawn.array], state, epochs)
        return fastest(lambda: driver.run(job, samples=buffers), repeats) / epochs


def mnist_table(samples: Samples) -> str:
    """Return the table of all precisions, as text."""
    cpu, emulator = open_device("cpu"), EmulatorDevice(capacity_bytes=EMULATOR_BYTES)
    blas, times = [], []
    for bits in BITS:
        blas.append(fastest(lambda: blas_epoch(samples.X, samples.y)))
        times.append((device_epoch(cpu, samples, bits, EPOCHS, REPEATS), device_epoch(emulator, samples, bits)))
    rows = [("s", "cpu, ms", "cpu / BLAS", "emulator, ms", "emulator / cpu")]
    for bits, (quick, slow) in zip(BITS, times, strict=True):
        ratio = quick / min(blas)
        rows.append((str(bits), f"{1e3 * quick:.1f}", f"{ratio:.2f}", f"{1e3 * slow:.0f}", f"{slow / quick:.0f}"))
    return f"float32 BLAS: {1e3 * min(blas):.1f} ms\n" + align_columns(rows)


def large_table(bits: int = 4) -> str:
    """Return the times of an epoch over data larger than the caches, as text."""
    rng = np.random.default_rng(0)
    block = rng.uniform(-1, 1, (LARGE_BLOCK, LARGE_FEATURES)).astype(np.float32)
    labels = rng.uniform(-1, 1, LARGE_BLOCK).astype(np.float32)
    quick = device_epoch(open_device("cpu"), Samples(block, labels, LARGE_COPIES), bits, EPOCHS, 3)
    X, y = np.tile(block, (LARGE_COPIES, 1)), np.tile(labels, LARGE_COPIES)
    blas = fastest(lambda: blas_epoch(X, y), 3)
    head = ("rows", "features", "GiB in float32", "float32 BLAS, s", f"cpu at s={bits}, s", "cpu / BLAS")
    size = (f"{len(X):,}", f"{X.shape[1]:,}", f"{X.nbytes / 2**30:.1f}")
    return align_columns([head, (*size, f"{blas:.3f}", f"{quick:.3f}", f"{quick / blas:.2f}")])


def main() -> None:
    """Print both tables."""
    if not any(os.environ.get(name) == "1" for name in THREADS):
        sys.exit(f"error: BLAS may use several threads: set {THREADS[0]}=1")
    try:
        print(mnist_table(mnist()))
    except DataError as error:
        print(f"MNIST skipped: {error}", file=sys.stderr)
    print(large_table())


if __name__ == "__main__":
    main()
