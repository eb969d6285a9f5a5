"""What a user would otherwise run, beside bitlane: `taskset -c 0 python -m bitlane_studies.rivals`.

Each program gets a float32 table in memory and returns coefficients. The time is that of the call, with scaling,
encoding and copies: the first call of the process, and the least of the later ones, which take turns. The loss is that
of the model on the table that it was trained on. Pin the study to one core, or BLAS and encoders take all.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDClassifier, SGDRegressor
from bitlane.data.datasets import load_dataset
from bitlane.support.text import align_columns

Floats = NDArray[np.float32]
Score = Callable[[Floats], NDArray[np.float64]]  # predictions or decision values of rows
REPEATS = 3
POSITIVE = {"mnist": 0, "a9a": -1, "cod-rna": -1}  # index of the class that is separated from the rest
SQUARES = ("cadata", "cod-rna", "mnist")
LOG_LOSS = ("a9a", "cod-rna", "mnist")
HEAD = ("loss", "data", "program", "first call, s", "later, s", "over 4 bits", "loss at the end")


@dataclass(frozen=True)
class FitTiming:
    """A program on a data set: seconds of its first call and of the quickest later one, and the loss at the end."""

    first: float
    later: float
    loss: float


def gram(X: Floats, y: Floats) -> Score:
    """Least squares in a few lines of numpy: centre, scale, one float32 Gram matrix, and a tiny ridge."""
    mean, spread = X.mean(0), X.std(0)
    spread[spread == 0] = 1
    Z = (X - mean) / spread
    ridge = 1e-6 * len(X) * np.eye(X.shape[1], dtype=np.float32)
    weights = np.linalg.solve(Z.T @ Z + ridge, Z.T @ (y - y.mean()))
    return lambda rows: (rows - mean) / spread @ weights + y.mean()


def _of_scikit(estimator: Any) -> Callable[[Floats, Floats], Score]:
    """A scikit-learn estimator on columns scaled to [-1, 1]: its solvers need that."""

    def fit(X: Floats, y: Floats) -> Score:
        scale = np.abs(X).max(0)
        scale[scale == 0] = 1
        score = _score_of(estimator.fit(X / scale, y))
        return lambda rows: score(rows / scale)

    return fit


def _of_bitlane(estimator: Any) -> Callable[[Floats, Floats], Score]:
    return lambda X, y: _score_of(estimator.fit(X, y))


def _score_of(model: Any) -> Score:
    score: Score = model.decision_function if hasattr(model, "decision_function") else model.predict
    return score


def squares() -> dict[str, Callable[[Floats, Floats], Score]]:
    """Return the programs for least squares, by name."""
    from sklearn.linear_model import Ridge

    ours = {f"bitlane, {bits} bits": _of_bitlane(SGDRegressor(bits=bits, random_state=0)) for bits in (4, 8)}
    return {**ours, "numpy, Gram matrix": gram, "scikit-learn, Ridge": _of_scikit(Ridge(1e-6))}


def log_loss() -> dict[str, Callable[[Floats, Floats], Score]]:
    """Return the programs for logistic regression, by name."""
    from sklearn.linear_model import LogisticRegression

    ours = {
        f"bitlane, {bits} bits": _of_bitlane(SGDClassifier(loss="log_loss", bits=bits, random_state=0))
        for bits in (4, 8)
    }
    solvers = {f"scikit-learn, {solver}": LogisticRegression(solver=solver) for solver in ("lbfgs", "liblinear")}
    return ours | {name: _of_scikit(estimator) for name, estimator in solvers.items()}


def squared_error(scores: NDArray[np.float64], y: Floats) -> float:
    """Return the mean squared error."""
    return float(np.mean((scores - y) ** 2))


def logistic(scores: NDArray[np.float64], y: Floats) -> float:
    """Return the mean log loss of decision values; y is -1 or 1."""
    return float(np.mean(np.logaddexp(0.0, -y * scores)))


def measure(
    X: Floats,
    y: Floats,
    programs: Mapping[str, Callable[[Floats, Floats], Score]],
    loss: Callable[[NDArray[np.float64], Floats], float],
    repeats: int = REPEATS,
) -> dict[str, FitTiming]:
    """Run all programs in turns.

    Parameters
    ----------
    X : float32 array [rows, n]
    y : float32 array [rows]
    programs : mapping of callables
        Each takes X and y, and returns what scores rows.
    loss : callable
        Of scores and y.
    repeats : int, default=3
        Later calls.

    Returns
    -------
    dict of FitTiming
    """
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    losses = {}
    for _ in range(1 + repeats):
        for name, program in programs.items():
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = program(X, y)
            seconds[name].append(time.perf_counter() - begin)
            losses[name] = loss(np.asarray(score(X), np.float64), y)
    return {name: FitTiming(times[0], min(times[1:]), losses[name]) for name, times in seconds.items()}


def table_of(name: str, classes: bool) -> tuple[Floats, Floats]:
    """Return a data set in random order, X and y; with `classes`, y is -1 or 1."""
    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(data.rows)
    X = np.ascontiguousarray(data.X, np.float32)[order]
    if classes:
        y = np.where(data.y == np.unique(data.y)[POSITIVE[name]], 1.0, -1.0)
    else:
        y = data.y
    return X, np.asarray(y, np.float32)[order]


def lines(repeats: int = REPEATS) -> Iterator[tuple[str, ...]]:
    """Measure everything and yield the cells of the table, below `HEAD`."""
    for title, names, programs, loss in (
        ("squares", SQUARES, squares, squared_error),
        ("log loss", LOG_LOSS, log_loss, logistic),
    ):
        for name in names:
            X, y = table_of(name, title == "log loss" or name == "cod-rna")
            found = measure(X, y, programs(), loss, repeats)
            for program, each in found.items():
                ratio = each.later / found["bitlane, 4 bits"].later
                yield title, name, program, f"{each.first:.3g}", f"{each.later:.3g}", f"{ratio:.2f}", f"{each.loss:.5g}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Time bitlane beside what a user would otherwise run.")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="later calls (default: %(default)s)")
    print(align_columns([HEAD, *lines(parser.parse_args().repeats)], left=3))


if __name__ == "__main__":
    main()
