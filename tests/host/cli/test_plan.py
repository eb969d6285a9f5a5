"""`bitlane plan`: its numbers are those of the library, its text fits a terminal, and it refuses what no build runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane import SGDClassifier
from bitlane.cli import plan
from bitlane.cli.main import main
from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DeviceError
from bitlane.planning.chips import CHIPS
from bitlane.planning.cpu_time import CpuTime, measure_cpu

pytest.importorskip("pandas")
SIZE = ["--rows", "5000", "--features", "70"]


@pytest.fixture(autouse=True)
def no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a second for an epoch: `test_the_time_of_this_machine` measures."""
    monkeypatch.setattr(plan, "measure_cpu", lambda geometry, config, staleness: CpuTime(1.0, geometry.rows))


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["plan", *arguments, "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def test_a_file_has_its_rows_features_and_classes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of a file is the training of it: a constant column is not stored, an intercept of a margin is."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 7)), rng.integers(0, 4, 300)
    X[:, 2] = 5.0
    np.savez("data.npz", X=X, y=y)
    options = {"bits": 2, "epochs": 3, "batch_size": 9, "loss": "log_loss"}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    record = planned(capsys, "data.npz", *words, "--task", "classification", "--outputs", "3", "--width", "128")
    assert record["data"] == {"name": "data.npz", "rows": 300, "features": 6 + 1, "targets": 4}
    device = EmulatorDevice(AcceleratorConfig(128, 3, address_bits=32))
    with pytest.warns(UserWarning, match="constant"):
        model = SGDClassifier(**options, learning_rate=0.1, device=device).fit(X, y, snapshots=True)
    run = model.run_
    names = ("cycles", "bytes_read", "launches", "passes")
    assert [record["accelerator"][name] for name in names] == [getattr(run, name) for name in names]
    assert record["cpu"]["seconds"] == 3 * run.passes


def test_the_build_is_the_boards_unless_other_options_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    record = planned(capsys, *SIZE)
    shipped = asdict(AcceleratorConfig(128, address_bits=32))
    assert (record["board"]["name"], record["build"], record["clock_mhz"]) == ("Pynq-Z2", shipped, 100)
    seconds = record["accelerator"]["cycles"] / 100e6
    assert record["accelerator"]["seconds"] == pytest.approx(seconds)
    other = planned(capsys, *SIZE, "--board", "ZCU104", "--bits", "3", "--random-rounding", "--clock", "250")
    assert (other["build"]["width"], other["build"]["level_slots"], other["clock_mhz"]) == (256, 4096, 250)
    assert other["build"]["random_rounding"] and other["board"]["chip"] == "xczu7ev"
    assert planned(capsys, *SIZE, "--board", "kv260")["clock_mhz"] == 300


@pytest.mark.parametrize("board", CHIPS)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--width", "64", "--encoder", "4"],
        ["--width", "128", "--shards", "2"],
        ["--rows", "16777215", "--epochs", "65535", "--features", "2000"],
    ],
    ids=["default", "encoder", "shards", "large"],
)
def test_the_text_fits_80_columns(board: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *SIZE, "--board", board, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    area = ("LUT", "BRAM36", "DSP", "largest error", "Fits the chip: ", "a further row", "a further shard")
    area = () if "--encoder" in options else area
    assert all(unit in text for unit in ("MHz", " s ", " MB", "GB/s", "MiB", *area))


def test_the_time_of_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the epochs take twice the time; without a C compiler nothing is measured, and the line says so."""
    monkeypatch.setattr(plan, "measure_cpu", measure_cpu)
    few, many = (planned(capsys, *SIZE, "--epochs", epochs)["cpu"]["seconds"] for epochs in ("10", "1000"))
    assert 30 < many / few < 300

    def without(*_: object) -> CpuTime:
        raise DeviceError("device='cpu' cannot be built")

    monkeypatch.setattr(plan, "measure_cpu", without)
    assert main(["plan", *SIZE]) == 0
    assert "device cpu                 not measured: there is no C compiler" in capsys.readouterr().out
    assert planned(capsys, *SIZE)["cpu"] is None


def test_an_unknown_area_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plan, "estimate_area", lambda config: None)
    assert main(["plan", *SIZE]) == 0
    assert "The area is unknown: no build with these options was synthesised." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rows", "10"], "give a file, the name of a data set, or both --rows and --features"),
        (["digits", "--rows", "10"], "digits has its own rows and features: omit --rows and --features"),
        ([*SIZE, "--board", "toaster"], "unknown board 'toaster': choose one of pynq-z2, pynq-z1"),
        ([*SIZE, "--clock", "0"], "0 is not a clock in MHz"),
        ([*SIZE, "--bits", "7"], "--bits 7 cannot be stored"),
        ([*SIZE, "--level-slots", "64"], "has table lanes, which read codebooks only"),
        (["--rows", "10", "--features", "20000"], "the table has 20000 features, but the build holds 16384"),
        ([*SIZE, "--encoder", "2", "--level-slots", "64"], "--encoder 2 needs --level-slots 0"),
        ([*SIZE, "--width", "64", "--shards", "2"], "--shards 2 must be one of 1, 2, 4, 8, and at most"),
        (["--rows", "9", "--features", "10000", "--bits", "32"], "lower bits to 24 or below"),
    ],
)
def test_what_cannot_be_planned(fails: Callable[..., str], words: list[str], message: str) -> None:
    assert message in fails("plan", *words)
