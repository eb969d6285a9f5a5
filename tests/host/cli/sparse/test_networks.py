"""`bitlane sparse` with networks: trained by minibatches, resumed to the bit, evaluated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.sparse_training import files_of, without_times

from bitlane.cli.main import main
from bitlane.sparse.training.log import read_log

pytestmark = pytest.mark.torch

COMMON = ["--batch-rows", "32", "--hidden", "8,4", "--window-rows", "100", "--test-fraction", "0.2"]


@pytest.mark.parametrize("model", ["dnn", "widedeep", "deepfm"])
def test_a_network_resumes_to_the_bit(
    pairs: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str], model: str
) -> None:
    trains(pairs, "--model", model, *COMMON, "--epochs", "3", "--out", "whole")
    trains(pairs, "--model", model, *COMMON, "--epochs", "2", "--out", "run")
    trains("--resume", "run", "--epochs", "3")
    assert files_of(Path("run/model")) == files_of(Path("whole/model"))
    assert without_times(read_log("run")) == without_times(read_log("whole"))
    assert [line["rows"] for line in read_log("run") if line["kind"] == "window"][:3] == [128, 128, 128]
    assert main(["sparse", "evaluate", "run", str(pairs), "--test-fraction", "0.2"]) == 0
    assert f"{read_log('run')[-1]['auc']:.4f}" in capsys.readouterr().out
    assert main(["sparse", "inspect", "run"]) == 0
    out = capsys.readouterr().out
    assert "minibatches of 32 rows" in out
    assert "hidden layers         8, 4" in out


def test_a_network_learns_an_interaction(pairs: Path, trains: Callable[..., str]) -> None:
    trains(pairs, "--model", "dnn", "--batch-rows", "8", "--learning-rate", "0.3", "--epochs", "40", "--out", "run")
    windows = [line["auc"] for line in read_log("run") if line["kind"] == "window"]
    assert windows[-1] > 0.85


def test_bad_networks(pairs: Path, fails: Callable[..., str]) -> None:
    assert "hidden" in fails("sparse", "train", str(pairs), "--model", "dnn", "--hidden", "8,0", "--out", "run")
    assert "nowhere" in fails("sparse", "train", str(pairs), "--model", "dnn", "--device", "nowhere", "--out", "run")
