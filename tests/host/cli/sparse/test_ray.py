"""`bitlane sparse train --engine ray` and `bitlane sparse status`: Ctrl-C, kills, resumption, what is refsome."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.helpers.ray_trainings import TrainingProcess, serving, windows, write_rows

from bitlane.cli.main import main
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.training.checkpoint import load
from bitlane.sparse.training.log import read_log

RAY = ["--engine", "ray", "--servers", "2", "--workers", "2", "--staleness", "1", "--batch-rows", "8"]
ROWS = 6000
EPOCHS = 50  # more than the process will do


@pytest.fixture
def training(here: Path, seed: int) -> Iterator[TrainingProcess]:
    """A training that runs, and has written a window."""
    pytest.importorskip("ray")
    rows = write_rows(here / "rows.ffm", seed, ROWS)
    found = TrainingProcess(rows, *RAY, "--epochs", EPOCHS, "--window-rows", 1000, "--out", here / "run")
    try:
        found.wait_for(lambda: windows(here / "run") > 0 and bool(serving(here / "run")))
        yield found
    finally:
        found.close()


def resumed_model(run: Path, done: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Go on to the end of the epoch that has begun, and hold the rows against that."""
    epochs = done // ROWS + 1
    assert main(["sparse", "train", "--resume", str(run), "--epochs", str(epochs)]) == 0
    assert f"{epochs * ROWS:,} rows learned" in capsys.readouterr().out
    assert SparseModel.load(run / "model").rows_seen == epochs * ROWS


@pytest.mark.slow
def test_status_ctrl_c_and_resumption(
    training: TrainingProcess, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends in a model; each row is learned exactly once."""
    run = here / "run"
    assert main(["sparse", "status", str(run), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["running"] and len(status["servers"]) == 2
    assert all(each["traffic"]["step"]["received"] > 0 for each in status["servers"])
    assert main(["sparse", "status", str(run)]) == 0
    header, _, *lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()  # narrow tables go on below
    assert header.split()[:3] == ["server", "address", "rows"] and len(lines) == 2
    assert lines[1].split()[:2] == ["1", serving(run)["servers"][1]["address"]]

    code, out, err = training.end(signal.SIGINT)
    assert code == 130
    assert err.splitlines()[-1].endswith(f"go on with: bitlane sparse train --resume {run}")
    assert "servers: 2; workers: " in out
    assert training.family() == []
    model = SparseModel.load(run / "model")
    assert model.rows_seen > 0 and f"{model.rows_seen:,} rows learned" in out
    assert main(["sparse", "status", str(run)]) == 0
    assert f"interrupted after {model.rows_seen:,} rows; train --resume goes on;" in capsys.readouterr().out
    assert main(["sparse", "evaluate", str(run), str(here / "rows.ffm"), "--allow-learned"]) == 0
    capsys.readouterr()
    resumed_model(run, model.rows_seen, capsys)


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_process_and_can_be_resumed(
    training: TrainingProcess, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = here / "run"
    assert len(training.family()) > 5
    assert training.end(signal.SIGKILL)[0] == -signal.SIGKILL
    until = time.monotonic() + 30
    while found := training.family():
        assert time.monotonic() < until, found
        time.sleep(0.2)
    assert main(["sparse", "status", str(run), "--json"]) == 0
    assert not json.loads(capsys.readouterr().out)["running"]
    assert main(["sparse", "status", str(run)]) == 0
    assert "the training was killed; train --resume goes on" in capsys.readouterr().out
    logged = windows(run)
    resumed_model(run, 2 * ROWS, capsys)
    assert windows(run) > logged


@pytest.mark.slow
def test_a_folder_is_followed_until_ctrl_c(here: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of segments that come while it runs, and of those that come between two runs, count once."""
    pytest.importorskip("ray")
    draw, folder, run = np.random.default_rng(seed), here / "live", here / "run"
    folder.mkdir()
    for number in range(6):
        write_segment(folder, number, draw)
    first = TrainingProcess(folder, "--target", "click", *RAY, "--follow", "--window-rows", 50, "--out", run)
    second = None
    try:
        first.wait_for(lambda: rows_in_windows(run) > 550)
        for number in range(6, 9):
            write_segment(folder, number, draw)
        first.wait_for(lambda: rows_in_windows(run) > 850)
        assert first.end(signal.SIGINT)[0] == 130
        done = SparseModel.load(run / "model").rows_seen
        for number in range(9, 14):
            write_segment(folder, number, draw)
        second = TrainingProcess("--resume", run)
        second.wait_for(lambda: rows_in_windows(run) > 1350)
        assert second.end(signal.SIGINT)[0] == 130
    finally:
        for each in (first, second):
            if each is not None:
                each.close()
    assert done == 900
    assert SparseModel.load(run / "model").rows_seen == rows_in_windows(run, begun=True) == 1400


def rows_in_windows(run: Path, *, begun: bool = False) -> int:
    """The rows of all windows; with that which has begun, once the training has ended."""
    log = run / "run.jsonl"
    if not log.exists() or b"\n" not in log.read_bytes():  # the training is being started
        return 0
    rows = sum(line["rows"] for line in read_log(run) if line["kind"] == "window")
    return rows + (len(load(sorted(run.glob("checkpoint-*"))[-1]).scores) if begun else 0)


def write_segment(folder: Path, number: int, draw: np.random.Generator) -> None:
    """Write 100 rows as the next segment."""
    columns = {"click": draw.integers(0, 2, 100), "user": draw.integers(0, 20, 100)}
    part = folder / f".{number}"
    pyarrow.parquet.write_table(pyarrow.table(columns), part)
    part.rename(folder / f"{number:03}.parquet")


def refusal(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    """The line with which a command is refsome."""
    assert main(["sparse", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.removeprefix("bitlane: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--servers", "2"], "--servers needs --engine ray"),
        (["--push", "topk"], "--push needs --engine ray"),
        (["--engine", "ray", "--threads", "2"], "--threads 2: a worker uses one thread; use more --workers"),
        (
            ["--engine", "ray", "--statistics", "--publish", "r"],
            "--publish: models with --statistics cannot be published",
        ),
        (["--engine", "ray", "--model", "dnn", "--device", "cuda"], "--device cuda: not supported with --engine ray"),
        (["--engine", "ray", "--push-share", "0.1"], "--push-share needs --push topk"),
        (["--engine", "ray", "--tls-key", "k.pem"], "--tls-key needs a cluster: add --ray-address"),
        (
            ["--engine", "ray", "--ray-address", "127.0.0.1:9"],
            "servers of a cluster can be reached from other machines",
        ),
        (["--engine", "ray", "--pull", "int8", "--staleness", "1"], "--pull int8 needs --staleness 0"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    options: list[str], message: str, clicks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    assert refusal(["train", clicks, "--target", "click", *options, "--out", "run"], capsys).startswith(message)
    assert not Path("run").exists()


def test_without_ray_one_line_says_how_to_install_it(
    clicks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refusal(["train", clicks, "--target", "click", "--engine", "ray"], capsys)
    assert line == "--engine ray needs ray: pip install 'bitlane[ray]'"


def test_the_servers_of_another_training_are_refused(
    clicks: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    trains(clicks, "--target", "click", "--out", "run")
    resumed = refusal(["train", "--resume", "run", "--servers", "2"], capsys)
    assert resumed == "--servers: the training in run has no servers; omit it"
    assert refusal(["status", "run"], capsys).startswith("run has no servers: pass the run folder of a training")
    assert refusal(["train", "--resume", "run", "--workers", "3"], capsys).startswith("--workers: a resumed training")
    assert refusal(["status", "nowhere"], capsys) == "nowhere is neither a run folder nor HOST:PORT"
    assert refusal(["status", "127.0.0.1:9"], capsys).startswith("server 127.0.0.1:9: connection refused")
