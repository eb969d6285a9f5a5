"""The clock of phases, against a clock that the test sets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bitlane import SGDRegressor
from bitlane.support import phases
from bitlane.support.phases import PhaseClock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one number."""
    time = [100.0]
    monkeypatch.setattr(phases, "time", SimpleNamespace(perf_counter=lambda: time[0]))
    return time


def test_inner_phases_are_not_counted_in_outer_ones(now: list[float]) -> None:
    clock = PhaseClock()
    now[0] += 50  # outside of phases
    with clock.during("outer"):
        now[0] += 1
        with clock.during("inner"):
            now[0] += 2
        now[0] += 4
    now[0] += 50
    with clock.during("inner"):
        now[0] += 8
    assert clock.seconds == {"outer": 5.0, "inner": 10.0}


def test_an_error_ends_its_phase(now: list[float]) -> None:
    clock = PhaseClock()
    with clock.during("outer"):
        with pytest.raises(ValueError, match="wrong"), clock.during("inner"):
            now[0] += 2
            raise ValueError("wrong")
        now[0] += 4
    assert clock.seconds == {"outer": 4.0, "inner": 2.0}


def test_a_training_has_four_phases(seed: int) -> None:
    run = SGDRegressor(epochs=2, device="emulator").fit([[1.0], [2.0], [4.0]] * 6, [1.0, 2.0, 4.0] * 6).run_
    assert list(run.phases) == ["prepare", "encode", "copy", "train"] and min(run.phases.values()) > 0
    assert sum(run.phases.values()) == run.seconds
