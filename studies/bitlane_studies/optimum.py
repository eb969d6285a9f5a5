"""How far from the optimum the defaults end: `python -m bitlane_studies.optimum [PAGE.md]`.

Twenty tables, of scikit-learn, of `BITLANE_DATA` and of nine synthetic kinds, each with a third of its rows held out.
`SGDRegressor` and `SGDClassifier` run with their defaults at 2, 4, 8 and 32 bits, beside the optimum (Ridge, or
LogisticRegression by lbfgs, on standardised columns) and scikit-learn's SGD with a StandardScaler. The score is R
squared or accuracy; classes also have log loss, and rare ones recall. A star marks a training that warned.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDClassifier, SGDRegressor
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError
from bitlane.support.text import align_columns

Floats = NDArray[np.float64]
BITS = (2, 4, 8, 32)
ROWS = 20_000
REGRESSIONS = ("diabetes", "housing_boston", "cadata", "cpusmall")
CLASSES = ("breast_cancer", "digits", "cod-rna", "a9a", "mushrooms", "mnist")
NEAR = {8: 0.005, 4: 0.012}  # of the score of the optimum: goals
FAR = 0.05  # below the score of the optimum: a training must have warned
RARE = 0.05  # share of positives below which recall counts


@dataclass(frozen=True)
class StudyTable:
    """A table: X [rows, n] and y [rows], numbers or classes."""

    name: str
    X: Floats
    y: NDArray[Any]
    classes: bool


@dataclass(frozen=True)
class StudyScores:
    """Scores of a model on held-out rows: R squared or accuracy, log loss and recall if there are any; a warning."""

    score: float
    log_loss: float | None = None
    recall: float | None = None
    warned: bool = False

    def text(self) -> str:
        """Return the scores as a cell of the page."""
        parts = [f"{self.score:.3f}" if self.score > -10 else f"{self.score:.0e}"]
        parts += [f"{value:.3f}" for value in (self.log_loss, self.recall) if value is not None]
        return " / ".join(parts) + "*" * self.warned


def real_tables() -> Iterator[StudyTable]:
    """Yield the real tables that are available, at most ROWS random rows of each."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    yield StudyTable("iris", X, y, True)
    for name in (*REGRESSIONS, *CLASSES):
        try:
            data = load_dataset(name)
        except DataError as error:
            print(f"{name} skipped: {error}")
            continue
        some = np.random.default_rng(0).permutation(data.rows)[: ROWS // (1 + 3 * (name == "mnist"))]
        y = data.y[some] == 0 if name == "mnist" else data.y[some]
        yield StudyTable(name, np.asarray(data.X[some], np.float64), np.asarray(y), name in CLASSES)


def synthetic_tables(seed: int = 0) -> Iterator[StudyTable]:
    """Yield the nine synthetic kinds, each of 6,000 rows."""
    rng, rows = np.random.default_rng(seed), 6_000

    def score(X: Floats, noise: float = 0.3) -> Floats:
        units = (X - X.mean(axis=0)) / X.std(axis=0)
        total = units @ rng.normal(size=X.shape[1])
        return np.asarray(total + rng.normal(0, noise * total.std(), rows))

    def labelled(name: str, X: Floats, positive: float = 0.5) -> StudyTable:
        scores = score(X)
        return StudyTable(name, X, (scores > np.quantile(scores, 1 - positive)).astype(int), True)

    normal = rng.normal(size=(rows, 10))
    yield labelled("Gaussian columns", normal)
    codes = rng.zipf(1.5, (rows, 4)).clip(max=40) - 1
    yield labelled("one-hot, Zipf", np.hstack([np.eye(40)[column] for column in codes.T])[:, 1:])
    yield labelled("log-normal", np.exp(normal))
    yield StudyTable("heavy tails", (heavy := rng.standard_t(2.5, (rows, 8))), score(heavy), False)
    dates = 1.6e9 + rng.integers(0, 3 * 365 * 86_400, (rows, 4)).astype(np.float64)
    yield StudyTable("dates in seconds", dates, score(dates), False)
    yield StudyTable("offset 10,000", (offset := 1e4 + normal), score(offset), False)
    collinear = normal[:, :1] + 0.05 * rng.normal(size=(rows, 12))
    yield StudyTable("collinear", collinear, score(collinear), False)
    outliers = normal.copy()
    outliers[rng.integers(0, rows, 5), rng.integers(0, 10, 5)] = 1000.0
    yield labelled("five outliers", outliers)
    yield labelled("0.1 % positives", normal, 0.001)


def measure(table: StudyTable, seed: int = 0) -> dict[str, StudyScores]:
    """Return the scores of all programs on the held-out third of a table, by name."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.linear_model import SGDClassifier as StockClassifier
    from sklearn.linear_model import SGDRegressor as StockRegressor
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    split = train_test_split(
        table.X, table.y, test_size=1 / 3, random_state=seed, stratify=table.y if table.classes else None
    )
    if table.classes:
        optimum: Any = LogisticRegression(C=100.0, max_iter=5_000)
        stock: Any = StockClassifier(loss="log_loss", random_state=seed)
        ours: Any = SGDClassifier
    else:
        optimum, stock, ours = Ridge(1e-6), StockRegressor(random_state=seed), SGDRegressor
    programs = {
        "optimum": make_pipeline(StandardScaler(), optimum),
        "SGD + scaler": make_pipeline(StandardScaler(), stock),
    }
    programs |= {
        f"{bits} bits": ours(bits=bits, sampling="full" if bits == 32 else "double", device="cpu", random_state=seed)
        for bits in BITS
    }
    return {name: scored(program, table, split) for name, program in programs.items()}


def scored(program: Any, table: StudyTable, split: Sequence[Any]) -> StudyScores:
    """Return the scores of a program that is fitted to the first part of a split, on the second part."""
    X, held_out, y, truth = split
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program.fit(X, y)
        if not table.classes:
            return StudyScores(float(program.score(held_out, truth)), warned=bool(told))
        chances, answers = program.predict_proba(held_out), program.predict(held_out)
    index = np.searchsorted(program.classes_, truth)
    log_loss = -np.log(np.clip(chances[np.arange(len(truth)), index], 1e-15, 1)).mean()
    rare = len(program.classes_) == 2 and np.mean(truth == program.classes_[1]) < RARE
    recall = float(np.mean(answers[truth == program.classes_[1]] == program.classes_[1])) if rare else None
    return StudyScores(float(np.mean(answers == truth)), float(log_loss), recall, bool(told))


def verdict(results: Sequence[dict[str, StudyScores]]) -> str:
    """Return how many tables are within the goals."""
    lines = []
    for bits, near in NEAR.items():
        within = sum(each[f"{bits} bits"].score >= each["optimum"].score - near for each in results)
        lines.append(f"{bits} bits: {within} of {len(results)} tables within {near:g} of the optimum's score.")
    far = [each["2 bits"] for each in results if each["2 bits"].score < each["optimum"].score - FAR]
    lines.append(
        f"2 bits: {len(far)} of {len(results)} tables more than {FAR:g} below the optimum's score, "
        f"of which {sum(each.warned for each in far)} warned."
    )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, and write it as a page of Markdown if one is named."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.optimum", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="file for the table in Markdown")
    arguments = parser.parse_args(argv)
    names, results = [], []
    for table in (*real_tables(), *synthetic_tables()):
        results.append(measure(table))
        names.append(f"{table.name}, {len(table.X):,} x {table.X.shape[1]}")
        print(names[-1], *(f"{name} {each.text()}" for name, each in results[-1].items()), sep="; ", flush=True)
    head = ("table, rows x columns", *results[0])
    rows = [(name, *(each.text() for each in result.values())) for name, result in zip(names, results, strict=True)]
    print(align_columns([head, *rows]), verdict(results), sep="\n\n")
    if arguments.page is not None:
        lines = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]
        arguments.page.write_text("\n".join(lines) + "\n\n" + verdict(results) + "\n")


if __name__ == "__main__":
    main()
