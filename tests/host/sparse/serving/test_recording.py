"""The record of requests: a share of them, up to a size, whatever the disk does."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_serving import random_model, random_request

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.serving import recording
from bitlane.sparse.serving.recording import Recorder, read_record


@pytest.fixture
def batch(seed: int):
    return random_request(random_model(seed), seed)


def ones(batch) -> np.ndarray:
    return np.ones(batch.rows, np.float32)


def test_the_share_of_the_requests_is_recorded(tmp_path: Path, batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "WAITING", 10_000)
    path = tmp_path / "r.arrows"
    with Recorder(path, 0.25, seed=1) as recorder:
        for _ in range(2000):
            recorder.add(batch, ones(batch), 3)
    assert abs(recorder.recorded - 500) < 100 and recorder.left_out == 0  # five standard deviations
    assert len(list(read_record(path))) == recorder.recorded


def test_only_its_user_reads_a_record(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Recorder(tmp_path / "r.arrows") as recorder:
            assert recorder.path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_record_that_was_cut_off_is_read_up_to_there(tmp_path: Path, batch) -> None:
    path = tmp_path / "r.arrows"
    with Recorder(path, 1) as recorder:
        for version in range(5):
            recorder.add(batch, ones(batch), version)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 4 // 5])
    assert [version for _, _, version in read_record(path)] in ([0, 1, 2], [0, 1, 2, 3])


def test_the_record_ends_at_its_size(tmp_path: Path, batch) -> None:
    path = tmp_path / "r.arrows"
    with Recorder(path, 1, max_bytes=5000) as recorder:
        for _ in range(30):
            recorder.add(batch, ones(batch), 1)
    assert recorder.problem == f"{path} has 5,000 bytes: nothing more is recorded"
    assert path.stat().st_size < 10_000 and recorder.recorded + recorder.left_out == 30


def test_a_disk_that_is_slow_or_full_holds_nobody_up(tmp_path: Path, batch, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    record = recording._record
    monkeypatch.setattr(recording, "_record", lambda *parts: (go.wait(20), record(*parts))[1])
    recorder = Recorder(tmp_path / "r.arrows", 1)
    for _ in range(recording.WAITING + 10):
        recorder.add(batch, ones(batch), 1)
    assert recorder.left_out in (9, 10)  # the thread has taken one, or not yet

    def full(*parts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "_record", full)
    go.set()
    recorder.close()
    assert recorder.problem == f"{recorder.path} cannot be written: No space left on device"


def test_what_is_no_record_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing cannot be read: No such file"):
        next(read_record(tmp_path / "missing"))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DataError, match=r"text cannot be read: it is not a record of requests"):
        next(read_record(tmp_path / "text"))
    with pytest.raises(BitlaneError, match="cannot be written: No such file"):
        Recorder(tmp_path / "no" / "folder")
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(DataError, match="must be above 0 and at most 1"):
            Recorder(tmp_path / "share", share)
    assert not (tmp_path / "share").exists()
