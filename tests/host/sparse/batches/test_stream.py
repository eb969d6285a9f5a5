"""A folder that is followed: every row once and in order, over stops, restarts and segments that grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_text import assert_same, random_batch

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import ListSchema
from bitlane.sparse.batches.stream import FolderStream, StreamOffset

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

SCHEMA = ListSchema(fields="fields", values="values")
OPTIONS = ReadOptions(schema=SCHEMA, batch_rows=10)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread for thread in threading.enumerate() if thread.name.startswith("bitlane")} <= before


def write(path: Path, batch: Batch) -> None:
    """Write a segment, in groups of 7 rows, under a hidden name first."""
    offsets = pa.array(batch.offsets, pa.int32())
    lists = {
        name: pa.ListArray.from_arrays(offsets, pa.array(getattr(batch, name))) for name in ("keys", "fields", "values")
    }
    table = pa.table({"label": batch.labels, **lists})
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, hidden, row_group_size=7)
    else:
        pyarrow.feather.write_feather(table, str(hidden), "uncompressed", chunksize=7)
    hidden.rename(path)


def stream(folder: Path, **settings: Any) -> FolderStream:
    return FolderStream(folder, **{"options": OPTIONS, "poll_seconds": 0.02, **settings})


def test_segments_are_read_in_the_order_of_their_names(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_batch(rng, rows) for rows in (25, 3, 20, 0, 11)]
    for number, part in enumerate(parts[:3]):
        write(tmp_path / f"day-{number}" / "clicks.parquet", part)
    followed = stream(tmp_path)
    batches = followed.batches()
    got = list(islice(batches, 6))
    write(tmp_path / "day-3" / "a.arrow", parts[3])  # no rows
    write(tmp_path / "day-3" / "b.arrow", parts[4])
    got += list(islice(batches, 2))
    batches.close()
    assert [batch.rows for batch in got] == [10, 10, 5, 3, 10, 10, 10, 1]
    assert_same(Batch.concatenate(got), Batch.concatenate(parts))
    assert followed.offset == StreamOffset("day-3/b.arrow", 11)
    assert followed.rows == 59 and followed.wait_seconds > 0


@pytest.mark.parametrize("threads", [1, 4])
def test_an_offset_goes_on_at_the_next_row(threads: int, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_batch(rng, rows) for rows in (25, 3, 20)]
    for number, part in enumerate(parts):
        write(tmp_path / f"{number}.parquet", part)
    options = ReadOptions(schema=SCHEMA, batch_rows=10, threads=threads)
    whole = list(islice(stream(tmp_path, options=options).batches(), 6))
    for stop in range(7):
        first = stream(tmp_path, options=options)
        before = list(islice(first.batches(), stop))
        saved = StreamOffset.from_json(first.offset.as_json())
        after = list(islice(stream(tmp_path, options=options, offset=saved).batches(), 6 - stop))
        for found, wanted in zip([*before, *after], whole, strict=True):
            assert_same(found, wanted)
    within = stream(tmp_path, offset=StreamOffset("0.parquet", 13))  # of another size of batches
    rest = list(islice(within.batches(), 5))
    assert [batch.rows for batch in rest] == [7, 5, 3, 10, 10]
    assert_same(Batch.concatenate(rest), Batch.concatenate(whole).slice(13, 48))


def test_rows_behind_the_offset_may_be_skipped(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_batch(rng, rows) for rows in (25, 3, 20)]
    for number, part in enumerate(parts):
        write(tmp_path / f"{number}.parquet", part)
    whole = Batch.concatenate(parts)
    for start in (0, 1, 14, 15, 17, 18, 20, 37):
        skipping = stream(tmp_path, offset=StreamOffset("0.parquet", 10))
        found: list[Batch] = []
        for batch in skipping.batches(0, start):
            found.append(batch)
            if sum(each.rows for each in found) == 38 - start:
                break
        assert_same(Batch.concatenate(found), whole.slice(10 + start, 48))


def test_segments_that_were_removed_are_not_missed(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in (1, 5):
        write(tmp_path / f"{number}.parquet", random_batch(rng, 4))
    found = next(stream(tmp_path, offset=StreamOffset("3.parquet", 100)).batches())
    wanted = next(stream(tmp_path, offset=StreamOffset("4.parquet")).batches())
    assert_same(found, wanted)


def test_an_incomplete_segment_is_waited_for(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_batch(rng, rows) for rows in (5, 6, 7)]
    for number, part in enumerate(parts):
        write(tmp_path / f"{number}.parquet", part)
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:-20])
    got: list[Batch] = []

    def follow() -> None:
        got.extend(islice(stream(tmp_path).batches(), 3))

    reader = threading.Thread(target=follow)
    reader.start()
    time.sleep(0.3)
    (tmp_path / "1.parquet").write_bytes(whole)
    reader.join(30)
    assert_same(Batch.concatenate(got), Batch.concatenate(parts))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1 and no more"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_segment_that_stays_incomplete_is_an_error(content: bytes, suffix: str, tmp_path: Path, seed: int) -> None:
    write(tmp_path / "0.parquet", random_batch(np.random.default_rng(seed), 5))
    (tmp_path / f"1.{suffix}").write_bytes(content)
    batches = stream(tmp_path, incomplete_seconds=0.1).batches()
    assert next(batches).rows == 5
    with pytest.raises(DataError, match=rf"1.{suffix}: .*; it has not grown for 0.1 s: repair or remove it$"):
        next(batches)


def test_other_files_are_left_alone(tmp_path: Path, seed: int) -> None:
    (tmp_path / "_old").mkdir()
    for name in ("_a.parquet", ".b.parquet", "c.csv", "d.txt", "_old/e.parquet"):
        (tmp_path / name).write_bytes(b"junk")
    write(tmp_path / "f.parquet", random_batch(np.random.default_rng(seed), 5))
    assert next(stream(tmp_path).batches()).rows == 5


def test_a_stop_ends_it_while_it_waits(tmp_path: Path) -> None:
    stop = threading.Event()
    followed = stream(tmp_path, poll_seconds=60.0, stop=stop)
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    begin = time.monotonic()
    assert list(followed.batches()) == []
    assert time.monotonic() - begin < 30
    timer.join()


def test_a_stop_ends_it_between_batches(tmp_path: Path, seed: int) -> None:
    write(tmp_path / "0.parquet", random_batch(np.random.default_rng(seed), 50))
    followed = stream(tmp_path)
    got = []
    for batch in followed.batches():
        got.append(batch)
        if len(got) == 2:
            followed.stop()
    assert len(got) == 2
    assert followed.offset == StreamOffset("0.parquet", 20)


def test_the_schema_is_found_in_the_first_segment(tmp_path: Path, seed: int) -> None:
    write(tmp_path / "0.parquet", random_batch(np.random.default_rng(seed), 5))
    followed = stream(tmp_path, options=None)
    assert followed.schema is None
    assert next(followed.batches()).rows == 5
    assert followed.schema == SCHEMA


def test_an_error_in_a_segment_names_the_row(tmp_path: Path, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 30)
    batch.labels[25] = 3
    write(tmp_path / "0.parquet", batch)
    got = []
    with pytest.raises(DataError, match=r"0.parquet, row 26: label 3 is neither 0 nor 1"):
        for each in stream(tmp_path).batches():
            got.append(each.rows)
    assert got == [10, 10]


def test_an_error_arrives_while_the_reader_waits_for_the_next_segment(tmp_path: Path, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 5)
    batch.labels[2] = 3
    write(tmp_path / "0.parquet", batch)
    errors: list[DataError] = []

    def follow() -> None:
        try:
            list(stream(tmp_path, stop=stop).batches())
        except DataError as error:
            errors.append(error)

    stop = threading.Event()
    reader = threading.Thread(target=follow)
    reader.start()
    reader.join(30)
    in_time = not reader.is_alive()
    stop.set()
    reader.join()
    assert in_time
    assert [str(error).rpartition("/")[2][:23] for error in errors] == ["0.parquet, row 3: label"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"options": ReadOptions(shuffle_rows=5)}, r"a stream is not shuffled: set shuffle_rows=0"),
        ({"options": ReadOptions(shuffle_files=True)}, r"a stream is not shuffled"),
        ({"poll_seconds": 0}, r"poll_seconds=0 must be above 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        stream(tmp_path, **settings)


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: no such folder"):
        stream(tmp_path / "nowhere")
