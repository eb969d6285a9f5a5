"""A small model and sources for tests of the training loop: their results follow from the rows alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from bitlane.sparse.batches.batch import Batch

# Of a window: they differ from run to run. A loaded table has other room than one from which keys were removed.
TIMES, MEMORY = ("seconds", "rows_per_second", "waiting"), ("table_bytes", "memory_over_data")


def some_rows(seed: int, rows: int) -> Batch:
    """Rows with two keys each, and labels of both classes that follow from the first key."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 16, 2 * rows).astype(np.uint64)
    labels = (rng.random(rows) < np.where(keys[::2] < 5, 0.8, 0.3)).astype(np.float32)
    return Batch(
        keys,
        np.tile(np.array([0, 1], np.uint16), rows),
        np.ones(2 * rows, np.float32),
        np.arange(0, 2 * rows + 1, 2, dtype=np.int64),
        labels,
    )


class TinyTable:
    """Notes its clock and its sweeps."""

    nbytes, data_nbytes = 120, 100

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __len__(self) -> int:
        return 16

    def tick(self, clock: int) -> None:
        self.calls.append(("tick", clock))

    def sweep(self, keep: object, older_than: int | None) -> int:
        self.calls.append(("sweep", keep, older_than))
        return 0


class TinyModel:
    """Logistic regression with 16 weights in float64, row after row in Python."""

    save_delay = 0.0  # between the two files

    def __init__(self, delay: float = 0.0, batch_rows: int = 1, rate: float = 0.1):
        self.spec = SimpleNamespace(loss="log_loss", batch_rows=batch_rows)
        self.weights = np.zeros(16)
        self.parameters = SimpleNamespace(table=TinyTable(), has_weight="has_weight")
        self.rows_seen = 0
        self.delay, self.rate = delay, rate
        self.pieces: list[int] = []

    def begin(self, batch: Batch) -> None:
        self.first_rows = batch.rows

    def scores(self, batch: Batch) -> np.ndarray:
        return self.weights[batch.keys.reshape(-1, 2) % 16].sum(axis=1).astype(np.float32)

    def scores_and_known(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self.scores(batch), np.ones(batch.nnz, np.bool_)

    def learn(self, batch: Batch) -> np.ndarray:
        time.sleep(self.delay)
        scores = np.zeros(batch.rows, np.float32)
        for row, (pair, label) in enumerate(zip(batch.keys.reshape(-1, 2) % 16, batch.labels, strict=True)):
            score = float(self.weights[pair].sum())
            scores[row] = score
            self.weights[pair] -= self.rate * (1 / (1 + math.exp(-score)) - label)
        self.rows_seen += batch.rows
        self.pieces.append(batch.rows)
        return scores

    def save(self, folder: Path) -> None:
        assert list(folder.iterdir()) == []
        np.save(folder / "weights.npy", self.weights)
        time.sleep(self.save_delay)
        (folder / "model.json").write_text(json.dumps({"rows_seen": self.rows_seen}))

    @classmethod
    def load(cls, folder: Path) -> TinyModel:
        model = cls()
        model.weights = np.load(folder / "weights.npy")
        model.rows_seen = json.loads((folder / "model.json").read_text())["rows_seen"]
        return model


class RowsSource:
    """The rows of a batch, in batches of `size` rows and, unless `ordered`, in another order in each epoch.

    `before` is called before each batch is given, with the number of its first row.
    """

    def __init__(
        self, rows: Batch, size: int = 70, before: Callable[[int], object] | None = None, ordered: bool = False
    ):
        self.rows, self.size, self.before, self.ordered = rows, size, before, ordered
        self.open = 0

    def epoch_rows(self, epoch: int) -> Batch:
        if self.ordered:
            return self.rows
        return self.rows.take(np.random.default_rng(epoch).permutation(self.rows.rows))

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        rows = self.epoch_rows(epoch)
        self.open += 1
        try:
            for first in range(start, rows.rows, self.size):
                if self.before is not None:
                    self.before(first)
                yield rows.slice(first, first + self.size)
        finally:
            self.open -= 1


@dataclass(frozen=True)
class Offset:
    """A place in a `RowsStream`."""

    row: int

    def as_json(self) -> dict[str, int]:
        return {"row": self.row}


class RowsStream:
    """The rows of a batch as a stream: segments of `size` rows, and then an end."""

    def __init__(self, rows: Batch, size: int, row: int = 0, before: Callable[[int], object] | None = None):
        self.rows, self.size, self.offset, self.before = rows, size, Offset(row), before

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        assert start == 0
        for first in range(self.offset.row, self.rows.rows, self.size):
            if self.before is not None:
                self.before(first)
            last = min(first + self.size, self.rows.rows)
            self.offset = Offset(last)
            yield self.rows.slice(first, last)


def without_times(lines: list[dict]) -> list[dict]:
    """The windows of a log, without what differs from run to run."""
    differing = {*TIMES, *MEMORY}
    windows = (line for line in lines if line["kind"] == "window")
    return [{name: value for name, value in line.items() if name not in differing} for line in windows]


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
