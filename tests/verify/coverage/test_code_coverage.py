"""Lines, branches and toggles: what was not reached is reported, in each build, and every exclusion is of use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.copies import BASE, copied
from tests.helpers.coverage_samples import BRANCH, MUX, VERILOG, YOSYS, line_of, points
from tests.helpers.mischief import Mischief
from tests.helpers.places import HELPERS

from bitlane.contract.cycles import MemoryTiming
from bitlane.errors import DeviceError
from bitlane_sim.rtl.build import build_verilog
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.harness import Harness
from bitlane_verify.coverage.code_coverage import (
    CodeCoverage,
    CodePoint,
    Counts,
    Exclusion,
    code_points,
    read_counts,
    read_exclusions,
)
from bitlane_verify.coverage.verilog_source import VerilogSource


def test_points_are_named_by_lines_of_python() -> None:
    counts = Counts(
        {
            ("branch", line_of(BRANCH), 5, "if", "top"): 0,
            ("branch", line_of(MUX), 9, "cond_then", "top"): 3,
            ("branch", line_of(YOSYS), 5, "if", "top"): 0,
        }
    )
    assert code_points("small", counts, VerilogSource(VERILOG)) == [
        CodePoint("small", "branch", "gate.py", "gate.py, gate: left (gate.py:12) where gate.py:20, if", 0),
        CodePoint("small", "branch", "gate.py", "gate.py, gate: gate.py:21, cond_then", 3),
    ]


def test_what_one_build_reaches_covers_no_other() -> None:
    coverage = CodeCoverage([*points(10, 0), *points(6, 4, "large")], [])
    assert coverage.builds() == ["small", "large"]
    assert (coverage.fraction("small", "line"), coverage.fraction("large", "line")) == (1, 0.6)
    assert coverage.figures()["a.py", "branch"] == (16, 20)
    assert coverage.missed("branch") == {"large: a.py: x (a.py:1), if": 4}


def test_excluded_points_do_not_count() -> None:
    excluded = Exclusion("last", r"a\.py: x_9[0-9] ", "there is no such lane")
    coverage = CodeCoverage(points(90, 10), [excluded])
    assert coverage.figures()["all", "line"] == (90, 90)
    assert coverage.excluded == {"last": 30}
    assert coverage.unused_exclusions() == []
    assert CodeCoverage(points(80, 0), [excluded]).unused_exclusions() == ["last"]


def test_each_exclusion_has_a_reason(tmp_path: Path) -> None:
    assert all(exclusion.reason for exclusion in read_exclusions())
    file = tmp_path / "exclusions.ini"
    file.write_text("[a blank]\npoints = x\n")
    with pytest.raises(ValueError, match=r"exclusions.ini: exclusion 'a blank' has no reason"):
        read_exclusions(file)


def test_what_verilator_counts_is_read(mischief: Mischief, tmp_path: Path) -> None:
    """Arms that a copy takes are counted once there is a copy; a simulator built without coverage says so."""
    with pytest.raises(DeviceError, match="without coverage"):
        copied(mischief(64), Disturbance()).write_coverage(tmp_path / "none")
    library = build_verilog(HELPERS / "mischief.v", coverage=True)
    idle = Harness(library, np.zeros(4096, np.uint64), BASE, MemoryTiming(), Disturbance())
    counts: list[Counts] = []
    for harness in (idle, copied(library, Disturbance())):
        harness.write_coverage(tmp_path / "coverage.dat")
        counts.append(read_counts(tmp_path / "coverage.dat"))
    assert counts[0].keys() == counts[1].keys()
    for kind in ("line", "branch", "toggle"):
        hit = [sum(1 for key, count in each.items() if key[0] == kind and count) for each in counts]
        assert hit[0] < hit[1], kind
