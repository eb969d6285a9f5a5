"""Copies of learned rows are found in any file; rows that are equal by chance are no copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")

import pandas as pd

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.parameters.row_sample import FIRST, RowSample
from bitlane.sparse.registry.learned import NewRowsCheck

Draw = Callable[[int], np.ndarray]


def rows_of(numbers: np.ndarray) -> Batch:
    """A row of one key for each number."""
    count = len(numbers)
    values = np.ones(count, np.float32)
    return Batch(
        numbers.astype(np.uint64), np.zeros(count, np.uint16), values, np.arange(count + 1), np.zeros(count, np.float32)
    )


def is_refused(sample: RowSample, batches: list[Batch]) -> bool:
    check = NewRowsCheck({"files": [], "learned": sample.as_json()}, None, "a model")
    try:
        assert sum(batch.rows for batch in check.through(batches)) == sum(batch.rows for batch in batches)
    except DataError:
        return True
    return False


def sample_of(numbers: np.ndarray) -> RowSample:
    sample = RowSample()
    for at in range(0, len(numbers), 50_000):
        sample.add(rows_of(numbers[at : at + 50_000]))
    return sample


def random_draw(rng: np.random.Generator) -> Draw:
    """What draws rows of a table: of few or many distinct ones, evenly or not."""
    size = int(np.exp(rng.uniform(np.log(2), np.log(3e6))))
    shares = rng.dirichlet(np.full(min(size, 20_000), 0.1))
    exponent = float(rng.uniform(1.05, 2.5))
    draws: list[Draw] = [
        lambda rows: rng.integers(0, size, rows),
        lambda rows: rng.zipf(exponent, rows) % size,
        lambda rows: rng.choice(len(shares), rows, p=shares),
        lambda rows: np.where(rng.random(rows) < 0.5, rng.integers(0, 20, rows), rng.integers(0, size, rows)),
    ]
    return draws[rng.integers(len(draws))]


def test_rows_that_are_equal_by_chance_are_not_refused(seed: int) -> None:
    """New rows of the same kind, as many as fifty times fewer or three times more; also if rows come in pairs."""
    rng = np.random.default_rng(seed)
    for number in range(300):
        draw, rows = random_draw(rng), int(np.exp(rng.uniform(np.log(50), np.log(40_000))))
        held_out = 5 + int(rows * rng.choice([0.02, 0.1, 0.3, 1, 3]))
        numbers = draw(rows + held_out)
        if rng.random() < 0.2:  # some rows twice in a row, in a table whose rows are dealt out at random
            numbers = rng.permutation(np.repeat(numbers, rng.integers(1, 3, len(numbers))))
            held_out = int(len(numbers) * held_out / (rows + held_out))
        sample = sample_of(numbers[held_out:])
        assert not is_refused(sample, [rows_of(numbers[:held_out])]), (seed, number, rows, held_out)


def test_rows_of_a_popular_kind_are_not_refused(seed: int) -> None:
    """Held-out rows with fewer new ones than the training had, and rows that came up after it."""
    rng = np.random.default_rng(seed)
    for number in range(60):
        rows = int(rng.integers(2_000, 40_000))
        popular, rare = rng.integers(0, 200, rows), rng.integers(0, 2**40, rows)
        sample = sample_of(np.where(rng.random(rows) < 0.5, popular, rare))
        held_out = np.where(
            rng.random(rows // 5) < rng.uniform(0.5, 0.65), popular[: rows // 5], rare[: rows // 5] + 2**50
        )
        held_out[: rows // 100] = 2**60
        assert not is_refused(sample, [rows_of(held_out)]), (seed, number, rows)


def test_copies_are_refused(seed: int) -> None:
    """Rows of a table that hardly repeats, in any order, some of them twice, with as many new ones among them."""
    rng = np.random.default_rng(seed)
    for number in range(60):
        rows = int(np.exp(rng.uniform(np.log(500), np.log(300_000))))
        learned = rng.integers(0, 2**50, rows)
        if rng.random() < 0.3 and rows < FIRST // 3:
            learned = np.tile(learned, rng.integers(2, 4))
        sample = sample_of(learned)
        copied = rng.choice(learned[:rows], int(rows * rng.choice([0.1, 0.2, 0.5])), replace=bool(rng.random() < 0.3))
        share = float(rng.choice([1.0, 0.7, 0.5]))
        held_out = np.concatenate([copied, rng.integers(2**51, 2**52, int(len(copied) * (1 / share - 1)))])
        if rng.random() < 0.3 and len(held_out) < rows // 2:
            held_out = np.repeat(held_out, 2)
        held_out = rng.permutation(held_out)
        cut = int(rng.integers(0, len(held_out)))
        batches = [rows_of(held_out[:cut]), rows_of(held_out[cut:])]
        assert is_refused(sample, batches), (seed, number, rows, share)


def random_table(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Texts, whole numbers, fractions and times."""
    return pd.DataFrame(
        {
            "label": rng.integers(0, 2, rows),
            "site": rng.choice(["a", "b, c", "ü", "007"], rows),
            "user": rng.integers(0, 10**6, rows),
            "price": np.round(rng.lognormal(3, 1, rows), 2),
            "time": pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 10**6, rows), unit="s"),
        }
    )


def write(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".tsv":
        table.to_csv(path, index=False, sep="\t", float_format="%.4f")
    elif path.suffix == ".jsonl":
        table.assign(time=table["time"].astype(str)).to_json(path, orient="records", lines=True)
    else:
        table.astype({"price": "float32"}).to_parquet(path)
    return path


@pytest.mark.filterwarnings("ignore:.*are not later than the last row")
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_copies_are_refused_from_any_container(suffix: str, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, 4000)
    learned, fresh = table.iloc[:3000], table.iloc[3000:]
    trained = write(learned, tmp_path / f"train{rng.choice(['.csv', '.jsonl', '.parquet'])}")
    schema = Schema(categorical=("site", "user"), numeric=("price",), time="time", scales=(("price", 30.0, 40.0),))
    source = open_source(trained, schema=schema)
    sample = RowSample()
    for batch in source.batches(0):
        sample.add(batch)
    share = float(rng.choice([0.1, 0.5, 1.0]))
    copied = learned.sample(frac=share, random_state=int(rng.integers(2**31)))
    mixed = pd.concat([copied, fresh]).sample(frac=1, random_state=1)
    files = {"copy": mixed, "new": fresh}
    found = {}
    for name, rows in files.items():
        path = write(rows, tmp_path / f"{name}{suffix}")
        found[name] = is_refused(sample, list(open_source(path, schema=source.schema).batches(0)))
    assert found == {"copy": True, "new": False}, (trained, share)


def test_a_few_copies_are_a_warning_and_all_can_be_allowed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    learned, fresh = rng.integers(0, 2**50, 4000), rng.integers(2**51, 2**52, 4000)
    settings = {"files": [], "learned": sample_of(learned).as_json()}
    few = NewRowsCheck(settings, None, "a model")
    with pytest.warns(UserWarning, match=r"^a model: about 0.9% of the held-out rows are rows that it has learned"):
        list(few.through([rows_of(np.concatenate([learned[:36], fresh]))]))
    with pytest.raises(DataError, match=r"about 100.0% of the held-out rows .* \(4,000 of 4,000 in a sample\)"):
        list(NewRowsCheck(settings, None, "a model").through([rows_of(learned)]))
    new = NewRowsCheck(settings, None, "a model")
    list(new.through([rows_of(fresh)]))
    assert new.told[1] == "a sample of its rows agrees"
    alike = NewRowsCheck({"files": [], "learned": sample_of(learned % 7).as_json()}, None, "a model")
    list(alike.through([rows_of(fresh % 7)]))
    assert alike.told[1].startswith("a sample of its rows cannot tell more")


def test_rows_before_the_end_of_the_training_are_told() -> None:
    rows = rows_of(np.arange(100))
    timed = Batch(rows.keys, rows.fields, rows.values, rows.offsets, rows.labels, np.arange(100) * 86_400)
    sample = RowSample()
    sample.add(timed.slice(0, 50))
    check = NewRowsCheck({"files": [], "learned": sample.as_json()}, None, "version 3")
    wanted = (
        "^version 3: 20.0% of the held-out rows are not later than the last row that it has learned, of 1970-02-19 "
    )
    changed = timed.keys[40:90] + np.uint64(1000)
    held_out = Batch(
        changed, rows.fields[:50], rows.values[:50], rows.offsets[:51], rows.labels[:50], timed.times[40:90]
    )
    with pytest.warns(UserWarning, match=wanted):
        list(check.through([held_out]))
    later = NewRowsCheck({"files": [], "learned": sample.as_json()}, None, "version 3")
    list(later.through([held_out.slice(10, 50)]))
    assert not any("not later" in text for text in later.told)
