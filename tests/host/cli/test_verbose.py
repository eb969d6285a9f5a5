"""`-v` prints the log of the library; without it, and in a user's program, the library prints nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from bitlane.cli.main import main

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

TRAIN = ["train", "wine", "--device", "emulator", "--epochs", "1", "--levels", "optimal"]
LINES = (
    "bitlane: computing exact levels of 13 features from 178 rows",
    "bitlane: training on emulator: 178 rows, 14 stored features, epochs 0 to 1",
    "bitlane: finished a launch: 1 epochs of 178 rows",
)


@pytest.mark.parametrize("arguments", [["-v", *TRAIN], [*TRAIN, "--verbose"]])
def test_verbose_shows_the_slow_steps(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().err.splitlines()
    assert set(LINES) <= set(shown)


def test_no_log_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("bitlane").level
    assert main(TRAIN) == 0
    assert "bitlane: " not in capsys.readouterr().err
    assert logging.getLogger("bitlane").level == level and not logging.getLogger("bitlane").handlers


def test_a_program_that_uses_the_library_prints_nothing(tmp_path: Path) -> None:
    program = (
        "import numpy as np; from bitlane import SGDRegressor; X = np.random.default_rng(0).normal(size=(50, 3));"
        "SGDRegressor(bits=4, levels='optimal', epochs=1, learning_rate=0.1, device='emulator').fit(X, X @ [1, 2, 3])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_self_test_logs_each_check(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    main(["-v", "selftest", "--device", "emulator", "--seed", "1"])
    assert "bitlane: running check " in capsys.readouterr().err
