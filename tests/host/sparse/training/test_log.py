"""The log of a training: lines that readers see at once, cuts, damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.training.log import FORMAT, KIND, NAME, RunLog, read_log


def begun(folder: Path) -> RunLog:
    log = RunLog(folder)
    log.append(KIND, {"format": FORMAT, "model": "fm"})
    return log


def test_lines_are_readable_while_the_log_grows(tmp_path: Path) -> None:
    log = begun(tmp_path)
    for number in range(3):
        log.append("window", {"auc": np.float64(number), "rmse": None, "log_loss": float("nan")})
        assert len(read_log(tmp_path)) == number + 2
    log.close()
    header, *lines = read_log(tmp_path)
    assert header == {"kind": KIND, "format": FORMAT, "model": "fm"}
    assert lines[2] == {"kind": "window", "auc": 2.0, "rmse": None, "log_loss": None}


def test_a_cut_leaves_what_was_there_before(tmp_path: Path) -> None:
    log = begun(tmp_path)
    size = log.position()
    assert size == (tmp_path / NAME).stat().st_size
    log.append("window", {"auc": 0.5})
    log.cut(size)
    log.append("window", {"auc": 0.75})
    log.close()
    assert [line.get("auc") for line in read_log(tmp_path)] == [None, 0.75]


def test_a_line_without_an_end_is_left_out(tmp_path: Path) -> None:
    begun(tmp_path).close()
    with (tmp_path / NAME).open("a") as file:
        file.write('{"kind": "window", "auc": 0.')
    assert len(read_log(tmp_path)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a run folder of a sparse training"),
        ("", "has no line yet: the training is being started, or was killed at once"),
        ('{"kind": "run", "format": 2}\n', "not the log of a sparse training"),
        (json.dumps({"kind": KIND, "format": 99}) + "\n", "has format 99"),
        (json.dumps({"kind": KIND, "format": FORMAT}) + "\n[1\n{}\n", "damaged in line 2"),
        (json.dumps({"kind": KIND, "format": FORMAT}) + "\n7\n", "damaged in line 2"),
    ],
)
def test_bad_logs(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / NAME).write_text(content)
    with pytest.raises(DataError, match=message):
        read_log(tmp_path)


def test_a_full_disk_is_one_clear_line() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    log = RunLog.__new__(RunLog)
    log.path, log._file = full, full.open("wb")
    with pytest.raises(BitlaneError, match=r"^/dev/full cannot be written: No space left on device$"):
        log.append("window", {})
    log.close()
