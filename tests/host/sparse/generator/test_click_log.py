"""Click logs: every row against a textbook, the laws they follow, and independence of how they are made."""

from __future__ import annotations

import math
import threading
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from tests.helpers.sparse_click_log_textbook import popularity, row_of

from bitlane.errors import DataError
from bitlane.sparse import Batch, ClickLog, ClickLogSettings, ClickLogSource

pytest.importorskip("numba")

SIGMAS = 6.5  # an event of one in 10^10


def same(a: Batch, b: Batch) -> bool:
    names = ("keys", "fields", "values", "offsets", "labels", "times")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def ids(batch: Batch, field: int) -> np.ndarray:
    return batch.keys[batch.fields == field]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"fields": 3, "keys": 50, "zipf": 0.0, "dim": 1},
        {"fields": 4, "keys": 10**12, "zipf": 1.0, "dim": 6, "churn": 300.0},
        {"fields": 2, "keys": 10**9, "zipf": 0.7, "turn": 1000.0, "dim": 5, "growth": 1.0},
        {"fields": 7, "keys": 10**4, "zipf": 2.5, "churn": 5000.0, "turn": 2000.0, "interactions": 3.0, "linear": 0.5},
        {"fields": 1, "keys": 1, "base_rate": 0.5},
    ],
)
def test_rows_are_those_of_the_textbook(settings: dict[str, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = ClickLog(ClickLogSettings(**settings, seed=int(rng.integers(1 << 63))))
    start, rows = int(rng.integers(10**6)), 100
    batch, probabilities = log.sample(start, rows)
    bias = None
    for r in range(rows):
        keys, logit, _ = row_of(log.settings, 0.0, start + r)
        found = math.log(probabilities[r] / (1 - probabilities[r]))
        bias = found - logit if bias is None else bias
        assert batch.keys[batch.offsets[r] : batch.offsets[r + 1]].tolist() == keys
        assert found == pytest.approx(logit + bias, abs=1e-7)
        assert batch.labels[r] == row_of(log.settings, bias, start + r)[2]
    fields = log.settings.fields
    assert batch.fields.tolist() == list(range(fields)) * rows and np.all(batch.values == 1)
    assert batch.times is not None
    second = log.settings.start_time + (start + np.arange(rows)) // 1000
    assert batch.times.tolist() == second.tolist()


def test_the_first_rows_have_the_base_rate(seed: int) -> None:
    for rate in (0.01, 0.5):
        _, probabilities = ClickLog(ClickLogSettings(base_rate=rate, seed=seed)).sample(0, 65_536)
        assert probabilities.mean() == pytest.approx(rate, rel=1e-6)


def test_pieces_and_threads_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    settings = ClickLogSettings(keys=1000, churn=3.0, turn=1.0, seed=seed)
    rows, first = 20_000, int(rng.integers(10**9))
    log = ClickLog(settings)
    expected = log.batch(first, rows)
    cuts = [0, *np.sort(rng.integers(0, rows, 5)).tolist(), rows]
    pieces = [ClickLog(settings).batch(first + a, b - a) for a, b in pairwise(cuts)]
    assert same(Batch.concatenate(pieces), expected)
    for threads in (1, 3):
        source = ClickLogSource(log, rows, first_row=first, batch_rows=777, threads=threads)
        batches = list(source.batches(0))
        assert [batch.rows for batch in batches] == [777] * 25 + [575]
        assert same(Batch.concatenate(batches), expected)
        start = int(rng.integers(rows))
        rest = list(source.batches(1, start))
        assert same(Batch.concatenate(rest), expected.slice(start, rows))
        assert rest[0].rows == min(777 - start % 777, rows - start), "later batches are those of the whole"
        assert list(source.batches(0, rows)) == []


def test_seeds_differ(seed: int) -> None:
    a, b = (ClickLog(ClickLogSettings(seed=each)).batch(0, 1000) for each in (seed, seed + 1))
    assert len(np.intersect1d(a.keys, b.keys)) == 0


def test_a_source_that_is_left_ends_its_threads(seed: int) -> None:
    source = ClickLogSource(ClickLog(ClickLogSettings(seed=seed)), 10**9, batch_rows=100, threads=2)
    before = set(threading.enumerate())  # other tests may have left some that stay
    batches = source.batches(0)
    next(batches)
    assert any(thread.name.startswith("bitlane-") for thread in set(threading.enumerate()) - before)
    batches.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("bitlane-") for thread in set(threading.enumerate()) - before)


def test_a_thread_s_error_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ClickLogSource(ClickLog(), 1000, batch_rows=100)
    monkeypatch.setattr(source, "log", None)
    with pytest.raises(AttributeError, match="batch"):
        list(source.batches(0))


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.1, 3.0])
def test_popularity_is_zipf_s_law(exponent: float, seed: int) -> None:
    size, rows = 12, 100_000
    log = ClickLog(ClickLogSettings(fields=1, keys=size, zipf=exponent, seed=seed))
    counts = np.sort(np.unique(log.batch(0, rows).keys, return_counts=True)[1])[::-1]
    expected = rows * popularity(size, exponent)
    counts = np.append(counts, np.zeros(size - len(counts)))
    # Sorting moves counts of ranks with the same expectation; it brings none further from the sorted expectations
    # than the largest difference before.
    assert np.all(np.abs(counts - expected) < SIGMAS * np.sqrt(expected.max()) + SIGMAS)
    if exponent >= 1:
        assert np.all(np.abs(counts[:4] - expected[:4]) < SIGMAS * np.sqrt(expected[:4]))


def test_distinct_keys_are_as_many_as_asked(seed: int) -> None:
    settings = ClickLogSettings(fields=3, keys=200_000, zipf=1.1, growth=3.0, seed=seed)
    log, rows = ClickLog(settings), 100_000
    batch = log.batch(0, rows)
    assert sum(settings.sizes) == 200_000 and settings.sizes[2] / settings.sizes[1] == pytest.approx(3, abs=1e-3)
    for field, size in enumerate(settings.sizes):
        seen = -np.expm1(rows * np.log1p(-popularity(size, 1.1)))
        found = len(np.unique(ids(batch, field)))
        assert abs(found - seen.sum()) < SIGMAS * math.sqrt((seen * (1 - seen)).sum())


def test_clicks_have_their_probabilities(seed: int) -> None:
    batch, truth = ClickLog(ClickLogSettings(keys=10_000, seed=seed)).sample(10**6, 200_000)
    spread = math.sqrt((truth * (1 - truth)).sum())
    assert abs(batch.labels.sum() - truth.sum()) < SIGMAS * spread
    order = np.argsort(truth)  # calibrated in each part, too
    for part in np.array_split(order, 10):
        spread = math.sqrt((truth[part] * (1 - truth[part])).sum())
        assert abs(batch.labels[part].sum() - truth[part].sum()) < SIGMAS * spread


def test_no_prediction_beats_the_truth(seed: int) -> None:
    batch, truth = ClickLog(ClickLogSettings(keys=10_000, seed=seed)).sample(0, 100_000)

    def log_loss(p: np.ndarray) -> float:
        return float(-np.where(batch.labels > 0, np.log(p), np.log1p(-p)).mean())

    logits = np.log(truth / (1 - truth))
    noise = np.random.default_rng(seed).normal(0, 0.5, len(truth))
    for other in (logits + noise, 0.7 * logits, 1.4 * logits, logits + 0.3, np.full(len(truth), logits.mean())):
        assert log_loss(truth) < log_loss(1 / (1 + np.exp(-other)))


def test_churn_replaces_keys(seed: int) -> None:
    """With 4 changes in a million rows a key lives for half a million."""
    log = ClickLog(ClickLogSettings(fields=1, keys=2000, zipf=0.0, churn=4.0, seed=seed))
    old = np.unique(log.batch(0, 20_000).keys)
    ages = (0, 100_000, 250_000, 400_000)
    shares = [np.isin(log.batch(age, 20_000).keys, old).mean() for age in ages]
    assert shares[0] == 1 and all(a > b + 0.05 for a, b in pairwise(shares))
    assert not np.isin(log.batch(520_000, 20_000).keys, old).any()


def test_old_keys_fade_and_new_ones_rise_while_the_ranks_stay(seed: int) -> None:
    """One rank: over half its life a key rises from no row to all rows, then falls to none."""
    log = ClickLog(ClickLogSettings(fields=1, keys=1, churn=10.0, seed=seed))
    keys = log.batch(0, 300_000).keys
    found, counts = np.unique(keys, return_counts=True)
    complete = found[counts.argmax()]  # the others began before the first row, or end after the last
    shares = np.array([(part == complete).mean() for part in np.array_split(keys, 60)])  # of 5,000 rows
    peak = int(shares.argmax())
    assert shares[peak] > 0.9
    for k, share in enumerate(shares):
        expected = max(0.0, 1 - abs(k - peak) / 20)  # 100,000 rows are 20 parts
        assert share == pytest.approx(expected, abs=0.1)


def test_weights_turn(seed: int) -> None:
    settings = ClickLogSettings(fields=1, keys=1, interactions=0.0, linear=2.0, turn=math.pi, seed=seed)

    def logit(row: int) -> float:
        p = float(ClickLog(settings).sample(row, 1)[1][0])
        return math.log(p / (1 - p))

    middle = (logit(0) + logit(10**6)) / 2
    assert logit(500_000) + logit(1_500_000) == pytest.approx(2 * middle, abs=1e-9)
    assert logit(2 * 10**6) == pytest.approx(logit(0), abs=1e-9)
    assert logit(500_000) != pytest.approx(logit(0), abs=1e-9)


def test_memory_depends_on_the_batch_only(seed: int) -> None:
    log = ClickLog(ClickLogSettings(keys=10**15, seed=seed))
    log.batch(0, 10)
    tracemalloc.start()
    try:
        for batch in ClickLogSource(log, 40_000, batch_rows=1000).batches(0):
            assert batch.rows == 1000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6  # five batches of 170 KB, and what their making needs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": 0}, "fields=0: it must be an integer from 1 to 1024"),
        ({"keys": 9}, "keys=9: it must be an integer from 10"),
        ({"zipf": -1.0}, "zipf=-1.0: it must be a number from 0 to"),
        ({"base_rate": 1.0}, "base_rate=1.0: it must be a number from"),
        ({"growth": math.nan}, "growth=nan: it must be a finite number"),
        ({"seed": -1}, "seed=-1: it must be an integer from 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ClickLogSettings(**settings)
