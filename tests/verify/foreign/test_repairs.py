"""Yosys reads the repaired `faxi_master.v`; each repair is needed, and no property before the cut changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane_verify.foreign import repairs
from bitlane_verify.foreign.repairs import CUT, DECLARATIONS, PLACE, repaired
from bitlane_verify.foreign.sources import WB2AXIP
from bitlane_verify.formal.runner import ProofTools

DAMAGED = f"module m(input a);\n{PLACE}assert(a);\n{CUT}assert(missing);\n`endif\n"


def test_signals_are_declared_and_the_end_is_cut_off() -> None:
    assert repaired(DAMAGED) == f"module m(input a);\n{PLACE}{DECLARATIONS}assert(a);\nendmodule\n"


@pytest.mark.parametrize("place", [PLACE, CUT])
def test_another_version_of_the_file_is_refused(place: str) -> None:
    for other, found in ((DAMAGED.replace(place, ""), 0), (DAMAGED + place, 2)):
        with pytest.raises(DataError, match=f" {found} times, expected 1"):
            repaired(other)


def read_by_yosys(text: str, tools: ProofTools, folder: Path) -> str:
    """The error of Yosys, or ""."""
    (folder / "m.v").write_text(text)
    script = "read_verilog -formal m.v; hierarchy -top faxi_master; proc; check -assert"
    command = [tools.yosys, "-q", "-p", script]
    done = subprocess.run(
        command, cwd=folder, env=tools.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout if done.returncode else ""


@pytest.mark.slow
@pytest.mark.usefixtures("wb2axip")
def test_yosys_needs_every_repair(tools: ProofTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = WB2AXIP.text("faxi_master.v")
    assert read_by_yosys(repaired(text), tools, tmp_path) == ""
    assert "`endif" in read_by_yosys(text.replace(PLACE, PLACE + DECLARATIONS), tools, tmp_path), "without the cut"
    for line in DECLARATIONS.splitlines(keepends=True):
        with monkeypatch.context() as patch:
            patch.setattr(repairs, "DECLARATIONS", DECLARATIONS.replace(line, ""))
            assert "is implicitly declared" in read_by_yosys(repaired(text), tools, tmp_path), f"without {line}"


@pytest.mark.slow
@pytest.mark.usefixtures("wb2axip")
def test_the_properties_are_the_author_s() -> None:
    text = WB2AXIP.text("faxi_master.v")
    before = text[: text.index(CUT)].splitlines()
    after = repaired(text).splitlines()
    properties = [line for line in before if "assert" in line or "assume" in line or "`SLAVE_A" in line]
    assert properties == [line for line in after if "assert" in line or "assume" in line or "`SLAVE_A" in line]
    assert len(properties) > 80
