"""The optimum through a device, and ways to make inner steps: `python -m bitlane_studies.bit_centering [TABLE ...]`.

The first table has `train_to_optimum` on the device `cpu`, with 8 bits: passes over all rows, and how far the loss with
its penalty is above its optimum on the exact rows in float64. Beside it stand the passes that L-BFGS of scipy takes on
the rounded rows to come within `GOAL` of their optimum.

The second has the passes to the same goal with four ways to make a step from a center whose gradient is known, all in
float32 on the rounded rows, with the same Anderson acceleration. The first three make an inner epoch of mini-batches on
the device, which is one pass more for each step:

- offset and vector: a row stores its score at the center, and its slope there is taken off; the gradient mu is taken
  off at the end of a batch;
- vector: squares with labels of 0, and mu; log loss takes its mean curvature;
- neither: squares with labels of 0 from the model -mu. Batches multiply it by ``1 - rate q q'``, as they multiply an
  error, and the sum of the models that an epoch stores is the step;
- rows on the host: `bitlane.training.centered_rows`, no inner epoch.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices.cpu import CpuDevice
from bitlane.support.text import align_columns
from bitlane.training.centered_rows import CenteredRows
from bitlane.training.centered_search import CenteredSearch
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.objective import Objective
from bitlane.training.slopes import losses_of, slopes_and_curvatures
from bitlane.training.to_optimum import OptimumResult, train_to_optimum

Floats = NDArray[np.float64]
Narrow = NDArray[Any]  # float32
Step = Callable[[Floats, Floats], tuple[Floats, float]]

TABLES = ("cadata", "cpusmall", "a9a", "digits", "mnist")
GOAL = 1e-3  # above the optimum
ALPHA = 1e-4  # L2, of log loss, in scaled units; squares have none
MOST_PASSES = 100
BATCH = 32
SHARE = 0.5  # of the automatic rate
SNAPSHOTS = 32  # of an inner epoch, and as many of its first batches
LEAST_CURVATURE = 1e-3
EVERY = 4_096  # rows on the host, about, at least


def study_table(name: str) -> tuple[NDArray[np.generic], Floats, bool]:
    """Return X [rows, n] in random order, y [rows], and whether y is -1 and 1: the first class against the rest."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        y = np.where(y >= 5, 1.0, -1.0)
    else:
        data = load_dataset(name)
        X, y = np.asarray(data.X), np.asarray(data.y, np.float64)
        if name == "mnist":
            y = np.where(y == 0, 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order], name not in ("cadata", "cpusmall")


@dataclass(frozen=True, eq=False)
class ScaledProblem:
    """Scaled rows [r, s], labels [r], strengths of the L2 penalty [s], and whether the loss is log loss."""

    values: Narrow
    labels: Narrow
    penalty: Floats
    margins: bool

    def sums(self, weights: Floats) -> tuple[float, Floats, Narrow]:
        """Return the objective, its gradient [s], and the scores [r]."""
        scores = self.values @ weights.astype(np.float32)
        loss = float(losses_of(scores, self.labels, self.margins).mean(dtype=np.float64))
        slopes, _ = slopes_and_curvatures(scores, self.labels, self.margins)
        gradient = (self.values.T @ slopes).astype(np.float64) / len(scores)
        shrink = self.penalty * weights
        return loss + 0.5 * float(shrink @ weights), gradient + shrink, scores

    def optimum(self) -> tuple[float, Floats]:
        """Return the least objective, by Newton's method."""
        weights = np.zeros(self.values.shape[1])
        now, gradient, scores = self.sums(weights)
        for _ in range(60):
            _, curvatures = slopes_and_curvatures(scores, self.labels, self.margins)
            hessian = (self.values.T @ (curvatures.astype(np.float32)[:, None] * self.values)) / len(scores)
            step = np.linalg.solve(hessian + np.diag(self.penalty + 1e-12), gradient)
            size = 1.0
            while size > 1e-3 and self.sums(weights - size * step)[0] > now:
                size /= 2
            if gradient @ step < 1e-7 * now:
                break
            weights = weights - size * step
            now, gradient, scores = self.sums(weights)
        return now, weights


def rounded(values: Floats, bits: int = 8) -> Floats:
    """Return scaled values as they are stored: the middles of their intervals."""
    half = 1 << (bits - 1)
    return (2 * np.clip(np.floor((values + 1) * half), 0, 2 * half - 1) + 1 - 2 * half) / (2 * half)


def problems(result: OptimumResult, X: NDArray[np.generic], y: Floats, margins: bool) -> tuple[ScaledProblem, ...]:
    """Return the problem of a result on exact rows, and on rounded rows."""
    scaling = result.scaling
    values = scaling.values(X)
    target = y if margins else (y - scaling.label_center[0]) / scaling.label_unit[0]
    penalty = np.full(values.shape[1], ALPHA if margins else 0.0)
    if scaling.intercept_value:
        penalty[-1] = 0.0
    return tuple(
        ScaledProblem(each.astype(np.float32), target.astype(np.float32), penalty, margins)
        for each in (values, rounded(values))
    )


def lbfgs_passes(problem: ScaledProblem, goal: float) -> int:
    """Return the function values that L-BFGS takes until one is at most `goal`."""
    seen: list[float] = []

    def value(weights: Floats) -> tuple[float, Floats]:
        objective, gradient, _ = problem.sums(weights)
        seen.append(objective)
        return objective, gradient

    options = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-12}
    minimize(value, np.zeros(problem.values.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return next((count for count, objective in enumerate(seen, 1) if objective <= goal), len(seen))


def batches(problem: ScaledProblem) -> Iterator[slice]:
    """Yield the rows of each batch."""
    for first in range(0, len(problem.values), BATCH):
        yield slice(first, first + BATCH)


def by_offsets(problem: ScaledProblem, rate: float, scores: Narrow, gradient: Floats) -> Floats:
    """Return the step of an inner epoch with the slopes of the loss."""
    rate *= 4 if problem.margins else 1
    step, mu = np.zeros(len(gradient), np.float32), gradient.astype(np.float32)
    slopes, _ = slopes_and_curvatures(scores, problem.labels, problem.margins)
    for some in batches(problem):
        rows, labels = problem.values[some], problem.labels[some]
        inner, _ = slopes_and_curvatures(scores[some] + rows @ step, labels, problem.margins)
        change = rows.T @ (inner - slopes[some]) / BATCH + mu + problem.penalty * step
        step = (step - rate * change).astype(np.float32)
    return step.astype(np.float64)


def by_vector(problem: ScaledProblem, rate: float, curvature: float, gradient: Floats) -> Floats:
    """Return the step of an inner epoch of squares with labels of 0, and a vector."""
    step, mu, shrink = np.zeros(len(gradient), np.float32), gradient / curvature, problem.penalty / curvature
    for some in batches(problem):
        rows = problem.values[some]
        step = (step - rate * (rows.T @ (rows @ step) / BATCH + mu + shrink * step)).astype(np.float32)
    return step.astype(np.float64)


def by_snapshots(problem: ScaledProblem, rate: float, curvature: float, gradient: Floats) -> Floats:
    """Return the step of an inner epoch of squares with labels of 0 from -mu: the sum of its models, by trapezoids."""
    count = len(problem.values) // BATCH
    apart = max(1, count // SNAPSHOTS)
    model, last, total, at = (-gradient).astype(np.float32), -gradient, np.zeros(len(gradient)), 0
    for number, some in enumerate(batches(problem), 1):
        rows = problem.values[some]
        model = model - np.float32(rate / BATCH) * (rows.T @ (rows @ model))
        if number <= SNAPSHOTS or number % apart == 0:
            now = model.astype(np.float64) * (1 - rate * problem.penalty / curvature) ** number
            total += (number - at) * (last + now) / 2 + (last - now) / 2
            last, at = now, number
    return total * rate / curvature


def passes_of(problem: ScaledProblem, way: str, rate: float, goal: float) -> int:
    """Return the passes until the objective is at most `goal`; `MOST_PASSES` if it never is."""
    every = slice(None, None, max(1, len(problem.values) // EVERY))
    some = problem.values[every].astype(np.float64)
    rows = CenteredRows(
        some,
        problem.labels[every].astype(np.float64),
        problem.penalty,
        problem.margins,
        1 - len(some) / len(problem.values),
    )
    scores: Narrow = np.zeros(0, np.float32)
    passes = 0

    def step(point: Floats, gradient: Floats) -> tuple[Floats, float]:
        nonlocal passes
        if way == "rows on the host":
            return rows.step(point, gradient)[0], np.inf
        passes += 1
        if way == "offset and vector":
            return by_offsets(problem, rate, scores, gradient), np.inf
        bent = slopes_and_curvatures(scores, problem.labels, problem.margins)[1]
        curvature = max(float(bent.mean()), LEAST_CURVATURE)
        return (by_vector if way == "vector" else by_snapshots)(problem, rate, curvature, gradient), np.inf

    search = CenteredSearch(step, np.zeros(problem.values.shape[1]), GOAL)
    while passes < MOST_PASSES and not search.finished:
        passes += 1
        objective, gradient, scores = problem.sums(search.point)
        if objective <= goal:
            return passes
        search.take(search.point, objective, gradient)
    return MOST_PASSES


WAYS = ("offset and vector", "vector", "neither", "rows on the host")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.bit_centering", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; all by default")
    first = [["table, rows x columns", "loss", "passes", "of L-BFGS", "above the optimum"]]
    second = [["table", *WAYS]]
    for name in parser.parse_args(arguments).tables or TABLES:
        X, y, margins = study_table(name)
        objective = Objective("log_loss", "l2", ALPHA) if margins else Objective()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant pixels
            result = train_to_optimum(X, y, objective, CpuDevice(), tol=GOAL)
        exact, coded = problems(result, X, y, margins)
        goal = coded.optimum()[0] * (1 + GOAL)
        above = exact.sums(result.weights[0])[0] / exact.optimum()[0] - 1
        size = f"{name}, {X.shape[0]:,} x {X.shape[1]}"
        first.append([size, objective.loss, str(result.passes), str(lbfgs_passes(coded, goal)), f"{above:.1e}"])
        rate = SHARE * suggest_learning_rate(X, BATCH, Precision(8, "nearest"), True, "squared_error")
        second.append([name, *(str(passes_of(coded, way, rate, goal)) for way in WAYS)])
        print(name, "done", flush=True)
    for table in (first, second):
        print()
        print(align_columns(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
