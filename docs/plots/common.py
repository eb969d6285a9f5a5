"""What the scripts of this folder share: data, trainings, figures and tables.

Each script trains on `device="auto"`, which gives the bits of the hardware, and writes NAME.svg and NAME.md into its
folder: the figure and the table of "When to use what" in the documentation.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bitlane import SGDRegressor
from bitlane.data.datasets import load_dataset
from bitlane.levels.codebooks import choose_precision
from bitlane.training.learning_rate import suggest_learning_rate

Floats = NDArray[np.float64]

CLASSES = ("digits", "wine", "breast_cancer", "cod-rna", "a9a", "mushrooms", "mnist", "fashion_mnist")
BATCH = 16
ROWS = 2_000
RATES = tuple(2.0**-power for power in range(-1, 8))
FLOOR = 0.01  # percent
MORE_NOISE = 0.1  # of the labels of `synthetic`, over their own standard deviation
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "bitlane", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}


@dataclass(frozen=True)
class Size:
    """How much a script measures: `--quick` is for the tests."""

    seeds: tuple[int, ...] = (0, 1, 2)
    rows: int = ROWS
    epochs: int = 20
    quick: bool = False


@dataclass(frozen=True)
class Table:
    """Lines of a Markdown table, and what a reader needs to repeat it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def table_of(name: str, rows: int) -> tuple[Floats, Floats]:
    """Return up to `rows` rows of a data set in random order, X and y. Labels of classes become -1 and 1.

    The first class counts against the rest. "synthetic" has 100 uniform features and labels with little noise.
    """
    if name == "synthetic":
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, (rows, 100))
        signal = X @ rng.normal(size=100)
        return X, signal + MORE_NOISE * signal.std() * rng.normal(size=rows)
    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(data.rows)[:rows]
    X, y = np.asarray(data.X[order], dtype=np.float64), data.y[order]
    if name in CLASSES:
        y = np.where(y == np.unique(data.y)[0], 1.0, -1.0)
    return X, np.asarray(y, dtype=np.float64)


def rate_of(X: Floats, bits: int, sampling: str = "double", levels: str = "uniform") -> float:
    """Return the learning rate that `bitlane train` chooses."""
    return suggest_learning_rate(X, BATCH, choose_precision(bits, sampling, levels))


def best_rate(X: Floats, y: Floats, size: Size, **parameters: Any) -> float:
    """Return the best of the rate that is suggested for 32 bits, its double, and its halves down to 1/128.

    With two other seeds than those that measure. From the largest rate down to the first that is worse than a larger
    one whose training did not diverge.
    """
    suggested, tuning = (
        rate_of(X, 32, "full"),
        replace(size, seeds=tuple(max(size.seeds) + 1 + each for each in range(2))),
    )
    best, rate = np.inf, suggested
    for times in RATES[:2] if size.quick else RATES:
        now = loss(X, y, tuning, learning_rate=times * suggested, **parameters)[0]
        if now > best and best < np.var(y):
            break
        if now < best:
            best, rate = now, times * suggested
    return rate


def loss(X: Floats, y: Floats, size: Size, **parameters: Any) -> tuple[float, float]:
    """Return mean and standard deviation, over the seeds, of the final loss on the unquantized rows."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # constant columns
        for seed in size.seeds:
            settings = {"decay": 0.8, "epochs": size.epochs, "batch_size": BATCH, **parameters}
            model = SGDRegressor(random_state=seed, **settings).fit(X, y)
            found.append(float(np.mean((model.predict(X) - y) ** 2)))
    return float(np.mean(found)), float(np.std(found))


def best_loss(X: Floats, y: Floats, size: Size, **parameters: Any) -> float:
    """Return the mean final loss at the best learning rate."""
    return loss(X, y, size, learning_rate=best_rate(X, y, size, **parameters), **parameters)[0]


def full_loss(X: Floats, y: Floats, size: Size, **parameters: Any) -> float:
    """Return the mean final loss of 32 bits at the best learning rate."""
    return best_loss(X, y, size, bits=32, sampling="full", **parameters)


def excess(ratios: Sequence[float]) -> list[float]:
    """Return losses over that of 32 bits as percent above it, at least `FLOOR`: a logarithmic axis has no zero."""
    return [max(100 * (ratio - 1), FLOOR) for ratio in ratios]


def excess_axis(axis: Any) -> None:
    """Give an axis the scale of `excess`, the same in all figures."""
    axis.set(yscale="log", ylim=(FLOOR / 1.5, 2e3))
    axis.set_yticks(*zip(*((10.0**e, f"{10.0**e:g}") for e in range(-2, 4)), strict=True))
    axis.set_yticks([], minor=True)


def percent(ratio: float) -> str:
    """Return a loss over that of 32 bits as a difference in percent."""
    return f"{100 * (ratio - 1):+.1f} %" if abs(ratio - 1) < 10 else f"{ratio:,.0f} times"


def write(name: str, figure: Figure, table: Table, about: str, folder: Path) -> None:
    """Write the figure and the table, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
    lines = [f"| {' | '.join(cells)} |" for cells in (table.headings, *table.rows)]
    lines.insert(1, "| --- |" + " ---: |" * (len(table.headings) - 1))
    text = "\n".join([*lines, "", f"{about} Measured by `docs/plots/{name}.py`.", ""])
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def main(name: str, measure: Callable[[Size], tuple[Figure, Table, str]]) -> None:
    """Run a script: `--quick` measures a toy size, `--out` names another folder."""
    parser = argparse.ArgumentParser(description=f"Measure and draw docs/plots/{name}.svg and its table.")
    parser.add_argument("--quick", action="store_true", help="a toy size, to see that the script works")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="DIR", help="(docs/plots)")
    arguments = parser.parse_args()
    size = Size(seeds=(0,), rows=200, epochs=2, quick=True) if arguments.quick else Size()
    with plt.rc_context(STYLE):
        figure, table, about = measure(size)
    about += f" Mean of seeds {', '.join(map(str, size.seeds))}."
    write(name, figure, table, about, arguments.out)
