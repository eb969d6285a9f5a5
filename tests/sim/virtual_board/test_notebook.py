"""The notebook: delivered by pynq's own program, and run cell by cell on a simulated board."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from pynq._cli import get_notebooks

from bitlane_sim.virtual_board.board import SimulatedBoard

pytestmark = pytest.mark.pynq


@pytest.fixture
def notebook(board: SimulatedBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `pynq get-notebooks bitlane` copies on this board."""
    monkeypatch.setattr(sys, "argv", ["pynq get-notebooks", "bitlane", "--path", str(tmp_path / "notebooks")])
    get_notebooks.main()
    delivered = tmp_path / "notebooks" / "bitlane"
    assert [path.name for path in delivered.iterdir()] == ["training.ipynb"]
    return delivered / "training.ipynb"


def test_the_notebook(
    board: SimulatedBoard,
    bit: Path,
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It trains and plots: the losses fall, and more bits read more bytes."""
    matplotlib.use("Agg")
    monkeypatch.setattr("bitlane.devices.pynq.board.overlay_for", lambda name: bit)
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(notebook), "exec"), names)
    runs = names["runs"]
    assert all(run.device.startswith("pynq") and run.loss[-1] < run.loss[0] / 2 for run in runs.values())
    assert [run.launches for run in runs.values()] == [1] * 4
    read = [run.bytes_read for run in runs.values()]
    assert read == sorted(read) and read[-1] > 3 * read[1]
    assert len(names["axes"].lines) == 4
    assert capsys.readouterr().out.count("bytes read") == 4
    assert board.live_buffers == 0
