"""The report of a self test: its text, its JSON, and its atomic file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bitlane.selftest import CheckResult, SelfTestReport, blocks

GOOD = CheckResult("register file", "register file: idle", 0.25, {"bits": 1234, "MB/s": 2.5, "status": "0x2"})
BAD = CheckResult("update lanes", "update lanes: prox l1", 0.5, {}, "weight of output 0, feature 3 is 7 instead of 8")
WORSE = CheckResult("sequencer", "sequencer: one row", 1.0, {}, "no answer")
FACTS = {"device": "emulator", "seed": "17"}


def report_of(*results: CheckResult) -> SelfTestReport:
    return SelfTestReport(FACTS, (blocks.REGISTER_FILE, blocks.UPDATE, blocks.SEQUENCER), results)


def test_lines() -> None:
    assert GOOD.passed and not BAD.passed
    assert GOOD.line.split() == [
        "pass",
        "register",
        "file:",
        "idle",
        *["0.250", "s", "bits", "1,234,", "MB/s", "2.500,", "status", "0x2"],
    ]
    assert BAD.line.split(maxsplit=6)[:1] == ["FAIL"] and BAD.line.endswith(BAD.problem)


def test_a_good_report() -> None:
    report = report_of(GOOD)
    assert report.passed and report.failed_blocks == []
    assert report.verdict == "all 1 checks of 3 blocks passed in 0.2 s"
    assert report.text().splitlines()[:3] == ["bitlane self test", "  device  emulator", "  seed    17"]
    assert "first failure" not in report.text()


def test_a_failure_names_the_first_block_and_what_to_do() -> None:
    report = report_of(GOOD, BAD, WORSE)
    assert not report.passed and report.failed_blocks == ["update lanes", "sequencer"]
    lines = report.summary().splitlines()
    assert [
        line.split()[-len(block.compared.split()) - 1 - ("FAIL" in line)]
        for line, block in zip(lines[2:5], report.blocks, strict=True)
    ] == ["pass", "FAIL", "FAIL"]
    assert lines[6:] == [
        "2 of 3 checks FAILED in 2 of 3 blocks in 1.8 s",
        "The first failure is in the update lanes: weight of output 0, feature 3 is 7 instead of 8",
        "Later failures may follow from it, because each check uses the blocks of the checks before it.",
        "If you changed the RTL, look at hw/bitlane_hw/datapath/update.py first.",
        "Run the test again with --seed 17 to repeat it; attach this report to an issue.",
    ]


def test_json(tmp_path: Path) -> None:
    report_of(GOOD, BAD).write(tmp_path / "report.json")
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["passed"] is False and found["facts"] == FACTS
    assert found["blocks"] == ["register file", "update lanes", "sequencer"]
    assert found["failed_blocks"] == ["update lanes"]
    assert [(each["block"], each["passed"]) for each in found["results"]] == [
        ("register file", True),
        ("update lanes", False),
    ]
    assert found["results"][0]["figures"] == GOOD.figures and found["results"][1]["problem"] == BAD.problem


def test_a_report_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.txt"
    path.write_text("the one before")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        report_of(GOOD).write(path)
    assert [each.name for each in tmp_path.iterdir()] == ["report.txt"]
    assert path.read_text() == "the one before"
