"""Statistics of keys: against sums over a list of all rows, and without a leak of labels."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings

pytest.importorskip("numba")
xxhash = pytest.importorskip("xxhash")

NAMES = ("keys", "fields", "values", "offsets", "labels", "times")


def random_batch(rng: np.random.Generator, rows: int, start: int = 0, gap: float = 3.0) -> Batch:
    """Rows with 0 to 5 features of 4 fields and few keys, some with value 0; the same keys in all fields."""
    lengths = rng.integers(0, 6, rows)
    nnz = int(lengths.sum())
    return Batch(
        rng.choice(np.array([0, 1, 5, 2**64 - 1], np.uint64), nnz),
        rng.integers(0, 4, nnz).astype(np.uint16),
        rng.choice(np.array([1.0, -2.5, 0.0], np.float32), nnz),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        rng.integers(0, 2, rows).astype(np.float32),
        start + np.cumsum(rng.exponential(gap, rows).astype(np.int64)),
    )


def features(batch: Batch, row: int) -> list[tuple[int, int, float]]:
    part = slice(batch.offsets[row], batch.offsets[row + 1])
    return list(zip(batch.keys[part].tolist(), batch.fields[part].tolist(), batch.values[part].tolist(), strict=True))


class Textbook:
    """Statistics by sums over all rows so far."""

    def __init__(self, settings: StatisticsSettings):
        self.settings = settings
        self.rows: list[tuple[list[tuple[int, int]], float, float]] = []  # (field, key) of a row, moment, label
        self.seen = 0

    def moments(self, batch: Batch) -> list[float]:
        return [float(self.seen)] * batch.rows if self.settings.unit == "rows" else batch.times.tolist()

    def counted(self, batch: Batch, row: int) -> list[tuple[int, int]]:
        return [(field, key) for key, field, value in features(batch, row) if value and field in self.settings.fields]

    def sums(self, at: float, which: tuple[int, int] | None) -> tuple[float, float, float, float]:
        count = clicks = weight = weighted = 0.0
        for keys, moment, label in self.rows:
            fading = 1.0 if self.settings.half_life is None else 2.0 ** -((at - moment) / self.settings.half_life)
            times = 1 if which is None else keys.count(which)
            count, clicks = count + times, clicks + times * label
            weight, weighted = weight + times * fading, weighted + times * fading * label
        return count, clicks, weight, weighted

    def enrich(self, batch: Batch, row: int) -> list[tuple[int, int, float]]:
        settings, found = self.settings, features(batch, row)
        last = max((moment for _, moment, _ in self.rows), default=0.0)
        _, _, weight, clicks = self.sums(last, None)
        rate = (clicks + 0.5) / (weight + 1)
        for i, field in enumerate(settings.fields):
            words = [word for word in self.counted(batch, row) if word[0] == field]
            for j, kind in enumerate(settings.kinds):
                values = []
                for word in words:
                    count, clicks, n, c = self.sums(self.moments(batch)[row], word)
                    above, below = c + settings.prior_weight * rate, n - c + settings.prior_weight * (1 - rate)
                    values.append(
                        math.log(above / below) - math.log(rate / (1 - rate))
                        if kind == "rate"
                        else math.log1p(count if kind == "count" else clicks)
                    )
                if values:
                    key = xxhash.xxh64(f"statistics/{field}/{kind}".encode()).intdigest()
                    place = settings.first_field + i * len(settings.kinds) + j
                    found.append((key, place, sum(values) / len(values)))
        return found

    def update(self, batch: Batch) -> None:
        for row, moment in enumerate(self.moments(batch)):
            self.rows.append((self.counted(batch, row), moment, float(batch.labels[row])))
        self.seen += batch.rows


@pytest.mark.parametrize(
    ("settings", "gap"),
    [
        (StatisticsSettings((2,), 4), 3.0),
        (StatisticsSettings((3, 0), 7, ("clicks", "rate", "count"), prior_weight=0.5), 3.0),
        (StatisticsSettings((1, 2), 4, half_life=10.0), 3.0),
        (StatisticsSettings((0, 1), 4, half_life=0.5), 3.0),  # rows of a batch are dozens of half-lives later
        (StatisticsSettings((0, 1), 4, half_life=20.0, unit="seconds"), 3.0),
        (StatisticsSettings((0, 1), 4, half_life=2.0, unit="seconds", prior_weight=1e-3), 100.0),
    ],
)
def test_features_are_those_of_the_textbook(settings: StatisticsSettings, gap: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, expected = Statistics(settings), Textbook(settings)
    now = 1_700_000_000
    for rows in (3, 20, 1, 25, 20):
        batch = random_batch(rng, rows, now, gap)
        now = int(batch.times[-1]) - 30 * (rows > 1)  # times may overlap those of earlier batches
        enriched = found.enrich(batch)
        for row in range(rows):
            given, wanted = features(enriched, row), expected.enrich(batch, row)
            assert [each[:2] for each in given] == [each[:2] for each in wanted]
            assert [each[2] for each in given] == pytest.approx([each[2] for each in wanted], rel=1e-4, abs=2e-4)
        assert enriched.labels is batch.labels and enriched.times is batch.times
        found.update(batch)
        expected.update(batch)
    assert found.rows_seen == 69


def statistics_after(rng: np.random.Generator, unit: str = "rows") -> Statistics:
    found = Statistics(StatisticsSettings((0, 2), 4, ("rate", "count", "clicks"), half_life=30.0, unit=unit))
    for start in (0, 100):
        found.update(random_batch(rng, 40, start))
    return found


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in NAMES)


@pytest.mark.parametrize("unit", ["rows", "seconds"])
def test_a_batch_does_not_see_its_own_labels(unit: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, batch = statistics_after(rng, unit), random_batch(rng, 50, 300)
    flipped = Batch(*(getattr(batch, name) for name in NAMES[:4]), 1 - batch.labels, batch.times)
    unlabelled = Batch(*(getattr(batch, name) for name in NAMES[:4]), batch.labels * np.nan, batch.times)
    enriched = found.enrich(batch)
    for other in (flipped, unlabelled):
        given = found.enrich(other)
        assert all(np.array_equal(getattr(enriched, name), getattr(given, name)) for name in NAMES[:4])
    found.update(batch)
    assert not same(found.enrich(batch), enriched), "but later batches see them"


@pytest.mark.parametrize("unit", ["rows", "seconds"])
def test_rows_of_a_batch_do_not_see_each_other(unit: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, batch = statistics_after(rng, unit), random_batch(rng, 50, 300)
    enriched = found.enrich(batch)
    alone = [found.enrich(batch.slice(row, row + 1)) for row in range(batch.rows)]
    assert same(Batch.concatenate(alone), enriched)


def test_statistics_go_on_where_they_were_saved(seed: int) -> None:
    for unit in ("rows", "seconds"):
        rng = np.random.default_rng(seed)
        found = statistics_after(rng, unit)
        record = json.loads(json.dumps({"settings": found.to_json(), "totals": found.totals()}))
        other = Statistics(StatisticsSettings(**record["settings"]))
        other.restore(record["totals"], list(found.table.items(chunk=3)))
        for start in (300, 10_000):
            batch = random_batch(rng, 50, start)
            assert same(found.enrich(batch), other.enrich(batch))
            found.update(batch)
            other.update(batch)
        assert found.totals() == other.totals()


def test_rows_long_before_and_after_the_counted_ones_have_finite_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = Statistics(StatisticsSettings((0, 1, 2, 3), 4, half_life=1.0, unit="seconds"))
    found.update(random_batch(rng, 50, 10**9))
    for start in (0, 2 * 10**9):
        batch = random_batch(rng, 50, start)
        assert np.isfinite(found.enrich(batch).values).all()
        found.update(batch)
        assert np.isfinite(found.enrich(batch).values).all() and all(map(np.isfinite, found.totals().values()))


def test_reset_forgets_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, batch = statistics_after(rng), random_batch(rng, 20)
    fresh = Statistics(found.settings).enrich(batch)
    found.reset()
    assert same(found.enrich(batch), fresh) and found.rows_seen == 0 and len(found.table) == 0


def test_threads_lose_no_sighting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = Statistics(StatisticsSettings((0,), 1, half_life=1e9))
    keys = rng.integers(0, 50, 40_000).astype(np.uint64)
    labels = rng.integers(0, 2, len(keys)).astype(np.float32)
    ones, offsets = np.ones(len(keys), np.float32), np.arange(len(keys) + 1)
    batch = Batch(keys, np.zeros(len(keys), np.uint16), ones, offsets, labels)
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, batch.rows, 500):
            pool.submit(found.update, batch.slice(start, start + 500))
            pool.submit(found.enrich, batch.slice(start, start + 500))
    ((_, rows, *_),) = found.table.items()
    counts = np.bincount(keys.astype(int)), np.bincount(keys.astype(int), labels)
    assert sorted(map(tuple, rows[:, :2].tolist())) == sorted(zip(*(each.tolist() for each in counts), strict=True))
    assert found.rows_seen == len(keys)


def test_forgetting_removes_what_has_faded(seed: int) -> None:
    """Keys 0 to 9 are seen once each, at rows 0, 10, ...; with a half-life of 10 rows key k weighs 2^-(10 - k)."""
    found = Statistics(StatisticsSettings((0,), 1, half_life=10.0))
    blank = np.zeros(0, np.uint64), np.zeros(0, np.uint16), np.zeros(0, np.float32)
    for key in range(10):
        offsets = np.array([0, *[1] * 10])
        one = np.array([key], np.uint64), np.zeros(1, np.uint16), np.ones(1, np.float32)
        found.update(Batch(*one, offsets, np.zeros(10, np.float32)))
    found.update(Batch(*blank, np.zeros(2, np.int64), np.zeros(1, np.float32)))
    assert found.forget(0.9 * 2.0**-4) == 6
    ((_, rows, *_),) = found.table.items()
    assert len(found.table) == 4 and np.all(rows[:, 0] == 1)
    assert sorted(np.log2(rows[:, 2]).tolist()) == pytest.approx([6, 7, 8, 9])


def test_admission_waits_for_sightings() -> None:
    found = Statistics(StatisticsSettings((0,), 1, ("count",), sightings=3))
    one = np.array([7], np.uint64), np.zeros(1, np.uint16), np.ones(1, np.float32), np.array([0, 1])
    for counted in (0, 0, 1, 2):
        found.update(Batch(*one, np.zeros(1, np.float32)))
        value = found.enrich(Batch(*one, np.zeros(1, np.float32))).values[1]
        assert value == pytest.approx(math.log1p(counted))


def test_what_cannot_be_counted(seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 10)
    found = Statistics(StatisticsSettings((0,), 4, half_life=1.0, unit="seconds"))
    labels = batch.labels.copy()
    labels[3] = 0.5
    with pytest.raises(DataError, match=r"row 3: label 0.5; statistics need labels 0 or 1"):
        found.update(Batch(*(getattr(batch, name) for name in NAMES[:4]), labels, batch.times))
    timeless = Batch(*(getattr(batch, name) for name in NAMES[:5]))
    for method in (found.enrich, found.update):
        with pytest.raises(DataError, match="need row times"):
            method(timeless)
    assert found.rows_seen == 0 and len(found.table) == 0
    found.update(batch.slice(0, 0))
    assert found.enrich(batch.slice(0, 0)).rows == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": ()}, r"fields=\(\): choose one or more, without duplicates"),
        ({"fields": (1, 1)}, r"fields=\(1, 1\): choose one or more, without duplicates"),
        ({"kinds": "rate"}, "kinds='rate': choose one or more"),
        ({"kinds": ("mean",)}, "kind 'mean' of the statistics is unknown; choose among rate, count, clicks"),
        ({"first_field": 3}, "first_field=3: it must be an integer from 4 to 65534"),
        ({"half_life": 0.0}, "half_life=0.0: it must be above 0"),
        ({"unit": "days"}, "unit='days': choose 'rows' or 'seconds'"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        StatisticsSettings(**{"fields": (3,), "first_field": 4} | settings)  # type: ignore[arg-type]
