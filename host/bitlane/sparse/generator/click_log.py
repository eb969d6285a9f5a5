"""Click logs with planted truth: any row of any log, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.pipeline import in_order
from bitlane.support.optional import require_extra
from bitlane.support.scalars import as_integer

from .settings import ClickLogSettings

if TYPE_CHECKING:
    from types import ModuleType

PILOT_ROWS = 1 << 16  # rows that choose the bias
MILLION = 1e6


class ClickLog:
    """A log of clicks, without end, whose truth is a factorization machine.

    A row has one key of each field, the value 1 for each, and a click (label 1) or none (label 0). Row r is a function
    of the settings and r, so rows can be made anywhere and in any order, by any number of threads. The truth
    is a function of a hash of (seed, key): memory does not depend on the number of keys. Keys are below 2**63.

    With w the weights and v the factors of the keys of a row, the click has the probability
    ``sigmoid(b + sum w_i + sum_{i < j} v_i . v_j)``; b gives the first rows the share of clicks `base_rate`.

    Parameters
    ----------
    settings : ClickLogSettings, optional

    Raises
    ------
    BitlaneError
        numba is not installed.

    Examples
    --------
    >>> from bitlane.sparse import ClickLog, ClickLogSettings
    >>> log = ClickLog(ClickLogSettings(fields=3, keys=1000, seed=1))
    >>> log.batch(0, 100).rows
    100
    """

    def __init__(self, settings: ClickLogSettings | None = None):
        self.settings = settings or ClickLogSettings()
        require_extra("numba", "a click log", "'bitlane[sparse]'")

    @cached_property
    def _kernels(self) -> ModuleType:
        from . import kernels

        return kernels

    @cached_property
    def _streams(self) -> NDArray[np.uint64]:
        return np.asarray(np.random.SeedSequence(self.settings.seed).generate_state(7, np.uint64), np.uint64)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.array(self.settings.sizes, np.int64)

    @cached_property
    def _laws(self) -> NDArray[np.float64]:
        laws: NDArray[np.float64] = self._kernels.zipf_laws(self._sizes, self.settings.zipf)
        return laws

    @cached_property
    def _numbers(self) -> NDArray[np.float64]:
        """Bias, scale of weights, scale of factors, churn and turn in a row, dim: see `kernels.rows`."""
        settings = self.settings
        pairs = settings.fields * (settings.fields - 1) / 2
        linear = settings.linear / np.sqrt(settings.fields)
        factors = np.sqrt(settings.interactions / np.sqrt(pairs * settings.dim)) if pairs else 0.0
        numbers = np.array([0.0, linear, factors, settings.churn / MILLION, settings.turn / MILLION, settings.dim])
        _, logits, _ = self._rows(0, PILOT_ROWS, numbers)
        numbers[0] = _bias(logits, settings.base_rate)
        return numbers

    def batch(self, start: int, rows: int) -> Batch:
        """Return rows `start` to ``start + rows - 1``.

        Parameters
        ----------
        start : int
            First row, 0 to 2**62.
        rows : int

        Returns
        -------
        Batch
            Each row has its keys in order of the fields. Times never decrease.
        """
        return self._make(start, rows)[0]

    def sample(self, start: int, rows: int) -> tuple[Batch, NDArray[np.float64]]:
        """Return rows, as `batch` does, and their true probabilities of a click, float64 [rows].

        No prediction of clicks has a lower expected log loss than the true probabilities.
        """
        batch, logits = self._make(start, rows)
        return batch, _sigmoid(logits)

    def _make(self, start: int, rows: int) -> tuple[Batch, NDArray[np.float64]]:
        """Return rows and their true logits."""
        settings = self.settings
        start, rows = as_integer("start", start, 0, 1 << 62), as_integer("rows", rows, 0)
        keys, logits, labels = self._rows(start, rows, self._numbers)
        seconds = np.arange(start, start + rows) / settings.rows_per_second
        batch = Batch(
            keys.reshape(-1),
            np.tile(np.arange(settings.fields, dtype=np.uint16), rows),
            np.ones(keys.size, np.float32),
            np.arange(rows + 1, dtype=np.int64) * settings.fields,
            labels,
            settings.start_time + seconds.astype(np.int64),
        )
        return batch, logits

    def _rows(self, start: int, rows: int, numbers: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        keys = np.empty((rows, self.settings.fields), np.uint64)
        logits, labels = np.empty(rows), np.empty(rows, np.float32)
        self._kernels.rows(self._streams, numbers, self._sizes, self._laws, start, keys, logits, labels)
        return keys, logits, labels


class ClickLogSource:
    """A range of a click log's rows as a source of batches, in the order of time.

    Parameters
    ----------
    log : ClickLog
    rows : int
    first_row : int, default=0
    batch_rows : int, default=65,536
        Rows of each batch but the last.
    threads : int, default=1
        Threads that make batches ahead of their reader. They change nothing in the batches.
    """

    def __init__(self, log: ClickLog, rows: int, *, first_row: int = 0, batch_rows: int = 1 << 16, threads: int = 1):
        self.log = log
        self.rows = as_integer("rows", rows, 0)
        self.first_row = as_integer("first_row", first_row, 0)
        self.batch_rows = as_integer("batch_rows", batch_rows, 1)
        self.threads = as_integer("threads", threads, 1, 256)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the rows from the row `start` of this range on; every epoch has the same.

        Batches begin at multiples of `batch_rows`, apart from the first.
        """
        start = as_integer("start", start, 0)
        inner = range((start // self.batch_rows + 1) * self.batch_rows, self.rows, self.batch_rows)
        bounds: Iterable[int] = chain([start], inner, [self.rows]) if start < self.rows else []
        return in_order((partial(self._rows_between, *bounds) for bounds in pairwise(bounds)), self.threads)

    def _rows_between(self, first: int, last: int) -> Batch:
        return self.log.batch(self.first_row + first, last - first)


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0.0, -logits))


def _bias(logits: NDArray[np.float64], rate: float) -> float:
    """Return the number that brings the mean of sigmoid(logits + number) to `rate`."""
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if _sigmoid(logits + middle).mean() < rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2
