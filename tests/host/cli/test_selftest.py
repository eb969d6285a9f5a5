"""`bitlane selftest`: its options, its output, its file and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.emulators import emulator
from tests.helpers.faulty_devices import DroppedBit

from bitlane.cli import main as cli
from bitlane.cli import training_arguments
from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane.selftest import blocks_of, control, speed

SMALL: dict[str, Any] = {"max_features": 128, "row_buffer_beats": 164, "capacity_bytes": 8 << 20}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder, a device with the minimum of features, and short measurements."""
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)
    monkeypatch.setattr(control, "GROUPS", 60)
    monkeypatch.setattr(control, "EPOCHS", 100)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_arguments, "open_device", lambda *_: emulator(**SMALL))
    return tmp_path


def test_selftest_prints_and_writes_a_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--device", "emulator", "--seed", "7", "--out", "report.txt"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (here / "report.txt").read_text() + "written to report.txt\n"
    assert re.search(r"\n  seed +7\n", out)
    assert re.search(r"\nall \d+ checks of 16 blocks passed in ", out)


def test_lines_appear_while_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []

    class Watched(EmulatorDevice):
        def allocate(self, nbytes, port=0):
            printed.append(capsys.readouterr().out)
            return super().allocate(nbytes, port)

    monkeypatch.setattr(training_arguments, "open_device", lambda *_: emulator(kind=Watched, **SMALL))
    assert cli.main(["selftest"]) == 0
    assert len([text for text in printed if text]) > 50


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ([], AcceleratorConfig()),
        (["--level-slots"], AcceleratorConfig(level_slots=4096)),
        (
            ["--width", "512", "--outputs", "4", "--level-slots", "64", "--random-rounding"],
            AcceleratorConfig(512, 4, level_slots=64, random_rounding=True),
        ),
    ],
)
def test_options_of_the_build(
    options: list[str], config: AcceleratorConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = []

    def open_device(name: str, config: AcceleratorConfig) -> EmulatorDevice:
        opened.append((name, config))
        return EmulatorDevice(
            AcceleratorConfig(config.width, config.outputs, 128, 164, 256, 40, *rest(config)), 8 << 20
        )

    def rest(config: AcceleratorConfig) -> tuple[int, bool]:
        return min(config.level_slots, 64), config.random_rounding

    monkeypatch.setattr(training_arguments, "open_device", open_device)
    assert cli.main(["selftest", "--device", "emulator", *options]) == 0
    assert opened == [("emulator", config)]
    out = capsys.readouterr().out
    assert all(f"\n{block.name} " in out for block in blocks_of(config))


def test_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--out", "report.json"]) == 0
    report = json.loads((here / "report.json").read_text())
    assert report["passed"] is True
    assert report["facts"]["identity"] == "0x424c414e"
    assert re.search(rf"\n  seed +{report['facts']['seed']}\n", capsys.readouterr().out)
    loss = next(result for result in report["results"] if result["name"] == "scalar stage: loss hinge")
    assert loss["passed"] and loss["figures"]["epochs"] == 3 and loss["figures"]["cycles"] > loss["figures"]["beats"]


def test_a_failed_check_is_exit_status_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training_arguments, "open_device", lambda *_: emulator(kind=DroppedBit, **SMALL))
    assert cli.main(["selftest", "--out", "report.txt"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  register file: registers hold values " in out
    assert out.index("FAIL") < out.index("pass  scalar stage: loss squares")
    assert (here / "report.txt").read_text() == out[: out.index("written to ")]
    assert re.search(
        r"\n\d+ of \d+ checks FAILED in \d+ of 16 blocks in [\d.]+ s\nThe first failure is in the register", out
    )


@pytest.mark.parametrize("out", ["", "nowhere/report.txt"])
def test_a_report_that_cannot_be_written_is_an_error_before_the_test(
    here: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["selftest", "--out", out or str(here)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "not a file name" in printed.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--level-slots", "3"], "--level-slots 3 must be 0 or a power of two of at least 16"),
        (["--outputs", "16"], "--outputs 16 must be 1 to 15"),
        (["--device", "nothing"], "--device nothing is unknown: choose one of "),
    ],
)
def test_a_device_that_cannot_be_opened_is_one_line(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    assert cli.main(["selftest", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"bitlane: error: {message}") and err.count("\n") == 1
