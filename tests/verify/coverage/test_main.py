"""The report of `make cov`: it fails while a bin is empty or a goal is missed."""

from __future__ import annotations

import pytest
from tests.helpers.coverage_samples import points

from bitlane_verify.coverage.__main__ import report_bins, report_code
from bitlane_verify.coverage.code_coverage import CodeCoverage, Exclusion
from bitlane_verify.coverage.covergroup import Covergroup


def test_an_empty_bin_fails(capsys: pytest.CaptureFixture[str]) -> None:
    group = Covergroup()
    group.declare("side", ("low", "high"))
    group.hit("side", "low")
    assert not report_bins(group, "one of two")
    assert "empty: side: high" in capsys.readouterr().out
    group.hit("side", "high")
    assert report_bins(group, "both")


def test_every_build_has_to_reach_the_goals(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_code(CodeCoverage([*points(98, 2), *points(100, 0, "large")], []))
    assert not report_code(CodeCoverage([*points(97, 3), *points(1000, 0, "large")], []))
    out = capsys.readouterr().out
    assert "missed branch: small: a.py: x (a.py:1), if (3 times)" in out
    assert "1097 of 1100  99.73%" in out


def test_an_exclusion_that_matches_nothing_fails(capsys: pytest.CaptureFixture[str]) -> None:
    excluded = Exclusion("last", r"a\.py: x_9[0-9] ", "there is no such lane")
    assert report_code(CodeCoverage(points(90, 10), [excluded]))
    assert not report_code(CodeCoverage(points(80, 0), [excluded]))
    assert "exclusion that matches nothing: last" in capsys.readouterr().out
