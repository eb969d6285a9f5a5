"""The waveform in the guide is what a simulation of these sources gives."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT

from bitlane.contract.latencies import update_latency

BATCH = ROOT / "docs" / "_drawings" / "batch.py"


@pytest.mark.slow  # compiles a simulator that writes waves
def test_the_waveform_of_a_batch(tmp_path: Path) -> None:
    space = runpy.run_path(str(BATCH))
    found = space["cycles"](space["simulate"](tmp_path), list(space["SIGNALS"]))
    assert space["svg"](found) == BATCH.with_suffix(".svg").read_text()
    assert np.sum(found[space["DIGITS"]]) == 3 * space["ROWS"] * space["BEATS"]
    _, last, following = space["window"](found)
    assert following - last == update_latency(1) + 1  # one more digit for each feature
