"""Files that cannot be used: one line with file and row, from deep in the file, whatever the threads."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.sparse.batches.source import open_source

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

ROWS = 40_000
GOOD = {"libsvm": b"1 3:1 4:0.5\n", "ffm": b"0 1:3:1 2:4:0.5\n", "csv": b"1,u7,2.5\n"}
HEADER = {"libsvm": b"# from the log\n", "ffm": b"", "csv": b"label,user,price\n"}


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def failure(path: Path, threads: int, **settings: Any) -> tuple[str, int]:
    """The error without its folder, and the rows that came before it."""
    settings = {"block_bytes": 50_000, "batch_rows": 1000, **settings}
    rows = 0
    with pytest.raises(DataError) as error:
        for batch in open_source(path, threads=threads, **settings).batches(0):
            rows += batch.rows
    message = str(error.value).replace(f"{path.parent}/", "")
    assert "\n" not in message
    return message, rows


@pytest.mark.parametrize(
    ("suffix", "line", "message"),
    [
        ("libsvm", b"2 3:1", ", line 40002: label 2 is neither 0 nor 1 (nor -1, true, false, yes or no): say which"),
        ("libsvm", b"1 3:one", ", line 40002: value 'one' of feature '3:one' is no finite number"),
        ("libsvm", b"1 -3:1", ", line 40002: key '-3' is negative: keys are whole numbers from 0 to 2^64 - 1"),
        ("libsvm", b"1 18446744073709551616:1", ", line 40002: key 18446744073709551616 is too large"),
        ("libsvm", b"1 3:inf", ", line 40002: value 'inf' of feature '3:inf' is no finite number"),
        ("ffm", b"1 70000:3:1", ", line 40001: field 70000 is above the largest, 65535"),
        ("csv", b"2,u7,2.5", ", row 40001: label 2 is neither 0 nor 1"),
        ("csv", b",u7,2.5", ", row 40001: label column 'label' is empty"),
        ("csv", b"1,u7,dear", ", row 40001: numeric column 'price' has 'dear', which is not a finite number"),
        ("csv", b"1,u7,1e39", ", row 40001: numeric column 'price' is inf, not a finite float32"),
        ("csv", b"1,u7", ", row 40001: expected 3 columns, got 2: 1,u7"),
    ],
)
def test_bad_lines(suffix: str, line: bytes, message: str, threads: int, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(HEADER[suffix] + GOOD[suffix] * ROWS + line + b"\n" + GOOD[suffix] * 100 + line + b"\n")
    found, rows = failure(path, threads)
    assert found.startswith(f"a.{suffix}{message}")
    assert 30_000 < rows <= ROWS


def test_the_largest_field_is_a_setting(threads: int, tmp_path: Path) -> None:
    (tmp_path / "a.ffm").write_bytes(GOOD["ffm"] * ROWS + b"1 8:1:1\n")
    found, _ = failure(tmp_path / "a.ffm", threads, max_fields=8)
    assert found == "a.ffm, line 40001: field 8 is above the largest, 7"


@pytest.mark.parametrize("skip", [0, 12_345, ROWS])
def test_a_resumed_epoch_names_the_same_row(skip: int, tmp_path: Path) -> None:
    for suffix, line, place in (("libsvm", b"x\n", "line 40002"), ("csv", b"x,u,1\n", "row 40001")):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(HEADER[suffix] + GOOD[suffix] * ROWS + line)
        with pytest.raises(DataError, match=rf"a.{suffix}, {place}: label"):
            list(open_source(path, block_bytes=50_000).batches(0, skip))


def tables() -> dict[str, Any]:
    """Rows with a fault at the end."""
    many = np.arange(ROWS)
    good = {"label": many % 2, "user": [f"u{number % 100}" for number in many], "price": many * 0.5}
    faults = {
        "label": {"label": 7, "user": "u", "price": 1.0},
        "price": {"label": 1, "user": "u", "price": float("inf")},
    }
    return {name: pa.table({c: [*good[c], fault[c]] for c in good}) for name, fault in faults.items()}


@pytest.mark.parametrize(
    ("fault", "reason"), [("label", "label 7 is neither"), ("price", "numeric column 'price' is inf")]
)
def test_bad_cells(fault: str, reason: str, threads: int, tmp_path: Path) -> None:
    table = tables()[fault]
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=7000)
    pyarrow.feather.write_feather(table, str(tmp_path / "a.feather"), chunksize=7000)
    for name in ("a.parquet", "a.feather"):
        found, rows = failure(tmp_path / name, threads)
        assert found.startswith(f"{name}, row 40001: {reason}")
        assert 30_000 < rows <= ROWS


@pytest.mark.parametrize("name", ["a.libsvm.gz", "a.libsvm.bz2", "a.libsvm.zst", "a.csv.gz"])
@pytest.mark.parametrize("left", [0.5, 0.999])
def test_truncated_compressed_text(name: str, left: float, threads: int, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    suffix = name.split(".")[1]
    lines = [b"%d %d:1\n" % pair if suffix == "libsvm" else b"%d,u%d,1\n" % pair for pair in _pairs(rng)]
    text = HEADER[suffix] + b"".join(lines)
    packed = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    }[name.rpartition(".")[2]](text)
    (tmp_path / name).write_bytes(packed[: int(len(packed) * left)])
    found, _ = failure(tmp_path / name, threads)
    assert found == f"{name}: cannot be read; it may be damaged or incomplete: Truncated compressed stream"


def _pairs(rng: np.random.Generator) -> list[tuple[int, int]]:
    return list(zip(rng.integers(0, 2, ROWS).tolist(), rng.integers(0, 10**9, ROWS).tolist(), strict=True))


def test_text_that_is_not_compressed(threads: int, tmp_path: Path) -> None:
    (tmp_path / "a.libsvm.gz").write_bytes(GOOD["libsvm"] * 100)
    found, _ = failure(tmp_path / "a.libsvm.gz", threads)
    assert found.startswith("a.libsvm.gz: cannot be read; it may be damaged or incomplete: ")


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow", "a.npz"])
@pytest.mark.parametrize("left", [0.3, 0.99])
def test_truncated_files(name: str, left: float, threads: int, tmp_path: Path) -> None:
    table = tables()["label"].slice(0, ROWS)
    if name == "a.npz":
        np.savez(tmp_path / name, keys=np.arange(9, dtype=np.uint64), offsets=np.arange(10), labels=np.zeros(9))
    elif name == "a.parquet":
        pyarrow.parquet.write_table(table, tmp_path / name)
    else:
        pyarrow.feather.write_feather(table, str(tmp_path / name), "lz4" if name == "a.feather" else "uncompressed")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * left)])
    found, rows = failure(tmp_path / name, threads)
    assert found.startswith(f"{name}: cannot be read; it may be damaged")
    assert rows == 0


def test_an_arrow_file_with_wrong_offsets(threads: int, tmp_path: Path) -> None:
    """They would lead out of the memory: the second batch has them."""
    users = pa.array(["abc"] * 2000)
    good = pa.RecordBatch.from_pydict({"label": pa.array([1] * 2000), "user": users})
    offsets = np.frombuffer(users.buffers()[1], np.int32)[:2001].copy()
    offsets[1000:1500] += 2**30
    wrong = pa.StringArray.from_buffers(2000, pa.py_buffer(offsets.tobytes()), users.buffers()[2])
    bad = pa.RecordBatch.from_pydict({"label": pa.array([1] * 2000), "user": wrong})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as opened, pa.ipc.new_file(opened, good.schema) as writer:
        writer.write_batch(good)
        writer.write_batch(bad)
    found, rows = failure(tmp_path / "a.arrow", threads)
    assert found.startswith("a.arrow: cannot be read; it may be damaged or incomplete: In column 1: Invalid")
    assert rows <= 2000


def test_missing_columns(threads: int, tmp_path: Path) -> None:
    table = tables()["label"].slice(0, ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table, str(tmp_path / "a.feather"))
    (tmp_path / "a.csv").write_bytes(HEADER["csv"] + GOOD["csv"])
    for name in ("a.parquet", "a.feather", "a.csv"):
        found, _ = failure(tmp_path / name, threads, label="lable")
        assert found == f"{name}: there is no label column 'lable'; did you mean 'label'?"
        found, _ = failure(tmp_path / name, threads, schema=Schema(numeric=("prize",)))
        assert found == f"{name}: there is no column 'prize'; did you mean 'price'?"


def test_a_later_file_without_the_columns(threads: int, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(HEADER["csv"] + GOOD["csv"] * 5)
    (tmp_path / "b.csv").write_bytes(b"label,usr,price\n" + GOOD["csv"] * 5)
    found, rows = failure(tmp_path / "*.csv", threads)
    assert found == "b.csv: there is no column 'user'; did you mean 'usr'?"
    assert rows <= 5


def test_files_without_rows(threads: int, tmp_path: Path) -> None:
    for name, text in (("a.libsvm", b"# nothing\n\n"), ("a.csv", b"label,user\n")):
        (tmp_path / name).write_bytes(text)
        found, _ = failure(tmp_path / name, threads)
        assert found == f"{name}: there are no rows"
    (tmp_path / "b.csv").write_bytes(b"\n")
    found, _ = failure(tmp_path / "b.csv", threads)
    assert found == "b.csv: CSV parse error: Empty CSV file or block: cannot infer number of columns"
    (tmp_path / "c.csv").touch()
    found, _ = failure(tmp_path / "c.csv", threads)
    assert found == "c.csv: the file is empty"
    assert list(open_source(tmp_path / "a.libsvm").batches(0, 5)) == []  # beyond the last row


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bitlane.sparse.batches import pieces

    monkeypatch.setattr(pieces, "_LONGEST_LINE", 1 << 20)
    (tmp_path / "a.libsvm").write_bytes(b"\0" * (3 << 20))
    found, _ = failure(tmp_path / "a.libsvm", 2)
    assert found == "a.libsvm: has a line of more than 1 MiB; is it text?"


def test_csv_has_no_lists(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"label,keys\n1,3\n")
    found, _ = failure(tmp_path / "a.csv", 2, schema=ListSchema())
    assert found == "a.csv: CSV has no lists; describe its columns with a Schema"
