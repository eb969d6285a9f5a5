"""The phase of a run at a moment on the buses."""

from __future__ import annotations

from bitlane_sim.rtl.harness import Moment
from bitlane_verify.coverage.watched_device import RunPhases


def test_phases() -> None:
    run = RunPhases(Moment(None, 100, 10), load_beats=32, trace=0x2000, write_bursts=3)
    assert run.phase(Moment(None, 131, 10)) == "loading"
    assert run.phase(Moment(None, 132, 10)) == "training"
    assert run.phase(Moment(0x1FF0, 200, 10)) == "storing"
    assert run.phase(Moment(0x2000, 200, 12)) == "record"
    assert run.phase(Moment(None, 200, 13)) == "draining"
