"""The self test that owners of boards run, on simulated ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bitlane.devices.pynq import BoardDevice
from bitlane.selftest import examine, speed


def test_a_board_passes(opener: Callable[[], BoardDevice], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)
    report = examine(opener(), seed)
    assert len(report.results) > 50
    assert [(result.name, result.problem) for result in report.results if not result.passed] == []
