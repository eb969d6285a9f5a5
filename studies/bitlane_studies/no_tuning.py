"""Measure what tuning the learning rate would gain: `python -m bitlane_studies.no_tuning`.

Every data set at hand is trained with the defaults of `SGDRegressor` and `device="cpu"`, at 4, 8 and 32 bits: with the
automatic learning rate, and with multiples of it. The table shows the loss on the table, over the least of the grid.
Classes become -1 and 1, the first against the rest. Sets with many rows lend their first 20,000 in random order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDRegressor
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.text import align_columns

NAMES = (
    *("diabetes", "housing_boston", "cadata", "cpusmall", "cpu_act", "millionsong_6719"),
    *("digits", "wine", "breast_cancer", "cod-rna", "a9a", "mushrooms", "mnist", "fashion_mnist"),
)
REGRESSIONS = 6  # of them
BITS = ((4, "double"), (8, "double"), (32, "full"))
TIMES = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
SEEDS = (0, 1, 2)
ROWS = 20_000


def tables() -> Iterator[tuple[str, Matrix, Floats]]:
    """Yield each available data set: its name, X [rows, n] and y [rows]."""
    for number, name in enumerate(NAMES):
        try:
            data = load_dataset(name)
        except DataError as error:
            print(f"{name} skipped: {error}")
            continue
        order = np.random.default_rng(0).permutation(data.rows)[:ROWS]
        y = data.y if number < REGRESSIONS else np.where(data.y == np.unique(data.y)[0], 1.0, -1.0)
        yield name, data.X[order], np.asarray(y[order], np.float64)


def losses(X: Matrix, y: Floats, bits: int, sampling: str) -> tuple[float, NDArray[np.float64]]:
    """Return the automatic rate, and the mean final losses over seeds at each of its multiples, float64 [times]."""
    rate, means = 0.0, []
    for seed in SEEDS:
        settings: dict[str, Any] = {"bits": bits, "sampling": sampling, "device": "cpu", "random_state": seed}
        auto = SGDRegressor(**settings).fit(X, y)
        rate = auto.run_.settings["learning_rate"]
        models = [
            auto if times == 1 else SGDRegressor(learning_rate=times * rate, **settings).fit(X, y) for times in TIMES
        ]
        means.append([float(np.mean((model.predict(X) - y) ** 2)) for model in models])
    return rate, np.mean(means, axis=0)


def row(name: str, X: Matrix, y: Floats) -> tuple[str, ...]:
    """Return a data set's row of the table: for each precision the rate, its loss over the least, and where that is."""
    cells = [name, f"{len(X):,} x {X.shape[1]}"]
    for bits, sampling in BITS:
        rate, means = losses(X, y, bits, sampling)
        best = int(np.argmin(means))
        cells += [f"{rate:g}", f"{means[TIMES.index(1.0)] / means[best]:.4f}", f"x {TIMES[best]:g}"]
    return tuple(cells)


def table_of(rows: Sequence[tuple[str, ...]]) -> str:
    """Return the table as text."""
    head = ["data set", "rows x features"]
    for bits, _ in BITS:
        head += [f"s={bits}: rate", "loss over least", "least at"]
    return align_columns([tuple(head), *rows])


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore", UserWarning)  # constant columns, and rates at which a training diverges
    print(table_of([row(*table) for table in tables()]))


if __name__ == "__main__":
    main()
