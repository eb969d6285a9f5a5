"""From the output of the synthesis tools to the table of docs/results.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitlane.errors import BitlaneError
from bitlane_hw.export.verilog import TOP
from bitlane_verify.implementation import area_and_timing as synthesis
from bitlane_verify.implementation.area_and_timing import (
    MARKS,
    cells_of,
    frequency,
    main,
    renew,
    table,
)
from bitlane_verify.implementation.yosys import SynthesisFigures, area


def test_area_of_cells() -> None:
    cells = {"LUT1": 1, "LUT6": 20, "INV": 3, "SRL16E": 4, "RAM32M": 2, "RAM64X1D": 5}
    rest = {"FDRE": 70, "FDSE_1": 8, "RAMB36E1": 3, "RAMB18E1": 1, "DSP48E1": 6, "CARRY4": 99, "MUXF7": 9}
    assert area({**cells, **rest}) == SynthesisFigures(lut=1 + 20 + 3 + 4 + 8 + 10, ff=78, bram36=3.5, dsp=6)


def test_cells_of_a_statistic() -> None:
    """Blocks with parameters count as their types."""
    types = {"LUT2": 1, "$paramod$1a2b\\RAMB36E1": 2, "$paramod$3c4d\\RAMB36E1": 3}
    modules = {f"\\{TOP}": {"num_cells_by_type": types}, "\\other": {"num_cells_by_type": {"LUT2": 7}}}
    assert cells_of({"modules": modules}) == {"LUT2": 1, "RAMB36E1": 5}


def test_the_last_frequency_is_used() -> None:
    """The first is an estimate before routing."""
    line = "Info: Max frequency for clock '{}': {} MHz (FAIL at 150.00 MHz)\n"
    assert frequency(line.format("$glbnet$clk", "161.31") + line.format("$glbnet$clk", "154.02")) == 154.02
    with pytest.raises(BitlaneError, match="no maximum frequency"):
        frequency("Info: Program finished normally.")


def test_changed_figures_have_the_earlier_value_in_brackets() -> None:
    now = {"small": SynthesisFigures(100, 20, 1.5, 0, ecp5_mhz=99.04), "new": SynthesisFigures(12345, 2, 1.0, 0)}
    before = {"small": SynthesisFigures(110, 20, 1.5, 0)}
    assert table(now, before)[1:] == [
        ["small", "100 (110)", "20", "1.5", "0", "", "99"],
        ["new", "12,345", "2", "1", "0", "", ""],
    ]


def test_only_the_table_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    for _ in range(2):
        renew(page, table({"a": SynthesisFigures(1, 2, 3.0, 4)}, {}))
        lines = page.read_text().splitlines()
        assert (lines[:2], lines[-2:]) == (["before", MARKS[0]], [MARKS[1], "after"])
        assert lines[4].startswith("| a | 1 | 2 | 3 | 4 |")
        assert len(lines) == 7


def test_the_results_page_has_the_marks() -> None:
    text = synthesis.RESULTS.read_text()
    assert 0 < text.index(MARKS[0]) < text.index(MARKS[1])


def test_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The program measures the named configurations, keeps the other figures, and prints all."""
    monkeypatch.setattr(synthesis, "RESULTS", tmp_path / "results.md")
    monkeypatch.setattr(synthesis, "RECORD", tmp_path / "synthesis.json")
    monkeypatch.setattr(synthesis, "synthesise", lambda config, folder: SynthesisFigures(config.width, 1, 2.0, 3))
    synthesis.RESULTS.write_text("\n".join(MARKS))
    assert main(["--area-only", "128 bits"]) == 0
    assert main(["--area-only", "64 bits"]) == 0
    figures = json.loads(synthesis.RECORD.read_text())
    assert {name: each["lut"] for name, each in figures.items()} == {"64 bits": 64, "128 bits": 128}
    *_, small, wide, part = capsys.readouterr().out.splitlines()
    assert (small.split()[0], wide.split()[0], part) == ("64", "128", "a further row: 64 LUT")
    with pytest.raises(SystemExit):
        main(["63 bits"])
