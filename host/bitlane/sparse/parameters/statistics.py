"""Statistics: sightings, clicks and the decayed click rate of keys, as features of the rows that follow."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.hashing import column_key
from bitlane.sparse.parameters import counting
from bitlane.sparse.parameters.counting import KINDS, WIDTH
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.tables.sketch import Admission
from bitlane.sparse.tables.table import Table
from bitlane.support.scalars import as_integer, as_number

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
LARGEST_FIELD = (1 << 16) - 1
WIDEST = 32  # half-lives between the first and the last row before the weights are scaled down


@dataclass(frozen=True)
class StatisticsSettings:
    """What is counted, and which features it gives.

    Attributes
    ----------
    fields : tuple of int
        The fields whose keys are counted, each key in each field by itself.
    first_field : int
        Fields from this one on are those of the new features: `kinds` of the first field, of the second, and so on. It
        is usually the number of fields of the data.
    kinds : tuple of str, default=("rate", "count")
        "rate": ``log((c + a p) / (n - c + a (1 - p))) - log(p / (1 - p))`` with the decayed sightings n and clicks c of
        the key, the click rate p of all rows, decayed as well, and a, `prior_weight`. It is 0 for a new key.
        "count", "clicks": ``log(1 + sightings)``, ``log(1 + clicks)``, not decayed.
    half_life : float, optional
        After so many rows, or seconds, a sighting counts half. None: no decay.
    unit : {"rows", "seconds"}, default="rows"
        Of `half_life`. Seconds are those of the rows' times.
    prior_weight : float, default=20.0
        Sightings that weigh as much as all other rows: the rate of a key with fewer is close to p.
    batch_rows : int, default=1000
        Rows that a training counts at a time; they do not see each other.
    sightings : int, default=1
        A key is counted from so many sightings on: see `Admission`.
    """

    fields: tuple[int, ...]
    first_field: int
    kinds: tuple[str, ...] = ("rate", "count")
    half_life: float | None = None
    unit: str = "rows"
    prior_weight: float = 20.0
    batch_rows: int = 1000
    sightings: int = 1

    def __post_init__(self) -> None:
        for name in ("fields", "kinds"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence) or not value or len(set(value)) < len(value):
                raise DataError(f"{name}={value!r}: choose one or more, without duplicates")
            object.__setattr__(self, name, tuple(value))
        for field in self.fields:
            as_integer("a field of the statistics", field, 0, LARGEST_FIELD)
        for kind in self.kinds:
            if kind not in KINDS:
                raise DataError(f"kind {kind!r} of the statistics is unknown; choose among {', '.join(KINDS)}")
        as_integer("first_field", self.first_field, max(self.fields) + 1, LARGEST_FIELD + 1 - self.added)
        as_integer("batch_rows", self.batch_rows, 1)
        as_integer("sightings", self.sightings, 1, 255)
        if self.unit not in ("rows", "seconds"):
            raise DataError(f"unit={self.unit!r}: choose 'rows' or 'seconds'")
        for name in ("half_life", "prior_weight"):
            value = getattr(self, name)
            if value is not None and as_number(name, value) <= 0:
                raise DataError(f"{name}={value!r}: it must be above 0")

    @property
    def added(self) -> int:
        """Number of fields that the features add."""
        return len(self.fields) * len(self.kinds)


@dataclass(frozen=True, eq=False)
class Sightings:
    """The features of a batch that are counted, in the order of the rows.

    Attributes
    ----------
    words : uint64 [n]
        Their keys in the table.
    indices : int32 [n]
        Number of each one's field among the counted ones.
    rows : int64 [n]
    """

    words: Keys
    indices: NDArray[np.int32]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tally:
    """What rows that do not see each other add to the counts.

    Attributes
    ----------
    words : uint64 [n]
        Distinct keys in the table.
    sums : float64 [n, 2]
        Sightings and clicks of each.
    rows, clicks : float
        Weight of the rows, and of those with label 1.
    """

    words: Keys
    sums: Floats
    rows: float
    clicks: float


class Statistics:
    """Counts the keys of chosen fields, and adds what it has counted to the rows that follow.

    Call `enrich` for a batch, let the model learn the result, then `update` with the batch: the features of a row come
    from rows of earlier batches only, never from its own label or from its own batch. For another pass over the same
    rows call `reset` first, or each row would find its own label in the counts.

    The new features have the key xxh64 of ``statistics/FIELD/KIND``, such as ``statistics/3/rate``. A row gets those of
    each chosen field that it has a key of, with a value other than 0; of several keys, the mean.

    Counts are float32: exact up to 16,777,216, rounded beyond. Several threads may call both methods.

    Parameters
    ----------
    settings : StatisticsSettings

    Attributes
    ----------
    table : Table
        By the mix of key and field: sightings, clicks, and both decayed.
    rows_seen : float
        Weight of the rows counted; without weights their number.
    """

    def __init__(self, settings: StatisticsSettings):
        self.settings = settings
        self._index_of = np.full(LARGEST_FIELD + 1, -1, np.int32)
        self._index_of[list(settings.fields)] = np.arange(len(settings.fields))
        self._kinds = np.array([KINDS.index(kind) for kind in settings.kinds])
        names = [f"statistics/{field}/{kind}" for field in settings.fields for kind in settings.kinds]
        self.keys = np.array([column_key(name) for name in names], np.uint64)
        self.fields = np.arange(settings.first_field, settings.first_field + len(names)).astype(np.uint16)
        self._counting = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget all that was counted."""
        sightings = self.settings.sightings
        self.table = Table(WIDTH, admission=Admission(sightings) if sightings > 1 else None)
        self.rows_seen: float = 0
        self._now: float | None = None  # of the last row: rows or seconds
        self._landmark = 0.0  # when the weight of a sighting in the table is 1
        self._totals = np.zeros(2)  # decayed rows and clicks

    def enrich(self, batch: Batch) -> Batch:
        """Return a batch with the statistics behind the features of each row. Labels are not read; nothing changes.

        Raises
        ------
        DataError
            `unit` is "seconds" and the batch has no times.
        """
        sightings = self.select(batch)
        with self.table.updating():
            slots = self.table.find(sightings.words)
            return self.enriched(batch, sightings, self.table.rows, slots)

    def enriched(
        self, batch: Batch, sightings: Sightings, rows: NDArray[np.float32], slots: NDArray[np.int64]
    ) -> Batch:
        """Return a batch as `enrich` does, with counts from another array than the table's.

        Parameters
        ----------
        batch : Batch
        sightings : Sightings
            Of the batch.
        rows : float32 [m, 4]
            Sightings, clicks, and both decayed, of keys.
        slots : int64 [n]
            Row of each sighting; -1: its key was never seen.
        """
        ages = self._half_lives(self._moments(batch))
        fading = np.exp2(-np.maximum(ages, -WIDEST))  # no overflow for rows that are far older than those counted
        summaries = np.zeros((batch.rows, len(self.settings.fields), len(self._kinds) + 1), np.float32)
        prior = np.array([self._rate(), self.settings.prior_weight])
        counting.summarise(rows, slots, sightings.indices, sightings.rows, fading, prior, self._kinds, summaries)
        most = batch.nnz + batch.rows * len(self.keys)
        keys, fields, values = np.empty(most, np.uint64), np.empty(most, np.uint16), np.empty(most, np.float32)
        offsets = np.zeros(batch.rows + 1, np.int64)
        nnz = counting.append(_arrays(batch), summaries, self.keys, self.fields, (keys, fields, values, offsets))
        return Batch(keys[:nnz], fields[:nnz], values[:nnz], offsets, batch.labels, batch.times, batch.weights)

    def update(self, batch: Batch) -> None:
        """Count the rows of a batch, each as often as its weight says, after a model has predicted them.

        Raises
        ------
        DataError
            That of `check`. Nothing is counted then.
        """
        self.check(batch)
        if batch.rows == 0:
            return
        sightings, counts = self.select(batch), _counts(batch)
        if self.settings.unit == "rows":  # all rows have one moment
            self._count(tally_of(sightings, batch), sightings.words)
            return
        distinct, index = unique_keys(sightings.words)
        with self._counting:
            weights = self._advance(self._moments(batch)) * counts
            sums = np.zeros((2, len(distinct), 2))
            counting.tally(index, sightings.rows, batch.labels, counts, sums[0])
            counting.tally(index, sightings.rows, batch.labels, weights, sums[1])
            self._add(distinct, np.concatenate(sums, axis=1), sightings.words)
            self._totals += (weights.sum(), weights @ batch.labels)
            self.rows_seen += batch.total_weight

    def count(self, tally: Tally) -> None:
        """Count rows that do not see each other, as `update` does with `unit` "rows" and an admission of all keys."""
        self._count(tally, tally.words)

    def _count(self, tally: Tally, sightings: Keys) -> None:
        with self._counting:
            weight = self._advance(np.array([self.rows_seen], np.float64))[0]
            self._add(tally.words, np.concatenate([tally.sums, tally.sums * weight], axis=1), sightings)
            self._totals += (tally.rows * weight, tally.clicks * weight)
            self.rows_seen += tally.rows

    def _add(self, distinct: Keys, sums: Floats, sightings: Keys) -> None:
        """Add sums [n, 4] to the rows of distinct keys [n]. Every sighting counts for the admission."""
        with self.table.pinned(sightings):
            slots = self.table.find(distinct)
            known = slots >= 0
            self.table.rows[slots[known]] += sums[known]

    def check(self, batch: Batch) -> None:
        """Raise DataError if a batch cannot be counted: a label is neither 0 nor 1, or times are missing."""
        wrong = ~((batch.labels == 0) | (batch.labels == 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(f"row {row}: label {batch.labels[row]:g}; statistics need labels 0 or 1")
        self._moments(batch)

    def forget(self, below: float) -> int:
        """Remove the keys whose decayed sightings are below a number; return how many there were."""
        with self._counting:
            fading = np.exp2(-self._half_lives(np.array([self._now or 0.0])))[0]
            removed: int = self.table.sweep(lambda keys, rows: rows[:, counting.WEIGHT] * fading >= below, None)
        return removed

    def totals(self) -> dict[str, float | None]:
        """Return all that is needed to go on apart from the table, as JSON takes it."""
        weight, clicks = self._totals.tolist()
        return {
            "rows_seen": self.rows_seen,
            "now": self._now,
            "landmark": self._landmark,
            "weight": weight,
            "clicks": clicks,
        }

    def restore(self, totals: Mapping[str, Any], chunks: Iterable[tuple[Any, ...]]) -> None:
        """Go on where statistics of the same settings stopped: with their `totals` and the items of their table."""
        self.reset()
        self.set_totals(totals)
        self.table.load(chunks)

    def set_totals(self, totals: Mapping[str, Any]) -> None:
        """Go to `totals`; the table stays as it is."""
        self.rows_seen = totals["rows_seen"]
        self._now = totals["now"]
        self._landmark = totals["landmark"]
        self._totals[:] = totals["weight"], totals["clicks"]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON takes them: ``StatisticsSettings(**record)``."""
        return asdict(self.settings)

    def select(self, batch: Batch) -> Sightings:
        """Return the features of a batch that are counted."""
        words, indices = np.empty(batch.nnz, np.uint64), np.empty(batch.nnz, np.int32)
        rows = np.empty(batch.nnz, np.int64)
        count = counting.select(_arrays(batch), self._index_of, words, indices, rows)
        return Sightings(words[:count], indices[:count], rows[:count])

    def _moments(self, batch: Batch) -> Floats:
        """Return when each row was: its second, or for all the rows counted before the batch."""
        if self.settings.unit == "rows":
            return np.full(batch.rows, self.rows_seen, np.float64)
        if batch.times is None:
            raise DataError("statistics with unit='seconds' need row times: set the time column")
        return batch.times.astype(np.float64)

    def _half_lives(self, moments: Floats) -> Floats:
        """Return how many half-lives are between the landmark and each moment."""
        if self.settings.half_life is None:
            return np.zeros(len(moments))
        return (moments - self._landmark) / self.settings.half_life

    def _rate(self) -> float:
        """Return the decayed click rate of all rows, with one pseudo row of 0.5."""
        weight, clicks = self._totals * np.exp2(-self._half_lives(np.array([self._now or 0.0])))
        return float((clicks + 0.5) / (weight + 1.0))

    def _advance(self, moments: Floats) -> Floats:
        """Move the clock to the last moment; return the weight of a sighting at each."""
        if self._now is None:
            self._landmark = float(moments.min())
        latest = float(moments.max())
        self._now = latest if self._now is None else max(self._now, latest)
        ages = self._half_lives(moments)
        if ages.max() > WIDEST:
            halvings = int(ages.max())
            factor = np.ldexp(1.0, -halvings)  # a power of 2: what stays above the smallest float32 stays exact
            with self.table.frozen():
                self.table.rows[:, counting.WEIGHT :] *= np.float32(factor)
            self._totals *= factor
            self._landmark += halvings * (self.settings.half_life or 0.0)
            ages = self._half_lives(moments)
        return np.exp2(ages)


def tally_of(sightings: Sightings, batch: Batch) -> Tally:
    """Return what the rows of a batch add to the counts, each as often as its weight says."""
    distinct, index = unique_keys(sightings.words)
    counts, sums = _counts(batch), np.zeros((len(distinct), 2))
    counting.tally(index, sightings.rows, batch.labels, counts, sums)
    return Tally(distinct, sums, float(counts.sum()), float(counts @ batch.labels))


def _counts(batch: Batch) -> Floats:
    """Return the sightings that each row is."""
    return np.ones(batch.rows) if batch.weights is None else batch.weights.astype(np.float64)


def _arrays(batch: Batch) -> tuple[NDArray[Any], ...]:
    return tuple(map(np.ascontiguousarray, (batch.keys, batch.fields, batch.values, batch.offsets)))
