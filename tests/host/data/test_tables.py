"""Data sets from files: the supported formats, and a one-line error with the reason for every bad input."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.data.tables import Dataset, read_dataset
from bitlane.errors import BitlaneError, DataError

pytest.importorskip("pandas")
pytest.importorskip("sklearn")


def refused(path: Path, target: str | None = None, impute: bool = False) -> str:
    with pytest.raises(DataError) as caught:
        read_dataset(path, target, impute=impute)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


# --- supported formats ---------------------------------------------------------------------------
def test_csv(write: Callable[[str, str], Path]) -> None:
    table = read_dataset(write("t.csv", "a,price,b\n1,10,0.5\n2,20,-1e3\n"), "price")
    assert table.feature_names == ("a", "b")
    assert table.target == "price"
    assert table.X.dtype == np.float64
    assert table.X.tolist() == [[1.0, 0.5], [2.0, -1000.0]]
    assert table.y.tolist() == [10.0, 20.0]


def test_csv_of_words_tabs_and_gzip(tmp_path: Path, write: Callable[[str, str], Path]) -> None:
    assert read_dataset(write("t.csv", "a,kind\n1,cat\n2,dog\n"), "kind").y.tolist() == ["cat", "dog"]
    assert read_dataset(write("t.tsv", "a\tb\n1\t2\n3\t4\n"), "b").y.tolist() == [2.0, 4.0]
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert read_dataset(packed, "a").X.tolist() == [[2.0], [4.0]]


def test_truth_values_are_numbers(write: Callable[[str, str], Path]) -> None:
    table = read_dataset(write("t.csv", "a,b\nTrue,1\nFalse,2\n"), "b")
    assert table.X.tolist() == [[1.0], [0.0]]


def test_libsvm(write: Callable[[str, str], Path]) -> None:
    table = read_dataset(write("t.libsvm", "1 1:0.5 3:2\n-1 2:1\n"))
    assert table.X.tolist() == [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]
    assert table.y.tolist() == [1.0, -1.0]


def test_npz_of_images_keeps_the_test_part(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (6, 4, 5), np.uint8)
    np.savez(tmp_path / "t.npz", X_train=images[:4], y_train=np.arange(4), X_test=images[4:], y_test=np.arange(2))
    table = read_dataset(tmp_path / "t.npz")
    assert np.array_equal(table.X, images[:4].reshape(4, 20).astype(float))
    assert table.held_out is not None
    assert np.array_equal(table.held_out[0], images[4:].reshape(2, 20))
    assert table.held_out[1].tolist() == [0.0, 1.0]


def test_npz_x_and_y(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.array([["a"], ["b"], ["a"]]))
    table = read_dataset(tmp_path / "t.npz")
    assert table.y.tolist() == ["a", "b", "a"]
    assert table.held_out is None


@pytest.mark.parametrize(("target", "labels"), [("0", [1.0, 4.0]), ("-1", [3.0, 6.0])])
def test_npy(tmp_path: Path, target: str, labels: list[float]) -> None:
    np.save(tmp_path / "t.npy", np.array([[1, 2, 3], [4, 5, 6]]))
    table = read_dataset(tmp_path / "t.npy", target)
    assert table.y.tolist() == labels
    assert table.features == 2


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pandas

    pandas.DataFrame({"a": [1, 2], "b": [1.5, 2.5]}).to_parquet(tmp_path / "t.parquet")
    table = read_dataset(tmp_path / "t.parquet", "b")
    assert table.X.tolist() == [[1.0], [2.0]]
    assert table.y.tolist() == [1.5, 2.5]
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    assert "bad.parquet is not a parquet file" in refused(tmp_path / "bad.parquet", "b")


def test_impute_uses_the_mean_of_the_training_column(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    table = read_dataset(write("t.csv", "a,b,y\n1,,1\n,4,2\n3,inf,3\n"), "y", impute=True)
    assert table.X.tolist() == [[1.0, 4.0], [2.0, 4.0], [3.0, 4.0]]
    nan = np.nan
    np.savez(tmp_path / "t.npz", X_train=[[1.0], [3.0]], y_train=[0, 1], X_test=[[nan]], y_test=[0])
    held_out = read_dataset(tmp_path / "t.npz", impute=True).held_out
    assert held_out is not None
    assert held_out[0].tolist() == [[2.0]]


# --- refused files -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "target", "parts"),
    [
        ("price,b\n1,2\n3,4\n", "pric", ["no column 'pric'", "did you mean price?"]),
        ("a,b\n1,2\n3,4\n", "zzz", ["no column 'zzz'", "it has a, b"]),
        ("a,b\n1,2\n3,4\n", None, ["needs a target column, named with --target", "it has a, b"]),
        ("a,b\n1,2\nx7,4\n5,6\n", "b", ["column 'a'", "'x7'", "row 2", "drop it"]),
        ("a,b\n1,2\n3,oops\n5,6\n", "b", ["column 'b'", "'oops'", "row 2"]),
        ("a,b\n1,2\n,4\n5,6\n", "b", ["column 'a'", "NaN", "row 2", "--impute"]),
        ("a,b\n1,2\n3,4\n-inf,6\n,7\n", "b", ["column 'a'", "-inf", "row 3", "2 such values", "--impute"]),
        ("a,b\n1,2\n3,\n5,6\n", "b", ["target 'b'", "no value in row 2"]),
        ("a,b\n1,2\n3,inf\n5,6\n", "b", ["the label of row 2 is inf"]),
        ("", "b", ["is empty"]),
        ("\n\n", "b", ["is empty"]),
        ("a,b\n", "b", ["is empty", "no row"]),
        ("a,b\n1,2\n", "b", ["one row", "at least two"]),
        ("b\n1\n2\n", "b", ["no column except the target"]),
        ("a,b\n1,2\n1,2,3\n", "b", ["not a regular table", "line 3"]),
    ],
)
def test_bad_csv(write: Callable[[str, str], Path], text: str, target: str | None, parts: list[str]) -> None:
    message = refused(write("t.csv", text), target)
    for part in parts:
        assert part in message


def test_csv_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe,2\n")
    assert "not UTF-8 text" in refused(tmp_path / "t.csv", "b")


def test_a_column_without_any_value_cannot_be_imputed(write: Callable[[str, str], Path]) -> None:
    assert "column 'a' has no values" in refused(write("t.csv", "a,b\n,1\n,2\n"), "b", impute=True)


def test_a_missing_file_suggests_similar_names(write: Callable[[str, str], Path], tmp_path: Path) -> None:
    write("houses.csv", "a,b\n")
    message = refused(tmp_path / "house.csv", "b")
    assert "no file" in message
    assert "did you mean houses.csv?" in message
    assert "is a folder" in refused(tmp_path)


def test_unknown_suffix(write: Callable[[str, str], Path]) -> None:
    assert "the suffix .xlsx; choose one of .csv" in refused(write("t.xlsx", "x"))
    assert "no suffix" in refused(write("table", "x"))


@pytest.mark.parametrize("name", ["t.npz", "t.npy", "t.libsvm"])
def test_damaged_files(write: Callable[[str, str], Path], name: str) -> None:
    assert f"{name} is not" in refused(write(name, "this is no such file"), "0" if name == "t.npy" else None)


def test_truncated_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(30), y=np.arange(30))
    data = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "t.npz").write_bytes(data[: len(data) // 2])
    assert "t.npz is not an npz file" in refused(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"A": np.eye(2)}, "holds A; it needs X and y"),
        ({"X": np.eye(2), "y": np.zeros(3)}, "2 rows and 3 labels"),
        ({"X": np.zeros((1, 2)), "y": np.zeros(1)}, "one row"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "is empty"),
        ({"X": np.zeros((3, 0)), "y": np.zeros(3)}, "no features"),
        ({"X": np.zeros(3), "y": np.zeros(3)}, "one row per sample"),
        ({"X": np.array([["a"], ["b"]]), "y": np.zeros(2)}, "it needs numbers"),
        ({"X": np.eye(2), "y": np.eye(2)}, "one label per row"),
        ({"X": np.eye(2), "y": np.array([0.0, np.nan])}, "label of row 2 is nan"),
        ({"X": np.array([[np.nan], [1.0]]), "y": np.zeros(2)}, "column 'x0'"),
        ({"X": np.eye(2), "y": np.zeros(2), "X_test": np.eye(3), "y_test": np.zeros(3)}, "3 features"),
        (
            {"X": np.eye(2), "y": np.zeros(2), "X_test": np.eye(2), "y_test": np.zeros(3)},
            "3 labels in y_test",
        ),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, np.ndarray], part: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    assert part in refused(tmp_path / "t.npz")


def test_objects_in_npz_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.array([{}, {}], dtype=object), y=np.zeros(2))
    assert "not an npz file of numbers" in refused(tmp_path / "t.npz")


@pytest.mark.parametrize("target", ["2", "-3", "x"])
def test_bad_npy_target(tmp_path: Path, target: str) -> None:
    np.save(tmp_path / "t.npy", np.eye(2))
    assert f"no column {target!r}" in refused(tmp_path / "t.npy", target)
    assert "needs a target" in refused(tmp_path / "t.npy")


def test_a_target_for_a_format_that_fixes_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.zeros(2))
    assert "omit the target" in refused(tmp_path / "t.npz", "price")
    assert isinstance(read_dataset(tmp_path / "t.npz", "y"), Dataset)


def test_a_missing_library_names_the_extra(write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BitlaneError, match=r"needs pandas: pip install 'bitlane\[cli\]'"):
        read_dataset(write("t.csv", "a,b\n1,2\n3,4\n"), "b")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BitlaneError, match="needs pyarrow: pip install pyarrow"):
        read_dataset(write("t.parquet", "x"), "b")
