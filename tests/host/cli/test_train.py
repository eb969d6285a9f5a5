"""`bitlane train`: the summary, the run folder, and a resumed training."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli import train
from bitlane.cli.main import main
from bitlane.reporting import records

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def test_train_prints_and_writes(prices: Path, drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "runs/a"]) == 0
    out, err = capsys.readouterr()
    assert "60 rows, 2 features, target price" in out
    assert "regression" in out
    assert "cycles" in out
    assert err == ""
    assert sorted(os.listdir("runs/a")) == ["checkpoint.npz", "loss-bytes.png", "loss.png", "model.npz", "run.jsonl"]
    record = records.read_record("runs/a")
    assert record.header["settings"]["bits"] == 4
    assert [line["epoch"] for line in record.lines] == [0, 1]
    assert sum(line["cycles"] for line in record.lines) <= record.end["cycles"]
    assert sum(line["bytes"] for line in record.lines) == record.end["bytes_read"]
    assert record.arrays["feature_names"].tolist() == ["rooms", "age"]


def test_a_run_is_repeatable(prices: Path) -> None:
    for name in "ab":
        assert main(["train", str(prices), "--target", "price", *QUICK, "--seed", "3", "--out", name]) == 0
    first, second = records.read_record("a"), records.read_record("b")
    assert first.lines == second.lines
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)


def test_train_learns(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", "--device", "emulator", "--epochs", "40"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("R squared"))
    assert float(line.split()[2]) > 0.9


def test_train_with_text_labels_and_several_classes(houses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split(",") for line in houses.read_text().splitlines()]
    Path("d.csv").write_text("\n".join(f"{line[0]},{line[1]},{line[3]}" for line in lines))
    assert main(["train", "d.csv", "--target", "district", *QUICK, "--out", "two"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert records.read_record("two").arrays["classes"].tolist() == ["north", "south"]
    assert main(["train", "wine", *QUICK, "--out", "three"]) == 0
    assert "3 models (one class against the rest), 1 in a pass" in capsys.readouterr().out
    record = records.read_record("three")
    assert [len(line["loss"]) for line in record.lines] == [len(line["true_loss"]) for line in record.lines] == [3, 3]
    assert record.header["data"]["classes"] == ["0", "1", "2"] and record.end["passes"] == 3
    assert record.arrays["coef"].shape == (3, 13)
    assert main(["train", "wine", *QUICK, "--outputs", "4", "--width", "256", "--out", "together"]) == 0
    assert "4 in a pass" in capsys.readouterr().out
    together = records.read_record("together")
    assert together.end["passes"] == 1 and together.arrays["coef"].tolist() == record.arrays["coef"].tolist()
    assert together.header["geometry"]["rows_per_beat"] == 4


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_train_with_margin_losses(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--loss", loss, "--penalty", "l1", "--alpha", "1e-3", "--class-weight", "balanced", "--staleness", "1"]
    assert main(["train", "breast_cancer", *options, "--device", "emulator", "--bits", "8", "--out", "a"]) == 0
    out = capsys.readouterr().out
    assert f"{loss}, penalty l1, alpha 0.001, class weights balanced" in out
    assert "stale" in out
    assert float(next(line for line in out.splitlines() if line.startswith("accuracy")).split()[1]) > 0.9
    record = records.read_record("a")
    assert record.header["settings"]["class_weight"] == "balanced"
    assert record.lines[-1]["true_loss"][0] < record.header["data"]["constant"]


def test_train_within_bounds(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--bounds=-0.25,none", "--out", "a"]) == 0
    assert "squared_error, bounds -0.25, none" in capsys.readouterr().out
    record = records.read_record("a")
    assert record.header["settings"]["bounds"] == [-0.25, None]
    scale = record.arrays["scale"] / record.arrays["label_scale"]
    assert (record.arrays["coef"] * scale >= -0.2501).all()


def test_train_with_optimal_levels(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["train", str(prices), "--target", "price", *QUICK]
    assert main([*source, "--levels", "optimal", "--bits", "3", "--out", "a"]) == 0
    assert "double, 3 bits a feature, optimal levels, draws: 8" in capsys.readouterr().out
    record = records.read_record("a")
    assert record.header["settings"]["levels"] == "optimal" and record.header["geometry"]["row_words"] == 2
    levels = record.arrays["levels"]
    assert levels.shape == (3, 2) and levels[[0, 2], 0] == pytest.approx([1, 8], abs=1e-3)
    assert main([*source, "--out", "b"]) == 0
    assert "4 bits a feature, draws: 8" in capsys.readouterr().out
    assert "levels" not in records.read_record("b").arrays


def test_train_with_bits_that_mqgrad_chooses(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--bits", "mqgrad", "--out", "a"]) == 0
    told = capsys.readouterr().out
    record = records.read_record("a")
    bits = [line["bits"] for line in record.lines]
    assert 2 <= min(bits) <= max(bits) <= 8 and f"{bits[0]:g} (" in told  # means of an epoch
    assert "MQGrad(" in record.header["settings"]["bit_policy"]
    assert main(["train", str(prices), "--resume", "a", "--epochs", "9"]) == 2
    assert "cannot be resumed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["houses.csv", "--target", "district", "--loss", "log_loss", "--seed", "3", "--impute"],
        ["prices.csv", "--target", "price", "--penalty", "l2", "--alpha", "1e-2", "--bits", "8", "--draws", "2"],
        ["wine", "--class-weight", "balanced", "--bounds=-0.5,0.5", "--loss", "hinge", "--decay", "0.9"],
        ["breast_cancer", "--levels", "optimal", "--bits", "3"],
    ],
    ids=lambda options: options[0],
)
def test_a_resumed_training_is_the_whole_one(
    prices: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    lines = [line.split(",") for line in Path("houses.csv").read_text().splitlines()]
    Path("houses.csv").write_text("\n".join(f"{line[0]},{line[1]},{line[3]}" for line in lines))
    device = ["--device", "emulator"]
    assert main(["train", *options, *device, "--epochs", "5", "--out", "whole"]) == 0
    assert main(["train", *options, *device, "--epochs", "2", "--out", "run"]) == 0
    whole = records.read_record("whole")
    capsys.readouterr()
    for epochs in ("3", "5"):  # in place
        resumed = ["--resume", "run", "--epochs", epochs, "--out", "run"]
        assert main(["train", options[0], *device, *resumed]) == 0
    assert capsys.readouterr().err == ""
    found = records.read_record("run")
    for mine, theirs in zip(found.lines, whole.lines, strict=True):
        assert (mine["epoch"], mine["loss"]) == (theirs["epoch"], theirs["loss"])
        assert mine["true_loss"] == pytest.approx(theirs["true_loss"])
    assert all(np.array_equal(found.arrays[name], whole.arrays[name]) for name in whole.arrays)
    assert Path("run/checkpoint.npz").read_bytes() == Path("whole/checkpoint.npz").read_bytes()
    assert found.header == whole.header
    assert found.end["score_train"] == whole.end["score_train"]
    assert found.end["bytes_read"] >= whole.end["bytes_read"]
    assert found.end["bound_raw"] == pytest.approx(whole.end["bound_raw"])
    assert sorted(os.listdir("run")) == sorted(os.listdir("whole"))


def test_several_devices_and_a_resumed_training_of_them(
    prices: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["train", str(prices), "--target", "price", "--batch-size", "8", "--average-every", "2"]
    two = ["--device", "emulator,emulator"]
    assert main([*source, *two, "--epochs", "4", "--out", "whole"]) == 0
    assert main([*source, *two, "--epochs", "2", "--out", "run"]) == 0
    assert "device       emulator, emulator" in capsys.readouterr().out
    assert main(["train", str(prices), "--device", "emulator", "--resume", "run", "--epochs", "4", "--out", "run"]) == 0
    whole, found = (records.read_record(name) for name in ("whole", "run"))
    assert [line["loss"] for line in found.lines] == [line["loss"] for line in whole.lines]
    assert all(np.array_equal(found.arrays[name], whole.arrays[name]) for name in whole.arrays)
    assert found.header["settings"]["shards"] == 2
    capsys.readouterr()
    assert "--device tpu is unknown" in fails(*source, "--device", "emulator,tpu")
    assert "--on-device-failure: invalid choice" in fails(*source, *two, "--on-device-failure", "retry")


def test_a_resumed_training_knows_its_data(
    prices: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without DATA and --out it reads the same file, from any folder, and goes on in the run folder."""
    source = ["train", prices.name, "--target", "price", "--device", "emulator"]
    assert main([*source, "--epochs", "4", "--out", "whole"]) == 0
    assert main([*source, "--epochs", "2", "--out", "run"]) == 0
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    assert main(["train", "--resume", "../run", "--epochs", "4", "--device", "emulator"]) == 0
    os.chdir("..")
    found, whole = records.read_record("run"), records.read_record("whole")
    assert all(np.array_equal(found.arrays[name], whole.arrays[name]) for name in whole.arrays)
    prices.rename("moved.csv")
    capsys.readouterr()
    resumed = ["--resume", "run", "--epochs", "5", "--device", "emulator"]
    assert "prices.csv, the data of run, is gone: if it has moved, name it before --resume" in fails("train", *resumed)
    assert main(["train", "moved.csv", *resumed]) == 0
    capsys.readouterr()
    assert "DATA is missing: name a file or a data set" in fails("train", "--epochs", "5")


def test_trainings_that_cannot_be_resumed(
    prices: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = [str(prices), "--target", "price", *QUICK]
    assert main(["train", *source, "--out", "run"]) == 0
    assert main(["compare", *source, "--bits", "4", "--sampling", "double", "--out", "compared"]) == 0
    shutil.copytree("run", "lost")
    Path("lost/checkpoint.npz").unlink()
    shutil.copytree("run", "cut")
    Path("cut/checkpoint.npz").write_bytes(Path("cut/checkpoint.npz").read_bytes()[:99])
    Path("other.csv").write_text(prices.read_text().replace("1", "2"))
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").touch()
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    def refused(*arguments: str, file: Path | str = prices, resume: str = "run", epochs: int = 5) -> str:
        resumed = ["--resume", resume, "--epochs", str(epochs), *arguments]
        out = [] if "--out" in arguments else ["--out", "run"]
        return fails("train", str(file), "--device", "emulator", *resumed, *out)

    assert "--bits: a resumed training keeps its options" in refused("--bits", "8")
    assert "--levels: a resumed" in refused("--levels", "optimal")
    assert "--batch-size: a resumed" in refused("--batch-size", "8")
    assert "--loss: a resumed" in refused("--loss", "hinge")
    assert "--class-weight: a resumed" in refused("--class-weight", "balanced")
    assert "--target: a resumed" in refused("--target", "price")
    assert "--impute: a resumed" in refused("--impute")
    assert "--epochs 2: the checkpoint already has 2" in refused(epochs=2)
    assert "no run folder nothing" in refused(resume="nothing")
    assert "holds a comparison, which cannot be resumed" in refused(resume="compared")
    assert "no checkpoint lost/checkpoint.npz" in refused(resume="lost")
    assert "cut/checkpoint.npz is damaged" in refused(resume="cut")
    assert "differ from the data" in refused(file="other.csv")
    monkeypatch.setattr(train, "SGDRegressor", None)
    assert "not a bitlane run" in refused("--out", "thesis")
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_impute(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.csv").write_text("a,b\n1,2.5\n,4\ninf,6\n4,7\n")
    assert main(["train", "t.csv", "--target", "b", "--impute", "--batch-size", "2", *QUICK]) == 0
    assert "4 rows, 1 features" in capsys.readouterr().out


def test_progress_on_a_terminal_only(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["train", str(prices), "--target", "price", *QUICK]) == 0
    assert "training" in capsys.readouterr().err


def test_a_note_where_values_are_clipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "digits", "--loss", "squared_error", "--bits", "2", "--learning-rate", "4", *QUICK]) == 0
    assert "clipped" in capsys.readouterr().err


def test_a_text_target_needs_classes(houses: Path, fails: Callable[..., str]) -> None:
    message = fails("train", str(houses), "--target", "district", "--task", "regression", *QUICK)
    assert "district" in message


def test_more_features_than_the_hardware_holds(here: Path, fails: Callable[..., str], seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(4, 40_000))
    np.savez(here / "wide.npz", X=X, y=X[:, 0])
    message = fails("train", "wide.npz", "--task", "regression", *QUICK)
    assert "40000" in message.replace(",", "")
    assert "features" in message
