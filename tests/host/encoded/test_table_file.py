"""Files of encoded tables: the same bytes from every container, resumed, appended, damaged, truncated and newer."""

from __future__ import annotations

import os
import signal
import struct
import zlib
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.host.encoded.test_table import random_table

from bitlane.data.encoded_arrays import encode_table
from bitlane.data.encoding import EncodingOptions, append_file, encode_file
from bitlane.data.pieces import array_source, piece_source
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*beyond their scales:UserWarning")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitlane.encoded.plane_blocks.BLOCK_ROWS", (64, 64))


def _written(path: Path, X: np.ndarray, **options: object) -> EncodedTable:
    encode_file(array_source(X, "X"), path, EncodingOptions(**options))
    return EncodedTable.open(path)


@pytest.mark.usefixtures("small_blocks")
def test_a_file_is_the_table_in_memory(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    for _ in range(4):
        X = random_table(random).astype(np.float64)
        targets, extra = int(random.integers(0, 3)), random.random() < 0.5
        y, groups = random.normal(size=(len(X), targets)), random.integers(-3, 3, len(X))
        table = np.column_stack([X, y, *[groups, np.abs(groups)] * extra])
        n, bits = X.shape[1], 2 * int(random.integers(1, 9))
        named = {"targets": tuple(str(n + j) for j in range(targets))}
        if extra:
            named |= {"group_column": "-2", "weight_column": "-1"}
        found = _written(tmp_path / "t.bits", table, bits=bits, **named)
        same = encode_table(X, bits=bits)
        assert found.fingerprint == EncodedTable.open(tmp_path / "t.bits").fingerprint
        assert (np.asarray(found) == np.asarray(same)).all()
        assert (found.clipped == same.clipped).all()
        for name in ("low", "high", "rows"):
            assert np.array_equal(getattr(found.ranges, name), getattr(same.ranges, name))
        np.testing.assert_allclose(found.ranges.mean, same.ranges.mean, rtol=1e-9, atol=1e-9)
        assert (found.y is None) == (targets == 0)
        assert targets == 0 or (found.y.reshape(len(X), -1) == y).all()
        assert found.targets == tuple(f"x{n + j}" for j in range(targets))
        assert not extra or ((found.groups == groups).all() and (found.weights == np.abs(groups)).all())


def test_every_container_gives_the_same_bytes(seed: int, tmp_path: Path) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    from pyarrow import ipc, parquet

    random = np.random.default_rng(seed)
    rows, n = int(random.integers(2, 3000)), int(random.integers(1, 12))
    X = random.normal(size=(rows, n)).astype(np.float32)
    X[:, 0] = np.rint(X[:, 0] * 3)
    names = [f"x{j}" for j in range(n)]
    frame = pandas.DataFrame(X.astype(np.float64), columns=names)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv.gz", index=False, sep="\t")
    table = pyarrow.table({name: X[:, j] for j, name in enumerate(names)})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=int(random.integers(1, rows + 1)))
    with ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=int(random.integers(1, rows + 1)))
    contents = set()
    for name in ("t.csv", "t.tsv.gz", "t.parquet", "t.arrow"):
        encode_file(piece_source(tmp_path / name), tmp_path / "t.bits", EncodingOptions(), threads=2)
        contents.add((tmp_path / "t.bits").read_bytes())
    assert len(contents) == 1
    np.save(tmp_path / "t.npy", X)
    encode_file(piece_source(tmp_path / "t.npy"), tmp_path / "u.bits", EncodingOptions(), threads=1)
    unnamed, named = EncodedTable.open(tmp_path / "u.bits"), EncodedTable.open(tmp_path / "t.bits")
    assert named.column_names == tuple(names)
    assert unnamed.column_names == ()
    assert unnamed.fingerprint == named.fingerprint
    first = int(random.integers(0, rows))
    for name in ("t.csv", "t.parquet", "t.arrow", "t.npy"):
        rest = np.concatenate([*piece_source(tmp_path / name).blocks(100, first)])
        assert (rest == X[first:]).all()


@pytest.mark.usefixtures("small_blocks")
def test_appended_rows_are_those_of_one_encoding(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    X = np.column_stack([random_table(random, 500), random.normal(size=500)])
    cut = int(random.integers(2, 499))
    first = _written(tmp_path / "a.bits", X[:cut], targets=("0",))
    clipped = append_file(array_source(X[cut:], "X"), tmp_path / "a.bits", EncodingOptions(targets=("0",)))
    both = EncodedTable.open(tmp_path / "a.bits")
    one = _written(tmp_path / "b.bits", X, targets=("0",), like=tmp_path / "a.bits")
    assert (np.asarray(both) == np.asarray(one)).all()
    assert (both.y == one.y).all()
    assert (both.ranges.low == one.ranges.low).all()
    assert (both.ranges.high == one.ranges.high).all()
    np.testing.assert_allclose(both.clipped, one.clipped, atol=1e-12)
    assert clipped == round((both.clipped * 500 - first.clipped * cut).sum())
    outside = X[cut:, 1:] != first.column_codes.center
    constant = outside[:, first.column_codes.scale == 0].sum()
    assert clipped >= constant
    with pytest.raises(DataError, match="append the same columns"):
        append_file(array_source(X, "X"), tmp_path / "a.bits", EncodingOptions())
    size = (tmp_path / "a.bits").stat().st_size
    X[5, 1] = np.nan
    with pytest.raises(DataError, match="column 0 holds nan in row 6"):
        append_file(array_source(X, "X"), tmp_path / "a.bits", EncodingOptions(targets=("0",)))
    assert (tmp_path / "a.bits").stat().st_size == size
    assert EncodedTable.open(tmp_path / "a.bits").fingerprint == both.fingerprint


def _every_byte(path: Path, step: int, start: int) -> None:
    content = path.read_bytes()
    for at in range(start, len(content), step):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        with pytest.raises(DataError, match=r"damaged|no encoded table|has version"):
            np.asarray(EncodedTable.open(path))
    path.write_bytes(content)
    np.asarray(EncodedTable.open(path))


def _small_file(path: Path) -> None:
    X = np.random.default_rng(5).normal(size=(150, 3))
    encode_file(array_source(X, "X"), path, EncodingOptions(targets=("2",), weight_column=None))


@pytest.mark.usefixtures("small_blocks")
def test_changed_bytes_are_found(seed: int, tmp_path: Path) -> None:
    _small_file(tmp_path / "t.bits")
    _every_byte(tmp_path / "t.bits", 41, seed % 41)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_each_changed_byte_is_found(tmp_path: Path) -> None:
    _small_file(tmp_path / "t.bits")
    _every_byte(tmp_path / "t.bits", 1, 0)


def test_truncated_newer_and_other_files(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.bits"
    _small_file(path)
    content = path.read_bytes()
    for size in range(seed % 211, len(content), 211):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"truncated|no encoded table") as error:
            EncodedTable.open(path)
        assert "\n" not in str(error.value)
    newer = content[:8] + struct.pack("<I", 2) + content[12:60]
    path.write_bytes(newer + struct.pack("<I", zlib.crc32(newer)) + content[64:])
    with pytest.raises(DataError, match="has version 2, but this bitlane reads version 1: update bitlane"):
        EncodedTable.open(path)
    with pytest.raises(DataError, match="cannot be read"):
        EncodedTable.open(tmp_path / "none.bits")


def _run_in_fork(source: Path, out: Path, left: int) -> int:
    """Encode in another process, which kills itself after so many calls of `on_rows`; return its status."""

    def work() -> None:
        calls = iter(range(1, left + 1))
        encode_file(
            piece_source(source),
            out,
            EncodingOptions(),
            on_rows=lambda _: next(calls) == left and os.kill(os.getpid(), signal.SIGKILL),
        )

    process = get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("small_blocks")
def test_a_killed_run_is_continued_with_the_bytes_of_one_that_was_not(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    np.save(tmp_path / "t.npy", random.normal(size=(64 * 20 + int(random.integers(64)), 5)))
    source, out, part = tmp_path / "t.npy", tmp_path / "t.bits", tmp_path / "t.bits.part"
    encode_file(piece_source(source), out, EncodingOptions())
    undisturbed = out.read_bytes()
    out.unlink()
    assert _run_in_fork(source, out, int(random.integers(3, 20))) == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["t.bits.part", "t.npy"]
    content = part.read_bytes()
    part.write_bytes(content[: len(content) - int(random.integers(0, 40))])
    with pytest.raises(DataError, match="is not finished"):
        EncodedTable.open(part)
    recovered = encode_file(piece_source(source), out, EncodingOptions())
    assert recovered % 64 == 0
    assert out.read_bytes() == undisturbed
    assert not part.exists()


def test_bad_rows_leave_no_file(tmp_path: Path) -> None:
    X = np.ones((300, 2))
    X[:, 1] = np.arange(300)
    X[200, 1] = np.inf
    for options, message in (
        ({}, "column 1 holds inf in row 201"),
        ({"column_range": (0.0, 300.0)}, "column 1 holds inf in row 201"),
        ({"targets": ("1",)}, "every column of X is constant"),
        ({"targets": ("1",), "column_range": (0.0, 2.0)}, "the target of row 201 is not finite"),
        ({"bits": 5}, "bits=5"),
        ({"targets": ("7",)}, "--target 7: X has no such column"),
        ({"targets": ("1",), "weight_column": "1"}, "a column is named twice"),
        ({"column_range": (1.0, 1.0)}, "the low end must be below"),
        ({"ignored": ("0", "1")}, "X has no columns to encode"),
    ):
        with pytest.raises(DataError, match=message):
            _written(tmp_path / "t.bits", X, **options)
        assert not [*tmp_path.iterdir()]
