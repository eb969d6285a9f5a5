"""Lines of Verilog are named by the lines of Python that they come from."""

from __future__ import annotations

from tests.helpers.coverage_samples import BRANCH, MUX, VERILOG, YOSYS, line_of

from bitlane_verify.coverage.verilog_source import SourceLocation, VerilogSource


def test_locations() -> None:
    source = VerilogSource(VERILOG)
    assert source.location(line_of(BRANCH)) == SourceLocation("gate.py", "gate", "left (gate.py:12) where gate.py:20")
    assert source.location(line_of(MUX)) == SourceLocation("gate.py", "gate", "gate.py:21")
    assert source.file(line_of("left <=")) == "gate.py"


def test_statements_of_yosys_are_told_apart() -> None:
    source = VerilogSource(VERILOG)
    assert [source.is_added_by_yosys(line_of(text)) for text in (BRANCH, MUX, YOSYS)] == [False, False, True]
