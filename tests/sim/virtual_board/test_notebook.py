"""The notebook, cell by cell, on a simulated board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from tests.helpers.places import ROOT

from bitlane_sim.virtual_board.board import SimulatedBoard

pytestmark = pytest.mark.pynq

NOTEBOOK = ROOT / "examples" / "pynq.ipynb"


def test_the_notebook(
    board: SimulatedBoard, bit: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trains and plots: the losses fall, and more bits read more bytes."""
    matplotlib.use("Agg")
    monkeypatch.setattr("bitlane.devices.pynq.board.overlay_for", lambda name: bit)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    runs = names["runs"]
    assert all(run.device.startswith("pynq") and run.loss[-1] < run.loss[0] / 2 for run in runs.values())
    assert [run.launches for run in runs.values()] == [1] * 4
    read = [run.bytes_read for run in runs.values()]
    assert read == sorted(read) and read[-1] > 3 * read[1]
    assert len(names["axes"].lines) == 4
    assert capsys.readouterr().out.count("bytes read") == 4
    assert board.live_buffers == 0
