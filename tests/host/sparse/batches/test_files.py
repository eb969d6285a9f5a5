"""Paths, folders, globs and URIs to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane.errors import DataError

fs = pytest.importorskip("pyarrow.fs")

from bitlane.sparse.batches.files import find_files  # noqa: E402
from bitlane.sparse.batches.formats import format_of  # noqa: E402


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two days of two parts, with what a writer leaves beside them."""
    for day in ("day-1", "day-2"):
        for name in ("part-1.parquet", "part-0.parquet", "_SUCCESS", ".part-9.parquet", "readme.txt", "_old.parquet"):
            path = tmp_path / "logs" / day / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    (tmp_path / "logs" / "_tmp").mkdir()
    (tmp_path / "logs" / "_tmp" / "part-5.parquet").write_bytes(b"x")
    (tmp_path / "logs" / "day-2" / "extra.libsvm.gz").write_bytes(b"x")
    return tmp_path / "logs"


def names(paths: object, root: Path) -> list[str]:
    return [file.name.removeprefix("file://").removeprefix(f"{root}/") for file in find_files(paths)]  # type: ignore[arg-type]


ALL = [
    "day-1/part-0.parquet",
    "day-1/part-1.parquet",
    "day-2/extra.libsvm.gz",
    "day-2/part-0.parquet",
    "day-2/part-1.parquet",
]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ALL),
        ("day-2", ALL[2:]),
        ("day-*/part-*.parquet", [*ALL[:2], *ALL[3:]]),
        ("day-?/part-0.parquet", [ALL[0], ALL[3]]),
        ("day-[12]/part-[!0].parquet", [ALL[1], ALL[4]]),
        ("day-*", ALL),
        ("**/*.parquet", [*ALL[:2], *ALL[3:]]),
        ("**", ALL),
        ("**/day-2/part-*", ALL[3:]),
        ("*/_old.parquet", ["day-1/_old.parquet", "day-2/_old.parquet"]),
        ("day-1/_old.parquet", ["day-1/_old.parquet"]),
    ],
)
def test_folders_and_globs(tree: Path, pattern: str, found: list[str]) -> None:
    assert names(tree / pattern, tree) == found
    if "?" not in pattern:  # it begins the options of a URI
        assert names(f"file://{tree}/{pattern}", tree) == found


def test_paths_keep_their_order(tree: Path) -> None:
    given = [tree / "day-2" / "part-1.parquet", tree / "day-1", str(tree / "day-2" / "part-0.parquet")]
    assert names(given, tree) == [ALL[4], *ALL[:2], ALL[3]]


def test_relative_paths_and_home(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    monkeypatch.setenv("HOME", str(tree))
    assert names("day-1/part-*.parquet", tree) == names("~/day-1/part-*.parquet", tree) == ALL[:2]


def test_a_name_with_wild_cards_is_a_name_first(tmp_path: Path) -> None:
    for name in ("a[1].csv", "a1.csv"):
        (tmp_path / name).write_bytes(b"x")
    assert names(tmp_path / "a[1].csv", tmp_path) == ["a[1].csv"]


def test_other_file_systems(tree: Path) -> None:
    system = fs.SubTreeFileSystem(str(tree), fs.LocalFileSystem())
    assert [file.path for file in find_files("day-1/*.parquet", system)] == ALL[:2]
    assert [file.path for file in find_files("day-1", system)] == ALL[:2]
    file = find_files("day-1/part-0.parquet", system)[0]
    with file.open_file() as opened:
        assert opened.read() == b"x"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.libsvm", ("libsvm", None)),
        ("a.SVM", ("libsvm", None)),
        ("a.b.svmlight", ("libsvm", None)),
        ("a.ffm", ("libffm", None)),
        ("a.libffm.bz2", ("libffm", "bz2")),
        ("a.csv.gz", ("csv", "gzip")),
        ("a.tsv.zst", ("tsv", "zstd")),
        ("a.parquet", ("parquet", None)),
        ("a.feather", ("arrow", None)),
        ("a.ipc", ("arrow", None)),
        ("a.npz", ("npz", None)),
        ("a.parquet.gz", (None, "gzip")),
        ("a.gz", (None, "gzip")),
        ("a.txt", (None, None)),
        ("a", (None, None)),
    ],
)
def test_formats_by_suffix(name: str, found: tuple[str | None, str | None]) -> None:
    assert format_of(name) == found


def test_data_sets_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clicks.npz").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    with pytest.raises(DataError, match=r"no file matches 'clicks'; did you mean clicks.npz\?$"):
        find_files("clicks")
    with pytest.raises(DataError, match=r"'avazu'; for the data set, set BITLANE_DATA to a folder with avazu.npz$"):
        find_files("avazu")
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    assert [file.format for file in find_files("clicks")] == ["npz"]
    (tmp_path / "clicks").mkdir()  # a folder of that name comes first
    with pytest.raises(DataError, match=r"no file matches 'clicks'"):
        find_files("clicks")


def test_what_has_no_file_is_refused(tree: Path) -> None:
    with pytest.raises(DataError, match=r"no path was given"):
        find_files([])
    for pattern in ("day-3", "day-3/*.parquet", "day-1/*.csv", "nothing*"):
        near = r"; did you mean day-[12] or day-[12]\?" if pattern == "day-3" else ""
        with pytest.raises(DataError, match=rf"no file matches '.*'{near}$"):
            find_files([tree, tree / pattern])
    with pytest.raises(
        DataError, match=r"no file matches .*: of 1 files, such as readme.txt, none has a known suffix: say"
    ):
        find_files(tree / "day-1" / "*.txt")
    with pytest.raises(DataError, match=r"readme.txt: unknown format: say what it is, --format csv; known suff"):
        find_files(tree / "day-1" / "readme.txt")
    with pytest.raises(DataError, match=r"nosuch://host/x: cannot be reached"):
        find_files("nosuch://host/x")


def test_empty_files(tree: Path) -> None:
    """Alone they are an error; in a folder, a table without a byte is one, and text is no rows."""
    (tree / "day-1" / "empty.csv").touch()
    assert names(tree / "day-1", tree) == ALL[:2]
    with pytest.raises(DataError, match=r"empty.csv: the file is empty"):
        find_files(tree / "day-1" / "empty.csv")
    (tree / "day-1" / "part-3.parquet").touch()
    with pytest.raises(DataError, match=r"part-3.parquet: the file is empty"):
        find_files(tree / "day-1")


@pytest.mark.parametrize(
    ("name", "other", "found"),
    [
        ("part-00000", "csv", ("csv", None)),
        ("a.txt", "tsv", ("tsv", None)),
        ("a.2026.11.27", "json", ("json", None)),
        ("a.txt.gz", "libsvm", ("libsvm", "gzip")),
        ("part-0.zst", "csv", ("csv", "zstd")),
        ("part-0.gz", "parquet", (None, "gzip")),
        ("a.csv", "libsvm", ("csv", None)),
        ("a.csv.gz", "libsvm", ("csv", "gzip")),
        ("a.npz", "csv", ("npz", None)),
    ],
)
def test_a_format_is_for_unknown_suffixes(name: str, other: str, found: tuple[str | None, str | None]) -> None:
    assert format_of(name, other) == found
    assert format_of(name) == (found if name.split(".")[-1] == "npz" or ".csv" in name else (None, found[1]))


@pytest.mark.parametrize("form", ["csv", "tsv", "libsvm", "libffm", "vw", "json", "parquet", "arrow", "npz"])
def test_every_format_by_name(form: str, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import feather, parquet

    from bitlane.sparse.batches.source import open_source

    table = pa.table({"label": [1, 0], "item": [7, 8]})
    texts = {
        "csv": "label,item\n1,7\n0,8\n",
        "tsv": "label\titem\n1\t7\n0\t8\n",
        "libsvm": "1 7:1\n0 8:1\n",
        "libffm": "1 0:7:1\n0 0:8:1\n",
        "vw": "1 | 7\n-1 | 8\n",
        "json": '{"label": 1, "item": 7}\n{"label": 0, "item": 8}\n',
    }
    path = tmp_path / "part-00000"
    if form in texts:
        path.write_text(texts[form])
    elif form == "npz":
        with path.open("wb") as opened:
            np.savez(opened, keys=np.array([7, 8]), offsets=np.array([0, 1, 2]), labels=np.array([1, 0]))
    else:
        {"parquet": parquet.write_table, "arrow": feather.write_feather}[form](table, path)
    (batch,) = open_source(path, format=form).batches(0)
    assert batch.labels.tolist() == [1, 0] and batch.nnz == 2
    with pytest.raises(DataError, match=r"part-00000: unknown format: say what it is, --format csv; known suffixes"):
        open_source(path)
    with pytest.raises(
        DataError, match=r"^format='xls' is unknown; choose libsvm, libffm, vw, csv, tsv, json, parquet"
    ):
        open_source(path, format="xls")
