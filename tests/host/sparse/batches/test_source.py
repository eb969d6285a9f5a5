"""Files of every format: the rows that were written, in order, whatever the threads, and from any row on."""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from tests.helpers.sparse_text import assert_same, lines_of, random_batch, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.sparse.batches.source import FileSource, open_source

pa = pytest.importorskip("pyarrow")
import pyarrow.csv  # noqa: E402
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

ROWS = 700
Writer = Callable[[Path, Batch], None]


def lists_of(batch: Batch) -> Any:
    """The batch as a table of lists."""
    offsets = pa.array(batch.offsets, pa.int32())
    columns = {name: pa.ListArray.from_arrays(offsets, pa.array(getattr(batch, name))) for name in ("keys", "fields")}
    columns["values"] = pa.ListArray.from_arrays(offsets, pa.array(batch.values))
    return pa.table({"label": batch.labels, **columns})


def write_stream(path: Path, batch: Batch) -> None:
    table = lists_of(batch)
    with pa.OSFile(str(path), "wb") as opened, pa.ipc.new_stream(opened, table.schema) as writer:
        writer.write_table(table, max_chunksize=90)


WRITERS: dict[str, Writer] = {
    "a.libffm": lambda path, batch: path.write_bytes(lines_of(batch, "libffm")),  # type: ignore[dict-item]
    "a.libffm.gz": lambda path, batch: path.write_bytes(gzip.compress(lines_of(batch, "libffm"))),  # type: ignore[dict-item]
    "a.ffm.bz2": lambda path, batch: path.write_bytes(bz2.compress(lines_of(batch, "libffm"))),  # type: ignore[dict-item]
    "a.ffm.zst": lambda path, batch: path.write_bytes(  # type: ignore[dict-item]
        pa.compress(lines_of(batch, "libffm"), "zstd", asbytes=True)
    ),
    "a.parquet": lambda path, batch: pyarrow.parquet.write_table(lists_of(batch), path, row_group_size=97),
    "a.arrow": lambda path, batch: pyarrow.feather.write_feather(
        lists_of(batch), str(path), "uncompressed", chunksize=97
    ),
    "a.feather": lambda path, batch: pyarrow.feather.write_feather(lists_of(batch), str(path), chunksize=97),
    "a.ipc": write_stream,
    "a.npz": lambda path, batch: np.savez(
        path, **{name: getattr(batch, name) for name in ("keys", "fields", "values", "offsets", "labels")}
    ),
}


def read(source: FileSource, epoch: int = 0, start: int = 0) -> Batch:
    return Batch.concatenate(list(source.batches(epoch, start)))


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread for thread in threading.enumerate() if thread.name.startswith("bitlane")} <= before


@pytest.mark.parametrize("name", WRITERS)
def test_what_was_written_is_read(name: str, tmp_path: Path, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), ROWS)
    WRITERS[name](tmp_path / name, batch)
    for threads in (1, 4):
        source = open_source(tmp_path / name, threads=threads, block_bytes=1000, batch_rows=64)
        found = list(source.batches(0))
        assert [part.rows for part in found] == [64] * 10 + [60]
        assert_same(Batch.concatenate(found), batch)
        assert source.rows == source.epoch_rows == ROWS
        assert source.wait_seconds > 0


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("shuffle_rows", [0, 150])
def test_an_epoch_is_taken_up_at_any_row(name: str, shuffle_rows: int, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        WRITERS[name](folder / name, random_batch(rng, 300))
    sources = [
        open_source(
            tmp_path,
            threads=threads,
            block_bytes=700,
            batch_rows=64,
            shuffle_rows=shuffle_rows,
            shuffle_files=True,
            seed=seed,
        )
        for threads in (1, 4)
    ]
    whole = read(sources[0], epoch=5)
    ends = np.cumsum([batch.rows for batch in sources[1].batches(5)])
    for start in (0, 1, 64, 299, 300, 301, 600, int(rng.integers(900)), 899):
        found = list(sources[start % 2].batches(5, start))
        assert_same(Batch.concatenate(found), whole.slice(start, 900))
        assert (start + np.cumsum([batch.rows for batch in found])).tolist() == ends[ends > start].tolist()
    assert list(sources[0].batches(5, 900)) == []


def test_shuffling_loses_nothing(tmp_path: Path, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), ROWS)
    WRITERS["a.parquet"](tmp_path / "a.parquet", batch)
    source = open_source(tmp_path, shuffle_rows=200, batch_rows=100, seed=seed)
    epochs = [rows_of(read(source, epoch)) for epoch in (0, 1)]
    assert epochs[0] != epochs[1]
    for rows in epochs:
        for first in range(0, ROWS, 200):
            assert sorted(rows[first : first + 200]) == sorted(rows_of(batch)[first : first + 200])


CELLS = Schema("click", ("user", "item"), ("price",), (("user", "item"),), "at")


def cells(rng: np.random.Generator, rows: int) -> dict[str, list[Any]]:
    return {
        "user": [f"u{rng.integers(20)}" for _ in range(rows)],
        "price": [round(float(rng.normal()), 3) if rng.random() < 0.8 else None for _ in range(rows)],
        "item": rng.integers(0, 10, rows).tolist(),
        "at": rng.integers(0, 2**31, rows).tolist(),
        "click": rng.integers(0, 2, rows).tolist(),
    }


def test_tables_of_cells_are_the_same_in_every_format(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = cells(rng, ROWS)
    table = pa.table(columns)
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    pyarrow.csv.write_csv(table, tmp_path / "a.tsv", pyarrow.csv.WriteOptions(delimiter="\t"))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    pyarrow.feather.write_feather(table, str(tmp_path / "a.feather"), chunksize=100)
    encoded = table.set_column(0, "user", table["user"].dictionary_encode())
    pyarrow.feather.write_feather(encoded, str(tmp_path / "b.feather"), chunksize=100)
    sources = {path.name: open_source(path, schema=CELLS, block_bytes=4000) for path in sorted(tmp_path.iterdir())}
    found = {name: read(source) for name, source in sources.items()}
    first = found["a.csv"]
    for batch in found.values():
        assert_same(batch, first)
    for name, source in sources.items():
        assert_same(read(source, 0, 333), first.slice(333, ROWS))
        assert (source.epoch_rows, name) == (ROWS, name)
    wanted = [xxhash.xxh64_intdigest(f"user={user}".encode()) for user in columns["user"]]
    assert first.keys[first.fields == 0].tolist() == wanted
    assert first.times is not None and first.times.tolist() == columns["at"]
    assert first.labels.tolist() == columns["click"]


def test_the_schema_is_found_in_the_first_table(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pa.table(cells(rng, 20))
    pyarrow.csv.write_csv(table, tmp_path / "b.csv")
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    wanted = Schema("click", ("user", "item"), ("price",), (), "at", (("user", "text"), ("item", "number")))
    for name in ("a.parquet", "b.csv", ""):
        assert open_source(tmp_path / name, label="click", time="at").schema == wanted
    WRITERS["a.parquet"](tmp_path / "c.parquet", random_batch(rng, 5))
    assert open_source(tmp_path / "c.parquet").schema == ListSchema("label", "keys", "fields", "values")
    (tmp_path / "d.libsvm").write_bytes(b"1 1:1\n")
    assert open_source(tmp_path / "d.libsvm").schema is None


def test_csv_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,x,2.5\n0,y,\n")
    source = open_source(tmp_path, column_names=("label", "c", "n"))
    assert source.schema == Schema("label", ("c",), ("n",), types=(("c", "text"),))
    assert [len(features) for _, features in rows_of(read(source))] == [2, 1]
    (tmp_path / "a.csv").write_text("1,x,2.5\n0,y\n")
    with pytest.raises(DataError, match=r"a.csv, row 2: expected 3 columns, got 2"):
        read(source)


def test_csv_takes_text_as_it_is(tmp_path: Path) -> None:
    """Quotes, leading zeros and letters beyond ASCII are part of the value; bytes that are no UTF-8 are refused.

    NA is a missing number.
    """
    text = 'label,zip,name\n1,007,"a ""b"", c"\n0,7,\xe9\n1,NA,\n'
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    found = read(open_source(tmp_path, schema=Schema(categorical=("zip", "name"))))
    values = [b"zip=007", b'name=a "b", c', b"zip=7", "name=\xe9".encode(), b"zip=", b"name="]
    assert found.keys.tolist() == [xxhash.xxh64_intdigest(value) for value in values]
    (tmp_path / "a.csv").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=r"a\.csv is not UTF-8 text \(byte 38\): say what it is, such as --enc"):
        read(open_source(tmp_path, schema=Schema(categorical=("zip", "name"))))


def test_text_with_a_mark_at_its_beginning_and_long_lines(tmp_path: Path) -> None:
    long = "1 " + " ".join(f"{key}:1" for key in range(3000))
    (tmp_path / "a.libsvm").write_bytes(b"\xef\xbb\xbf" + f"0 1:1\n{long}\n0 2:1\n{long}".encode())
    found = read(open_source(tmp_path, block_bytes=100, threads=3))
    assert np.diff(found.offsets).tolist() == [1, 3000, 1, 3000]


@pytest.mark.parametrize("block_bytes", [1, 7, 12, 13, 14, 1000])
def test_the_last_line_may_lack_its_newline(block_bytes: int, tmp_path: Path) -> None:
    (tmp_path / "a.libsvm").write_bytes(b"1 1:1\n0 22:1\n1 3:1")
    assert read(open_source(tmp_path, block_bytes=block_bytes)).keys.tolist() == [1, 22, 3]


def test_files_of_several_formats_follow_each_other(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [random_batch(rng, 100) for _ in WRITERS]
    for number, (name, batch) in enumerate(zip(WRITERS, batches, strict=True)):
        (tmp_path / str(number)).mkdir()
        WRITERS[name](tmp_path / str(number) / name, batch)
    source = open_source(tmp_path, threads=4, batch_rows=77)
    assert source.epoch_rows is None  # of text, until it has been read
    whole = Batch.concatenate(batches)
    assert_same(read(source), whole)
    assert source.epoch_rows == whole.rows
    assert_same(read(source, 1, 450), whole.slice(450, whole.rows))


def test_rows_without_labels(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pyarrow.parquet.write_table(pa.table(cells(rng, 20)).drop(["click"]), tmp_path / "a.parquet")
    found = read(open_source(tmp_path, schema=CELLS, labelled=False))
    assert found.rows == 20 and np.isnan(found.labels).all()
    with pytest.raises(DataError, match=r"a.parquet: there is no label column 'click'"):
        read(open_source(tmp_path, schema=CELLS))


def test_closing_in_the_middle_ends_the_threads(tmp_path: Path, seed: int) -> None:
    WRITERS["a.libffm"](tmp_path / "a.libffm", random_batch(np.random.default_rng(seed), 5000))
    source = open_source(tmp_path, block_bytes=200, batch_rows=10, threads=4, shuffle_rows=100)
    before = set(threading.enumerate())  # other tests may have left some that stay
    for _ in range(3):
        batches = source.batches(0)
        next(batches)
        assert any(thread.name.startswith("bitlane") for thread in set(threading.enumerate()) - before)
        batches.close()
        assert not any(thread.name.startswith("bitlane") for thread in set(threading.enumerate()) - before)


def test_little_is_held(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the caller works, the reader stops after a bounded number of pieces."""
    from bitlane.sparse.batches import pieces

    read_blocks = []
    original = pieces._blocks

    def counted(file: Any, size: int) -> Iterator[bytes]:
        for block in original(file, size):
            read_blocks.append(len(block))
            yield block

    monkeypatch.setattr(pieces, "_blocks", counted)
    (tmp_path / "a.libsvm").write_bytes(b"1 1:1\n" * 400_000)
    source = open_source(tmp_path, block_bytes=600, batch_rows=20_000, threads=2)
    batches = source.batches(0)
    next(batches)
    time.sleep(0.3)
    held = 20_000 * (1 + 2 + 1 + 1) // 100 + 10  # given, waiting, being put, being made; in the threads
    assert len(read_blocks) <= held < 4000
    batches.close()


def test_the_settings_are_those_of_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.libsvm").write_bytes(b"5 1:1\n")
    options = ReadOptions(task="regression", batch_rows=3)
    source = open_source([tmp_path / "a.libsvm"], options, batch_rows=7)
    assert source.options == ReadOptions(task="regression", batch_rows=7)
    assert read(source).labels.tolist() == [5]
    with pytest.raises(TypeError, match=r"colour"):
        open_source(tmp_path, colour="red")


def test_npz_files_are_read_once(tmp_path: Path, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 50)
    WRITERS["a.npz"](tmp_path / "a.npz", batch)
    source = open_source(tmp_path / "a.npz")
    assert source.epoch_rows == 50
    assert_same(read(source), batch)
    (tmp_path / "a.npz").unlink()
    assert_same(read(source, 1), batch)


@pytest.mark.parametrize(("name", "split", "rows"), [("goodbooks", "train", 979_478), ("a9a", "test", 16_281)])
def test_data_sets_of_the_folder(
    name: str, split: str, rows: int, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BITLANE_DATA", str(data_dir))
    source = open_source(name, split=split)
    assert source.epoch_rows == rows
    first = next(source.batches(0))
    assert set(first.labels.tolist()) == {0, 1}


@pytest.mark.parametrize("module", ["numba", "pyarrow"])
def test_a_missing_library_is_named(module: str) -> None:
    """In a new interpreter, where nothing is imported yet."""
    program = f"""
import sys
sys.modules[{module!r}] = None
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.kafka import KafkaStream
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.batches.stream import FolderStream
for opened in (lambda: open_source("x.libsvm"), lambda: FolderStream("x"), lambda: KafkaStream(None, ReadOptions())):
    try:
        opened()
    except BitlaneError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wanted = f"Reading sparse rows needs {module}: pip install 'bitlane[sparse]'"
    assert done.stdout.splitlines() == [wanted] * 3
