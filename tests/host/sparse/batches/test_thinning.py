"""Rows that a training leaves out: the same whatever the threads, shares and pieces; those that stay weigh more."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import FileSource
from bitlane.sparse.batches.stream import FolderStream, StreamOffset
from bitlane.sparse.batches.thinning import Thinning

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
MASK = (1 << 64) - 1


def textbook_word(word: int) -> int:
    """The finalizer of SplitMix64, of Python's integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def textbook_stays(number: int, share: float, seed: int, stream: int = 0) -> bool:
    base = textbook_word(textbook_word(seed ^ 0x6E656761746976) ^ stream)
    return textbook_word((base + number * 0x9E3779B97F4A7C15) & MASK) < int(share * 2**64)


def table_of(seed: int, rows: int, weighted: bool) -> Any:
    """Rows whose key is their number."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.1).astype(int)
    columns = {"label": labels, "row": np.arange(rows)}
    if weighted:
        columns["w"] = rng.integers(0, 3, rows)
    return pa.table(columns)


def learned(batches: list[Batch]) -> dict[int, float]:
    """Weight of each row by its key."""
    found: dict[int, float] = {}
    for batch in batches:
        weights = np.ones(batch.rows) if batch.weights is None else batch.weights
        for key, weight in zip(batch.keys.tolist(), weights.tolist(), strict=True):
            assert key not in found
            found[key] = weight
    return found


def expected(table: Any, keys: list[int], share: float | None, seed: int, fraction: float | None) -> dict[int, float]:
    labels = table["label"].to_pylist()
    weights = table["w"].to_pylist() if "w" in table.column_names else [1] * len(labels)
    rest = np.flatnonzero(~is_held_out(np.arange(len(labels)), fraction)) if fraction else np.arange(len(labels))
    found = {}
    for number, row in enumerate(rest.tolist()):
        weight = float(weights[row])
        if share is not None and labels[row] == 0:
            weight *= float(np.float32(1 / share)) if textbook_stays(number, share, seed) else 0.0
        if weight:
            found[keys[row]] = weight
    return found


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_any_way_to_read_learns_the_rows_of_the_textbook(form: str, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = table_of(seed, int(rng.integers(50, 3000)), bool(rng.random() < 0.5))
    share, chosen = (float(rng.uniform(0.05, 0.9)), int(rng.integers(1000))) if rng.random() < 0.8 else (None, 0)
    weight = "w" if "w" in table.column_names else None
    cut = int(rng.integers(1, table.num_rows))
    for name, part in (("a", table.slice(0, cut)), ("b", table.slice(cut))):
        path = str(tmp_path / f"{name}.{form}")
        csv.write_csv(part, path) if form == "csv" else pq.write_table(
            part, path, row_group_size=int(rng.integers(9, 999))
        )
    every = Batch.concatenate(list(FileSource(tmp_path, ReadOptions(weight=weight)).batches(0)))
    fraction = float(rng.uniform(0.1, 0.5)) if rng.random() < 0.5 else None
    want = expected(table, every.keys.tolist(), share, chosen, fraction)
    for threads, shares, shuffle in ((1, 1, 0), (3, 1, 100), (2, 3, 0)):
        found: list[Batch] = []
        block_bytes = int(rng.integers(64, 4096))
        for index in range(shares):
            options = ReadOptions(
                weight=weight,
                thinned=True,
                negatives=share,
                seed=chosen,
                test_fraction=fraction,
                threads=threads,
                shuffle_rows=shuffle,
                share=(index, shares),
                batch_rows=int(rng.integers(1, 500)),
                block_bytes=block_bytes,
            )
            source = FileSource(tmp_path, options)
            batches = list(source.batches(0))
            rows = sum(batch.rows for batch in batches)
            start = int(rng.integers(0, rows + 1))
            for epoch, begin in ((1, 0), (0, start)):  # the same rows in any epoch, and after a resumption
                again = list(source.batches(epoch, begin))
                assert sum(batch.rows for batch in again) == rows - begin
            whole, rest = Batch.concatenate(batches) if batches else None, list(source.batches(0, start))
            if rest and whole is not None:
                tail, joined = whole.slice(start, whole.rows), Batch.concatenate(rest)
                assert np.array_equal(joined.keys, tail.keys) and np.array_equal(joined.labels, tail.labels)
            found += batches
            if shares == 1 and share is not None:
                kept, read = source.thinning.counts()
                negatives = np.flatnonzero(np.asarray(table["label"]) == 0)
                held = is_held_out(negatives, fraction) if fraction else np.zeros(len(negatives), bool)
                assert read == np.count_nonzero(~held) and 0 <= kept <= read, "each row once, however often it is read"
        assert learned(found) == want


def test_a_followed_folder_learns_the_same_rows_in_any_cuts(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    share, rows = float(rng.uniform(0.1, 0.9)), int(rng.integers(1, 60))
    options = ReadOptions(weight="w", thinned=True, negatives=share, seed=3, batch_rows=rows)
    wanted = []
    for number in range(3):
        table, name = table_of(seed + number, int(rng.integers(1, 300)), True), f"{number:03}.parquet"
        pq.write_table(table, tmp_path / name)
        labels, weights, stream = table["label"].to_pylist(), table["w"].to_pylist(), zlib.crc32(name.encode())
        stays = [textbook_stays(row, share, 3, stream) for row in range(len(labels))]
        factors = [
            1.0 if label else float(np.float32(1 / share)) * stay for label, stay in zip(labels, stays, strict=True)
        ]
        wanted += [(label, weight * factor) for label, weight, factor in zip(labels, weights, factors, strict=True)]
    wanted = [(label, weight) for label, weight in wanted if weight]
    if not wanted:
        return

    def read(offset: StreamOffset | None, most: int) -> tuple[list[Batch], StreamOffset]:
        """Read from an offset until so many rows have come."""
        stop = threading.Event()
        stream = FolderStream(tmp_path, options, offset=offset, poll_seconds=0.01, stop=stop)
        found: list[Batch] = []
        for batch in stream.batches():
            found.append(batch)
            if sum(batch.rows for batch in found) >= most:
                stop.set()
        return found, stream.offset

    found, _ = read(None, len(wanted))
    whole = Batch.concatenate(found)
    assert list(zip(whole.labels.tolist(), whole.weights.tolist(), strict=True)) == wanted
    assert all(batch.rows <= rows for batch in found)
    first, offset = read(None, int(rng.integers(1, len(wanted) + 1)))
    left = len(wanted) - sum(batch.rows for batch in first)
    rest = read(offset, left)[0] if left else []
    assert [batch.rows for batch in [*first, *rest]] == [batch.rows for batch in found], "cut alike"
    again = Batch.concatenate([*first, *rest])
    assert np.array_equal(again.keys, whole.keys) and np.array_equal(again.weights, whole.weights)


def test_the_share_and_the_sum_are_right_on_average() -> None:
    labels = np.zeros(200_000, np.float32)
    nothing = np.zeros(0)
    batch = Batch(
        nothing.astype(np.uint64),
        nothing.astype(np.uint16),
        nothing.astype(np.float32),
        np.zeros(200_001, np.int64),
        labels,
    )
    for chosen in range(5):
        thin, index = Thinning(0.1, chosen)(batch, 0)
        assert abs(thin.rows - 20_000) < 6 * np.sqrt(200_000 * 0.09)
        assert thin.total_weight == thin.rows * 10
        assert abs(np.mean(is_held_out(index, 0.1)) - 0.1) < 0.015, "independent of the rows that are held out"


def test_rows_that_are_all_left_out_are_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": [0, 1], "x": ["a", "b"], "w": [0, 0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: there are no rows to learn: all weights are 0"):
        list(FileSource(tmp_path, ReadOptions(weight="w", thinned=True)).batches(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"negatives": 1.0}, r"negatives=1: the share of the rows with label 0 that is kept is between 0 and 1"),
        ({"negatives": 0.1, "task": "regression"}, r"negatives=0.1: a regression has no negatives; omit it"),
        (
            {"negatives": 0.1, "shuffle_files": True},
            r"negatives are chosen by the rows' numbers: set shuffle_files=False",
        ),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ReadOptions(**settings)
