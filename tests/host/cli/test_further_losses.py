"""`bitlane train` with further losses and elastic net."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bitlane
from bitlane.cli.main import main
from bitlane.reporting.records import read_record

for name in ("pandas", "sklearn", "matplotlib"):
    pytest.importorskip(name)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_huber_with_elastic_net(prices: Path, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The loss of a line is that of the estimator that is loaded, and a resumed training has the same model."""
    options = ["--loss", "huber", "--epsilon", "40", "--penalty", "elasticnet", "--alpha", "1e-4", "--l1-ratio", "0.3"]
    common = ["train", str(prices), "--target", "price", "--device", device, "--decay", "0.9", *options]
    assert main([*common, "--epochs", "6", "--out", "a"]) == 0
    out = capsys.readouterr().out
    assert "huber, epsilon 40, penalty elasticnet, alpha 0.0001, l1_ratio 0.3" in out
    assert "mean huber loss on the training rows, label units squared" in out
    model = bitlane.load("a")
    assert (model.loss, model.epsilon, model.penalty, model.l1_ratio) == ("huber", 40.0, "elasticnet", 0.3)
    table = np.loadtxt(prices, delimiter=",", skiprows=1)
    size = np.abs(model.predict(table[:, :2]) - table[:, 2])
    exact = np.where(size > 40, 40 * size - 800, size**2 / 2).mean()
    assert read_record("a").lines[-1]["true_loss"] == [pytest.approx(exact)]
    assert main([*common, "--epochs", "3", "--out", "b"]) == 0
    assert main(["train", "--resume", "b", "--epochs", "6", "--device", device]) == 0
    assert read_record("b").arrays["coef"].tolist() == read_record("a").arrays["coef"].tolist()


@pytest.mark.parametrize("loss", ["squared_hinge", "modified_huber"])
def test_classes(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "breast_cancer", "--loss", loss, "--bits", "8", "--device", "cpu", "--out", "a"]) == 0
    out = capsys.readouterr().out
    assert f"mean {loss.replace('_', ' ')} loss on the training rows, no unit" in out
    assert float(next(line for line in out.splitlines() if line.startswith("accuracy")).split()[1]) > 0.95
    assert 0 < read_record("a").header["data"]["constant"] < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "squared_hinge"], "--loss squared_hinge: choose one of 'squared_error', 'huber'"),
        (["--loss", "huber", "--epsilon", "0"], "--epsilon 0.0: --loss huber needs a number above 0"),
        (["--penalty", "elasticnet", "--alpha", "1", "--l1-ratio", "2"], "--l1-ratio 2.0: choose a number from 0 to 1"),
        (
            ["--loss", "huber", "--device", "rtl"],
            "the RTL has neither the further losses nor elastic net: use --device cpu",
        ),
        (["--loss", "huber", "--bits", "adaptive"], "--bits adaptive needs --loss squared_error, not 'huber'"),
    ],
)
def test_errors(prices: Path, fails: Callable[..., str], arguments: list[str], message: str) -> None:
    assert message in fails("train", str(prices), "--target", "price", *arguments)


@pytest.mark.parametrize("command", ["compare", "plan"])
def test_commands_of_the_hardware_have_its_losses(command: str, prices: Path, fails: Callable[..., str]) -> None:
    assert "invalid choice: 'huber'" in fails(command, str(prices), "--loss", "huber")
