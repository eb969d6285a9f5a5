"""The bar of rows: on a terminal only, with AUC and loss of the last window."""

from __future__ import annotations

import io
import sys

import pytest

from bitlane.cli.sparse.progress import row_progress
from bitlane.sparse.training.windows import Quality, Window

pytest.importorskip("tqdm")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_rows_and_the_last_window(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TQDM_MININTERVAL", "0")
    with row_progress("training", 1000, 200) as bar:
        assert bar is not None
        bar.on_rows(300)
        bar.on_window(Window(0, 500, Quality(300, 0.75, 0.5), 1.0, 300.0, 0.0, 1, 1, 1.0))
        bar.on_rows(500)
    shown = terminal.getvalue()
    assert "AUC=0.7500" in shown
    assert "log loss=0.5000" in shown
    assert "RMSE" not in shown
    assert "/1.00k" in shown


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with row_progress("training", None) as bar:
        assert bar is None
    assert capsys.readouterr().err == ""
