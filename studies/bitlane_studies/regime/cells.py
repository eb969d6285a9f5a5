"""The cells of the map: tables of several shapes and kinds, with one or many models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from bitlane.errors import BitlaneError

from . import images, tables
from .problems import FitProblem, Floats, l1_strength, standardise

SPARSE = 0.15  # of the values that are not 0: below it programs get the table as CSR, too
L1_SHARE = 0.03  # of the least penalty at which all coefficients are 0
SEARCH = tuple(float(alpha) for alpha in np.logspace(-6, -1.5, 10))  # the penalties of a search


@dataclass(frozen=True)
class MapCell:
    """A table and what is fitted to it.

    Attributes
    ----------
    name : str
    source : str
        "dense", "one-hot" or "embeddings", which are generated, or the name of a data set.
    loss : {"squared_error", "log_loss", "hinge"}
    labels : {"numbers", "first", "classes", "hundred"}
    rows, columns : int
        Of generated tables.
    penalty : {"l2", "l1"}
    search : bool
        Ten penalties and five folds instead of one model.
    size : {"quick", "standard", "long"}
        "long" cells take minutes, and run only where they are named.
    """

    name: str
    source: str
    loss: str
    labels: str
    rows: int = 0
    columns: int = 0
    penalty: str = "l2"
    search: bool = False
    size: str = "standard"

    def table(self, cache: Path) -> tuple[Floats, Floats]:
        """Return X and y; embeddings are kept in `cache`, because they take minutes."""
        if self.source in tables.KINDS:
            return tables.KINDS[self.source](self.rows, self.columns, self.labels)
        if self.source != "embeddings":
            return tables.real(self.source, self.labels)
        paths = [cache / f"{part}-{self.rows}x{self.columns}-{self.labels}.npy" for part in "Xy"]
        if not all(path.exists() for path in paths):
            cache.mkdir(parents=True, exist_ok=True)
            for path, array in zip(paths, images.embeddings(self.rows, self.columns, self.labels), strict=True):
                np.save(path, array)
        X, y = (np.load(path) for path in paths)
        return X, y

    def problem(self, cache: Path) -> FitProblem:
        """Return the problem of this cell; columns of sparse tables keep their zeros."""
        X, y = self.table(cache)
        sparse = bool(np.count_nonzero(X[:1000]) < SPARSE * X[:1000].size)
        standardise(X, shifted=not sparse)
        if self.search:
            return FitProblem(X, y, self.loss, self.penalty, SEARCH, 5, sparse)
        alphas = (l1_strength(X, y, L1_SHARE),) if self.penalty == "l1" else ()
        return FitProblem(X, y, self.loss, self.penalty, alphas, sparse=sparse)


def _shapes(size: str, *shapes: tuple[int, int]) -> list[MapCell]:
    """Return dense tables of the given shapes with each loss; the hinge only where its optimum is found in seconds."""
    losses = {"squares": ("squared_error", "numbers"), "log": ("log_loss", "first"), "hinge": ("hinge", "first")}
    return [
        MapCell(f"{short}-{_short(rows)}x{columns}", "dense", loss, labels, rows, columns, size=size)
        for rows, columns in shapes
        for short, (loss, labels) in losses.items()
        if short != "hinge" or rows * columns <= 10_000_000
    ]


def _short(rows: int) -> str:
    return f"{rows // 1_000_000}m" if rows % 1_000_000 == 0 else f"{rows // 1000}k"


CELLS: tuple[MapCell, ...] = (
    *_shapes("quick", (1_000, 10), (20_000, 100)),
    *_shapes("standard", (1_000_000, 32), (200_000, 256), (20_000, 2_048)),
    MapCell("squares-cadata", "cadata", "squared_error", "numbers", size="quick"),
    MapCell("squares-cpusmall", "cpusmall", "squared_error", "numbers", size="quick"),
    MapCell("squares-cod-rna", "cod-rna", "squared_error", "first"),
    MapCell("squares-mnist-number", "mnist", "squared_error", "numbers"),
    MapCell("squares-mnist-ten", "mnist", "squared_error", "classes"),
    MapCell("log-cod-rna", "cod-rna", "log_loss", "first"),
    MapCell("log-a9a", "a9a", "log_loss", "first", size="quick"),
    MapCell("log-one-hot", "one-hot", "log_loss", "first", 200_000, 400),
    MapCell("log-mnist-0", "mnist", "log_loss", "first"),
    MapCell("log-mnist-ten", "mnist", "log_loss", "classes"),
    MapCell("hinge-cod-rna", "cod-rna", "hinge", "first"),
    MapCell("hinge-a9a", "a9a", "hinge", "first"),
    MapCell("hinge-mnist-0", "mnist", "hinge", "first"),
    MapCell("l1-squares-20kx500", "dense", "squared_error", "numbers", 20_000, 500, "l1"),
    MapCell("l1-log-a9a", "a9a", "log_loss", "first", penalty="l1"),
    MapCell("squares-embeddings-ten", "embeddings", "squared_error", "classes", 100_000, 1_024),
    MapCell("squares-embeddings-hundred", "embeddings", "squared_error", "hundred", 100_000, 1_024),
    MapCell("log-embeddings-ten", "embeddings", "log_loss", "classes", 100_000, 1_024),
    MapCell("log-embeddings-hundred", "embeddings", "log_loss", "hundred", 100_000, 1_024),
    MapCell("squares-search", "dense", "squared_error", "numbers", 100_000, 256, search=True),
    MapCell("log-search", "dense", "log_loss", "first", 100_000, 256, search=True),
    MapCell("squares-million-embeddings-ten", "embeddings", "squared_error", "classes", 1_000_000, 1_024, size="long"),
    MapCell("log-million-embeddings-ten", "embeddings", "log_loss", "classes", 1_000_000, 1_024, size="long"),
)


def chosen_cells(patterns: Sequence[str], quick: bool) -> list[MapCell]:
    """Return the cells whose names match a pattern; without patterns all but the long ones, or the quick ones.

    Raises
    ------
    BitlaneError
        A pattern matches no cell.
    """
    if not patterns:
        return [cell for cell in CELLS if cell.size == "quick" or (cell.size == "standard" and not quick)]
    for pattern in patterns:
        if not any(fnmatchcase(cell.name, pattern) for cell in CELLS):
            raise BitlaneError(f"no cell {pattern!r}; there are {', '.join(cell.name for cell in CELLS)}")
    return [cell for cell in CELLS if any(fnmatchcase(cell.name, pattern) for pattern in patterns)]
