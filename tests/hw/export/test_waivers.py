"""Verilator's lint of the exported Verilog: silent with the waivers, and none of them is there without need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.helpers.lint import lint
from tests.helpers.run_shapes import small_config

from bitlane_hw.export.core import Core
from bitlane_hw.export.verilog import to_verilog
from bitlane_hw.export.waivers import RULES, waivers

CORE = Core(small_config(), "sgd")


@pytest.mark.slow
def test_lint(tmp_path: Path) -> None:
    (tmp_path / "sgd.v").write_text(to_verilog(CORE.component(), CORE.top))
    (tmp_path / "sgd.vlt").write_text(waivers(CORE))
    assert lint(tmp_path, CORE.top, "sgd.vlt", "sgd.v") == ""
    assert set(re.findall(r"^%Warning-(\w+)", lint(tmp_path, CORE.top, "sgd.v"), re.M)) == set(RULES)


def test_other_files_keep_their_warnings(tmp_path: Path) -> None:
    (tmp_path / "sgd.vlt").write_text(waivers(CORE))
    (tmp_path / "other.v").write_text("module sgd(input a, output [1:0] b);\n  assign b = a;\nendmodule\n")
    assert "%Warning-WIDTHEXPAND: other.v" in lint(tmp_path, CORE.top, "sgd.vlt", "other.v")
