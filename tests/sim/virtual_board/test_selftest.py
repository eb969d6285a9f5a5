"""The self test that owners of boards run, on a simulated one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane.devices.pynq.board import open_board
from bitlane.selftest import examine, speed
from bitlane_sim.virtual_board.board import SimulatedBoard

pytestmark = pytest.mark.pynq


def test_a_board_passes(board: SimulatedBoard, bit: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)
    report = examine(open_board(bitfile=bit), seed)
    assert len(report.results) > 50
    assert [(result.name, result.problem) for result in report.results if not result.passed] == []
