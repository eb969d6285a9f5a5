"""Click logs in folders: what is in the files, and that nothing incomplete is ever seen under a final name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse import Batch, ClickLog, ClickLogSettings, open_source, write_click_log
from bitlane.sparse.generator import write
from bitlane.sparse.generator.ceiling import CeilingCounter

pytest.importorskip("numba")
pa = pytest.importorskip("pyarrow")
csv, ipc, parquet = (pytest.importorskip(f"pyarrow.{name}") for name in ("csv", "ipc", "parquet"))

SETTINGS = ClickLogSettings(fields=3, keys=500, seed=1)


def read(path: Path) -> Any:
    if path.suffix == ".arrow":
        return ipc.open_file(str(path)).read_all()
    if path.suffix == ".csv":
        types = {"label": pa.int8(), "time": pa.int64()} | {f"f{f}": pa.int64() for f in range(3)}
        return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))
    return parquet.read_table(path)


@pytest.mark.parametrize(("format", "suffix"), [("parquet", ".parquet"), ("arrow", ".arrow"), ("csv", ".csv")])
def test_columns_hold_the_log(format: str, suffix: str, tmp_path: Path, seed: int) -> None:
    log = ClickLog(ClickLogSettings(fields=3, keys=500, seed=seed))
    write_click_log(log, tmp_path / "log", 1000, segment_rows=300, format=format)
    files = sorted((tmp_path / "log").glob("clicks-*"))
    assert [file.name for file in files] == [f"clicks-0000000{k}{suffix}" for k in range(4)]
    tables = [read(file) for file in files]
    assert [table.num_rows for table in tables] == [300, 300, 300, 100]
    table, batch = pa.concat_tables(tables), log.batch(0, 1000)
    assert table.column_names == ["label", "time", "f0", "f1", "f2"]
    assert table["label"].to_pylist() == batch.labels.tolist()
    assert batch.times is not None and table["time"].to_pylist() == batch.times.tolist()
    for field in range(3):
        assert table[f"f{field}"].to_pylist() == batch.keys[field::3].tolist()


def test_libffm_lines(tmp_path: Path, seed: int) -> None:
    log = ClickLog(ClickLogSettings(fields=3, keys=500, seed=seed))
    write_click_log(log, tmp_path, 50, format="libffm")
    batch = log.batch(0, 50)
    lines = (tmp_path / "clicks-00000000.ffm").read_text().splitlines()
    for row, line in enumerate(lines):
        keys = batch.keys[3 * row : 3 * row + 3]
        features = " ".join(f"{field}:{key}:1" for field, key in enumerate(keys))
        assert line == f"{int(batch.labels[row])} {features}"
    assert len(lines) == 50


@pytest.mark.parametrize("format", ["libffm", "parquet", "csv"])
def test_a_source_reads_the_log(format: str, tmp_path: Path, seed: int) -> None:
    """libffm's keys are those of the log; columns are hashed: other keys, and as many."""
    log = ClickLog(ClickLogSettings(fields=3, keys=500, seed=seed))
    write_click_log(log, tmp_path / "log", 1000, segment_rows=300, format=format)
    options = {} if format == "libffm" else {"time": "time"}
    found, batch = Batch.concatenate(list(open_source(tmp_path / "log", **options).batches(0))), log.batch(0, 1000)
    for name in ("fields", "values", "offsets", "labels"):
        assert np.array_equal(getattr(found, name), getattr(batch, name))
    if format == "libffm":
        assert np.array_equal(found.keys, batch.keys)
    else:
        assert np.array_equal(found.times, batch.times)
        assert (
            len(np.unique(found.keys))
            == len(np.unique(batch.keys))
            == len(set(zip(found.keys, batch.keys, strict=True)))
        )


def test_numbers_of_every_length() -> None:
    from bitlane.sparse.generator.lines import write_lines

    numbers = [0, 9, 10, 99, 100, 2**64 - 1, *(10**k for k in range(20)), *(10**k - 1 for k in range(1, 20))]
    out = np.empty(2000, np.uint8)
    nothing = np.zeros(0, np.uint8)
    labels = np.array(numbers, np.uint64)
    length = write_lines(labels, np.zeros((len(numbers), 0), np.uint64), nothing, np.zeros(1, np.int64), nothing, out)
    assert bytes(out[:length]).decode().split() == [str(number) for number in numbers]


def test_the_manifest_says_what_the_log_is(tmp_path: Path, seed: int) -> None:
    settings = ClickLogSettings(fields=3, keys=500, churn=1.0, seed=seed)
    ceiling = write_click_log(ClickLog(settings), tmp_path, 5000, segment_rows=2000)
    manifest = json.loads((tmp_path / "_manifest.json").read_text())
    log = ClickLog(ClickLogSettings(**manifest["settings"]))
    batch, truth = log.sample(0, 5000)
    assert manifest["format"] == "parquet" and manifest["rows"] == 5000
    assert [(each["first_row"], each["rows"]) for each in manifest["segments"]] == [
        (0, 2000),
        (2000, 2000),
        (4000, 1000),
    ]
    for each in manifest["segments"]:
        assert (tmp_path / each["name"]).stat().st_size == each["bytes"]
    assert manifest["truth"] == vars(ceiling)
    clicked = batch.labels > 0
    loss = -np.where(clicked, np.log(truth), np.log1p(-truth)).mean()
    wins = (truth[clicked][:, None] > truth[~clicked]).mean() + 0.5 * (
        truth[clicked][:, None] == truth[~clicked]
    ).mean()
    assert ceiling.clicks == clicked.sum()
    assert ceiling.log_loss == pytest.approx(loss, rel=1e-9)
    assert ceiling.auc == pytest.approx(wins, abs=1e-3)


def test_threads_write_the_same_files(tmp_path: Path) -> None:
    log = ClickLog(SETTINGS)
    for threads in (1, 3):
        write_click_log(log, tmp_path / str(threads), 1000, segment_rows=100, format="csv", threads=threads)
    one, three = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("1", "3"))
    assert one == three and len(one) == 11


def test_segments_appear_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file under its final name is complete, the manifest comes last, and a failure leaves no part of a file."""
    log, folder = ClickLog(SETTINGS), tmp_path / "log"
    seen: list[int] = []
    write_click_log(log, folder, 300, segment_rows=100, on_segment=lambda segment: seen.append(segment.first_row))
    assert seen == [0, 100, 200]

    suffix, original = write.find_writer("parquet")
    during: list[list[str]] = []

    def writer(batch: Any, names: Any, path: Path) -> None:
        original(batch, names, path)
        during.append(sorted(file.name for file in path.parent.iterdir() if not file.name.startswith(".")))
        if len(during) == 3:
            raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(write, "find_writer", lambda name: (suffix, writer))
    with pytest.raises(OSError, match="No space left"):
        write_click_log(log, tmp_path / "full", 1000, segment_rows=100)
    names = [f"clicks-0000000{k}.parquet" for k in range(4)]
    assert during[:3] == [names[:0], names[:1], names[:2]]
    left = sorted(file.name for file in (tmp_path / "full").iterdir())
    assert "_manifest.json" not in left and not any(name.startswith(".") for name in left)
    assert left[:2] == names[:2] and names[2] not in left


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(DataError, match="exists and is not an empty folder: use a new name"):
        write_click_log(ClickLog(SETTINGS), tmp_path, 10)
    with pytest.raises(DataError, match="exists and is not an empty folder: use a new name"):
        write_click_log(ClickLog(SETTINGS), tmp_path / "mine", 10)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(DataError, match="format='xml': choose one of 'parquet', 'arrow', 'csv', 'libffm'"):
        write_click_log(ClickLog(SETTINGS), tmp_path / "new", 10, format="xml")
    assert not (tmp_path / "new").exists()


def test_the_ceiling_of_one_class() -> None:
    counter = CeilingCounter()
    assert counter.result().auc is None
    counter.add(np.zeros(3, np.float32), np.array([0.25, 0.5, 0.75]))
    ceiling = counter.result()
    assert (ceiling.rows, ceiling.clicks, ceiling.auc) == (3, 0, None)
    assert ceiling.log_loss == pytest.approx(-(math.log(0.75) + math.log(0.5) + math.log(0.25)) / 3)


def test_equal_probabilities_count_half() -> None:
    counter = CeilingCounter()
    for labels, probability in (((0, 1, 1), 0.5), ((0, 1), 0.9)):
        counter.add(np.array(labels, np.float32), np.full(len(labels), probability))
    # Two clicks at 0.5: a tie with 0.5, lost to 0.9. One at 0.9: won against 0.5, a tie with 0.9.
    assert counter.result().auc == pytest.approx((2 * 0.5 + 2 * 0 + 1 + 0.5) / 6)
