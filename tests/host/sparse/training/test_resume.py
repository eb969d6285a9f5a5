"""A training that resumes ends with the same bytes as one that did not stop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_training import RowsSource, RowsStream, TinyModel, files_of, some_rows, without_times

from bitlane.errors import DataError
from bitlane.sparse.training import checkpoint
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
from bitlane.sparse.training.run_folder import RunFolder

ROWS = 330
OPTIONS = SparseTrainingOptions(epochs=2, window_rows=100, checkpoint_rows=60)
SETTINGS = {"model": "tiny"}


class Killed(BaseException):
    """What a test raises in place of a kill."""


def begin(path: Path) -> RunFolder:
    log = path / "run.jsonl"
    begun = log.exists() and log.stat().st_size > 0
    return RunFolder.resume(path) if begun else RunFolder.create(path, SETTINGS)


def train(path: Path, source: RowsSource, options: SparseTrainingOptions = OPTIONS) -> None:
    """Train in a new folder, or resume."""
    with begin(path) as run:
        model = TinyModel.load(run.model) if run.model else TinyModel()
        Trainer(model, source, options, run=run).run()


def assert_same(run: Path, whole: Path) -> None:
    assert files_of(run / "model") == files_of(whole / "model")
    assert without_times(read_log(run)) == without_times(read_log(whole))
    assert {path.name for path in run.iterdir()} >= {"model", "run.jsonl"}
    assert sum(path.name.startswith("checkpoint-") for path in run.iterdir()) == 1


@pytest.mark.parametrize("fall", [0, 70, 210, 280])
def test_a_training_that_fell_resumes_to_the_bit(
    seed: int, fall: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It falls in both epochs, in the middle of windows and behind checkpoints."""
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 35)
    rows = some_rows(seed, ROWS)
    train(tmp_path / "whole", RowsSource(rows, 1000))
    fallen = [False, False]

    class Falling(RowsSource):
        def batches(self, epoch, start=0):
            for batch in super().batches(epoch, start):
                if not fallen[epoch] and start >= 0 and batch.labels[0] >= 0 and self.first >= fall:
                    fallen[epoch] = True
                    raise Killed
                yield batch

    source = Falling(rows, 70)
    source.before = lambda first: setattr(source, "first", first)
    for _ in range(2):
        with pytest.raises(Killed):
            handle = begin(tmp_path / "run")
            handle._made = None  # a kill removes nothing
            try:
                model = TinyModel.load(handle.model) if handle.model else TinyModel()
                Trainer(model, source, OPTIONS, run=handle).run()
            finally:
                handle.log.close()
    train(tmp_path / "run", RowsSource(rows, 50))
    assert fallen == [True, True]
    assert_same(tmp_path / "run", tmp_path / "whole")
    assert sum(line["kind"] == "resumed" for line in read_log(tmp_path / "run")) >= 1


def test_an_interrupted_training_resumes_to_the_bit(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a window: what it measured before is in the checkpoint."""
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 35)
    rows = some_rows(seed, ROWS)
    train(tmp_path / "whole", RowsSource(rows))
    with begin(tmp_path / "run") as run:

        def interrupt(_: int) -> None:
            if run.progress.rows_done == 140:
                os.kill(os.getpid(), signal.SIGINT)

        Trainer(TinyModel(), RowsSource(rows), OPTIONS, run=run, on_rows=interrupt).run()
    assert checkpoint.load(checkpoint.latest(tmp_path / "run")).epoch_rows == 140
    assert len(checkpoint.load(checkpoint.latest(tmp_path / "run")).scores) == 40
    train(tmp_path / "run", RowsSource(rows))
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_more_epochs_are_the_same_as_all_at_once(seed: int, tmp_path: Path) -> None:
    rows = some_rows(seed, ROWS)
    train(tmp_path / "whole", RowsSource(rows))
    for epochs in (1, 2):
        train(tmp_path / "run", RowsSource(rows), SparseTrainingOptions(epochs, window_rows=100))
    assert_same(tmp_path / "run", tmp_path / "whole")
    before = files_of(tmp_path / "run")
    with pytest.raises(DataError, match="the training has already done 2"):
        train(tmp_path / "run", RowsSource(rows))
    assert files_of(tmp_path / "run") == before


def test_a_stop_at_the_end_of_an_epoch_resumes_to_the_bit(seed: int, tmp_path: Path) -> None:
    rows = some_rows(seed, 300)
    train(tmp_path / "whole", RowsSource(rows))
    with RunFolder.create(tmp_path / "run", SETTINGS) as run:
        Trainer(TinyModel(), RowsSource(rows), OPTIONS, run=run, on_window=[lambda w: w.rows_done == 300]).run()
    train(tmp_path / "run", RowsSource(rows))
    assert_same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("stop", [80, 120, 200])
def test_a_stream_goes_on_at_its_offset(seed: int, tmp_path: Path, stop: int) -> None:
    """Batches of a stream are learned as they come, and a checkpoint knows how far it is."""
    rows = some_rows(seed, ROWS)

    def interrupt(first: int) -> None:
        if first == stop:
            os.kill(os.getpid(), signal.SIGINT)

    def follow(name: str, before: Callable[[int], object] | None = None) -> None:
        with begin(tmp_path / name) as run:
            model = TinyModel.load(run.model) if run.model else TinyModel()
            stream = RowsStream(rows, 40, run.progress.offset.get("row", 0), before)
            Trainer(model, stream, SparseTrainingOptions(window_rows=100, checkpoint_rows=50), run=run).run()
            assert set(model.pieces) <= {40, 10}

    follow("whole")
    follow("run", interrupt)
    assert checkpoint.load(checkpoint.latest(tmp_path / "run")).offset == {"row": stop}
    follow("run")
    assert_same(tmp_path / "run", tmp_path / "whole")
    windows = [line["rows"] for line in read_log(tmp_path / "run") if line["kind"] == "window"]
    assert windows == [120, 120, 90]


PROGRAM = """
import sys, time
from pathlib import Path
from tests.helpers.sparse_training import RowsSource, TinyModel, some_rows
from tests.host.sparse.training import test_resume
TinyModel.save_delay = 0.03
print("ready", flush=True)
rows = some_rows(int(sys.argv[2]), test_resume.ROWS)
pause = lambda first: time.sleep(0.03)
test_resume.train(Path(sys.argv[1]), RowsSource(rows, 10, pause))
"""


def test_a_killed_process_resumes_to_the_bit(seed: int, tmp_path: Path) -> None:
    """SIGKILL at random times, also while a checkpoint is written."""
    train(tmp_path / "whole", RowsSource(some_rows(seed, ROWS)))
    run, draw, kills = tmp_path / "run", random.Random(seed), 0
    while True:
        command = [sys.executable, "-c", PROGRAM, str(run), str(seed)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            try:
                assert process.wait(draw.uniform(0.1, 0.7) if kills < 3 else 60) == 0
                break
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
    assert kills >= 1
    assert_same(run, tmp_path / "whole")


def test_two_trainings_cannot_write_to_one_folder(seed: int, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", SETTINGS):
        begun = (tmp_path / "run/run.jsonl").read_bytes()
        with pytest.raises(DataError, match="another training writes"):
            RunFolder.resume(tmp_path / "run")
        assert (tmp_path / "run/run.jsonl").read_bytes() == begun


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "used").mkdir()
    (tmp_path / "used/notes.txt").write_text("")
    for name, message in (("file", "is not a folder"), ("used", "is not empty")):
        with pytest.raises(DataError, match=message):
            RunFolder.create(tmp_path / name, SETTINGS)
    RunFolder.create(tmp_path / "run", SETTINGS).log.close()
    with pytest.raises(DataError, match=r"holds a training: continue it with --resume"):
        RunFolder.create(tmp_path / "run", SETTINGS)
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", SETTINGS).log.close()
