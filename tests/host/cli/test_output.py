"""Run folders are written atomically, for any interruption of the command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.cli import compare, train
from bitlane.cli.main import main
from bitlane.training.checkpoint import Checkpoint

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def test_foreign_folders_are_refused_before_training(
    prices: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").touch()
    monkeypatch.setattr(train, "SGDRegressor", None)
    monkeypatch.setattr(compare, "compare", None)
    for command in ("train", "compare"):
        message = fails(command, str(prices), "--target", "price", *QUICK, "--out", "thesis")
        assert "not a bitlane run; choose another folder" in message


@pytest.mark.parametrize("failing", ["savez", "draw", "save"])
def test_a_full_disk_is_a_one_line_error(
    prices: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"savez": (np, "savez"), "draw": (train, "draw"), "save": (Checkpoint, "save")}[failing], full)
    message = fails("train", str(prices), "--target", "price", *QUICK, "--out", "deep/run")
    assert "No space left on device" in message


def test_a_file_size_limit_is_a_one_line_error(prices: Path, here: Path) -> None:
    """The operating system limits the size of files, so the write of the run folder fails."""
    program = (
        "import resource, sys; from bitlane.cli.main import main; import matplotlib.pyplot; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["train", str(prices), "--target", "price", *QUICK, "--out", "run"]
    run = [sys.executable, "-B", "-c", program, *arguments]  # without -B Python cuts its own caches at the limit
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bitlane: error: ")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir()) == ["houses.csv", "prices.csv"]


@pytest.mark.parametrize("command", ["train", "compare"])
def test_an_interrupt_during_plotting_leaves_no_files(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare if command == "compare" else train, "draw", interrupted)
    assert main([command, str(prices), "--target", "price", *QUICK, "--out", "deep/run"]) == 130
    assert capsys.readouterr().out == ""
    assert sorted(os.listdir()) == ["houses.csv", "prices.csv"]


def test_an_interrupt_during_training_keeps_the_run(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes after an epoch of a resumed training; all files stay unchanged and none is added."""
    source = ["train", str(prices), "--device", "emulator"]
    assert main([*source, "--target", "price", "--epochs", "2", "--out", "run"]) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    @contextlib.contextmanager
    def progress(*_: Any) -> Any:
        def advance(epoch: int, _: float) -> None:
            if epoch == 3:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(train, "progress", progress)
    assert main([*source, "--resume", "run", "--epochs", "5", "--out", "run"]) == 130
    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
