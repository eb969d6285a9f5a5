"""Epochs of SGD from an encoded table: `python -m bitlane_studies.regime.epochs`.

20 epochs of MNIST's digits as numbers, standardised: `SGDRegressor` from a table that was encoded before, and a loop of
mini-batches over float32 BLAS with the best of six learning rates. Then `SGDClassifier` from the same table: ten
classes beside one. All calls take turns in one process on one core, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from bitlane import EncodedTable, SGDClassifier, SGDRegressor
from bitlane.support.text import align_columns
from bitlane_studies.command import run

from . import tables, with_numpy
from .contender import FittedModels
from .problems import FitProblem, Floats, standardise

EPOCHS, REPEATS = 20, 5
WAYS = ((4, "nearest"), (4, "double"), (8, "nearest"))  # bits and sampling
BLAS = "numpy, float32 BLAS"


def least_seconds(calls: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the least time of each call in `REPEATS` turns, and what the last turn returned."""
    seconds, found = dict.fromkeys(calls, np.inf), {}
    for _ in range(REPEATS):
        for name, call in calls.items():
            begun = perf_counter()
            found[name] = call()
            seconds[name] = min(seconds[name], perf_counter() - begun)
    return seconds, found


def fitted(stored: EncodedTable, labels: Any, kind: type, bits: int, sampling: str) -> FittedModels:
    """Fit an estimator of SGD for `EPOCHS` epochs, everything else by default."""
    model = kind(bits=bits, sampling=sampling, epochs=EPOCHS, device="cpu", random_state=0).fit(stored, labels)
    return FittedModels(np.asarray(model.coef_), np.asarray(model.intercept_), model.run_.bytes_read)


def compared(X: Floats, numbers: Floats, classes: Floats) -> tuple[list[list[str]], list[list[str]]]:
    """Return the lines of two tables: programs beside the loop over BLAS, and ten classes beside one.

    Parameters
    ----------
    X : float32 array [rows, n]
        Standardised.
    numbers : float32 array [rows, 1]
    classes : float32 array [rows, classes]
        1 for the class of a row, and -1.
    """
    problem, stored = FitProblem(X, numbers, "squared_error"), EncodedTable.of(X, bits=8, threads=1)
    calls = {BLAS: partial(with_numpy.sgd, problem, EPOCHS, with_numpy.tune(problem))}
    for bits, sampling in WAYS:
        calls[f"SGDRegressor, {bits} bits, {sampling}"] = partial(
            fitted, stored, numbers[:, 0], SGDRegressor, bits, sampling
        )
    seconds, models = least_seconds(calls)
    lines = [
        [name, f"{seconds[name]:.2f}", f"{seconds[name] / seconds[BLAS]:.2f}", f"{problem.objective(*found[:2]):.4f}"]
        for name, found in models.items()
    ]
    of_classes = []
    for bits, sampling in WAYS:
        fit = partial(fitted, stored, kind=SGDClassifier, bits=bits, sampling=sampling)
        times, _ = least_seconds({"one": partial(fit, classes[:, 0]), "all": partial(fit, classes.argmax(axis=1))})
        ratio = times["all"] / times["one"]
        of_classes.append([f"{bits} bits, {sampling}", f"{times['one']:.2f}", f"{times['all']:.2f}", f"{ratio:.2f}"])
    return lines, of_classes


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    threadpools = import_module("threadpoolctl")
    parser = argparse.ArgumentParser(description="Compare epochs of SGD from an encoded table with float32 BLAS.")
    parser.add_argument("--core", type=int, default=0, help="core to run on (default: %(default)s)")
    os.sched_setaffinity(0, [parser.parse_args(arguments).core])
    X, numbers = tables.real("mnist", "numbers")
    standardise(X, shifted=True)
    with threadpools.threadpool_limits(1):
        lines, of_classes = compared(X, numbers, tables.real("mnist", "classes")[1])
    print(align_columns([["program", "seconds", "over BLAS", "loss"], *lines], left=1))
    print()
    print(align_columns([["SGDClassifier", "one class", "ten classes", "ratio"], *of_classes], left=1))


if __name__ == "__main__":
    run(main)
