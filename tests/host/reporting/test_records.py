"""Run folders: atomic writes, and one-line errors for damaged folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.reporting.records import LINES_NAME, MODEL_NAME, Record, check_folder, read_record, write_record


@pytest.fixture
def record(seed: int) -> Record:
    coef = np.random.default_rng(seed).standard_normal(5)
    lines = [{"kind": "epoch", "epoch": e, "loss": 1.0 / (e + 1), "cycles": 10 * e, "bytes": 8} for e in range(3)]
    header = {"settings": {"bits": 4, "sampling": "double"}, "data": {"name": "t"}}
    return Record("run", header, lines, {"cycles": 30, "loss": np.float64(0.5)}, {"coef": coef})


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_record(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_round_trip(tmp_path: Path, record: Record) -> None:
    write_record(tmp_path / "deep" / "run", record, lambda folder: (folder / "p.png").write_bytes(b"x"))
    read = read_record(tmp_path / "deep" / "run")
    assert (read.kind, read.header, list(read.lines)) == ("run", record.header, list(record.lines))
    assert read.end == {"cycles": 30, "loss": 0.5}
    assert np.array_equal(read.arrays["coef"], record.arrays["coef"])
    names = sorted(path.name for path in (tmp_path / "deep" / "run").iterdir())
    assert names == [MODEL_NAME, "p.png", LINES_NAME]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run"]


def test_numbers_outside_json(tmp_path: Path) -> None:
    values = {
        "inf": np.inf,
        "nan": float("nan"),
        "int": np.int64(3),
        "list": np.array([1.0, np.inf]),
        "path": tmp_path,
    }
    write_record(tmp_path / "run", Record("run", values, [], {}))
    read = read_record(tmp_path / "run").header
    assert read == {"inf": None, "nan": None, "int": 3, "list": [1.0, None], "path": str(tmp_path)}


def test_an_earlier_run_is_replaced(tmp_path: Path, record: Record) -> None:
    write_record(tmp_path / "run", record, lambda folder: (folder / "old.png").touch())
    write_record(tmp_path / "run", Record("comparison", {"title": "new"}, [], {}))
    assert read_record(tmp_path / "run").kind == "comparison"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [LINES_NAME]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_foreign_folders_are_left_alone(tmp_path: Path, record: Record) -> None:
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    check_folder(foreign)  # empty
    (foreign / "chapter.tex").write_text("words")
    for content in (None, "{}", "not json", '["run"]', '{"kind": "other"}'):
        if content is not None:
            (foreign / LINES_NAME).write_text(content)
        with pytest.raises(DataError, match="not a bitlane run; choose another folder"):
            write_record(foreign, record)
    assert (foreign / "chapter.tex").read_text() == "words"
    with pytest.raises(DataError, match="is not a folder"):
        check_folder(foreign / "chapter.tex")
    (tmp_path / "link").symlink_to(foreign, target_is_directory=True)
    with pytest.raises(DataError, match="is not a folder"):
        check_folder(tmp_path / "link")


@pytest.mark.parametrize("earlier", [False, True])
def test_a_full_disk_leaves_no_partial_folder(tmp_path: Path, record: Record, earlier: bool) -> None:
    def full(folder: Path) -> None:
        (folder / "loss.png").write_bytes(b"half a")
        raise OSError(28, "No space left on device")

    if earlier:
        write_record(tmp_path / "a" / "run", record)
    with pytest.raises(OSError, match="No space left"):
        write_record(tmp_path / "a" / "run", Record("comparison", {}, [], {}), full)
    if earlier:
        assert read_record(tmp_path / "a" / "run").kind == "run"
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["run"]
    else:
        assert list(tmp_path.iterdir()) == []


# --- damage --------------------------------------------------------------------------------------
def test_missing_folder(tmp_path: Path) -> None:
    assert "no run folder" in refused(tmp_path / "none")
    assert "it has no run.jsonl" in refused(tmp_path)


def test_every_truncation_is_detected(tmp_path: Path, record: Record) -> None:
    write_record(tmp_path / "run", record)
    path = tmp_path / "run" / LINES_NAME
    data = path.read_bytes()
    for length in range(len(data) - 1):  # the last byte is the newline of the last line
        path.write_bytes(data[:length])
        assert str(tmp_path / "run") in refused(tmp_path / "run")


def test_damaged_line_and_lost_line(tmp_path: Path, record: Record) -> None:
    write_record(tmp_path / "run", record)
    path = tmp_path / "run" / LINES_NAME
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-3], *lines[2:]]))
    assert "damaged in line 2" in refused(tmp_path / "run")
    path.write_text("\n".join([lines[0], *lines[2:]]))
    assert "ends too early, after line" in refused(tmp_path / "run")
    path.write_bytes(b"\xff\xfe")
    assert "cannot be read" in refused(tmp_path / "run")


@pytest.mark.parametrize("version", [1, 3, None, "2"])
def test_other_format_version(tmp_path: Path, record: Record, version: object) -> None:
    write_record(tmp_path / "run", record)
    path = tmp_path / "run" / LINES_NAME
    first, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps({**json.loads(first), "format": version}) + "\n" + rest)
    assert f"has format {version!r}, this bitlane reads 2" in refused(tmp_path / "run")


def test_damaged_model(tmp_path: Path, record: Record) -> None:
    write_record(tmp_path / "run", record)
    path = tmp_path / "run" / MODEL_NAME
    path.write_bytes(path.read_bytes()[:-40])
    assert "model.npz is damaged" in refused(tmp_path / "run")
