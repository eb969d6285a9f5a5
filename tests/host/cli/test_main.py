"""The command line: what it prints and writes, and one line and exit status 2 for every bad input."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitlane
from bitlane.cli import compare, devices, levels, train
from bitlane.cli.main import main
from bitlane.reporting import records
from bitlane.training.checkpoint import Checkpoint

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def houses(here: Path) -> Path:
    """A table of 60 rows: a linear price, and a district in words."""
    rng = np.random.default_rng(5)
    rooms, age = rng.integers(1, 9, 60), rng.integers(0, 90, 60)
    price = 1000.0 * rooms - 12.5 * age + rng.normal(0, 50, 60)
    lines = [f"{r},{a},{p:.2f},{'north' if p > 4000 else 'south'}" for r, a, p in zip(rooms, age, price, strict=True)]
    path = here / "houses.csv"
    path.write_text("rooms,age,price,district\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def prices(houses: Path) -> Path:
    """The same without the words."""
    path = houses.with_name("prices.csv")
    path.write_text("\n".join(line.rpartition(",")[0] for line in houses.read_text().splitlines()) + "\n")
    return path


@pytest.fixture
def fails(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command line that must fail: status 2, one line of error, nothing on stdout, nothing written."""

    def failing(*arguments: str) -> str:
        before = sorted(here.rglob("*"))
        assert main(list(arguments)) == 2
        out, err = capsys.readouterr()
        errors = [line for line in err.splitlines() if not line.startswith("bitlane: note: ")]
        assert out == ""
        assert len(errors) == 1
        assert errors[0].startswith("bitlane: error: ")
        assert sorted(here.rglob("*")) == before
        return errors[0]

    return failing


# --- what it does --------------------------------------------------------------------------------
def test_train_prints_and_writes(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_train_words_and_several_classes(houses: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_train_by_margin(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "double, 3 bits a feature, optimal levels, draws: epoch" in capsys.readouterr().out
    record = records.read_record("a")
    assert record.header["settings"]["levels"] == "optimal" and record.header["geometry"]["row_words"] == 2
    levels = record.arrays["levels"]
    assert levels.shape == (3, 2) and levels[[0, 2], 0] == pytest.approx([1, 8], abs=1e-3)
    assert main([*source, "--out", "b"]) == 0
    assert "4 bits a feature, draws: epoch" in capsys.readouterr().out
    assert "levels" not in records.read_record("b").arrays


def test_train_with_bits_that_mqgrad_chooses(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--bits", "mqgrad", "--out", "a"]) == 0
    told = capsys.readouterr().out
    record = records.read_record("a")
    bits = [line["bits"] for line in record.lines]
    assert set(bits) <= {2, 4, 6, 8} and f"{bits[0]} (" in told
    assert "MQGrad(" in record.header["settings"]["bit_policy"]
    assert main(["train", str(prices), "--resume", "a", "--epochs", "9"]) == 2
    assert "cannot be resumed" in capsys.readouterr().err


# --- going on ------------------------------------------------------------------------------------
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


def test_what_cannot_be_resumed(
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
    assert "epochs=2: the checkpoint has 2 already" in refused(epochs=2)
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


def test_compare_prints_and_writes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--bits",
        "4,32",
        "--sampling",
        "double,nearest",
        *QUICK,
        "--learning-rate",
        "0.1",
        "--out",
        "c",
    ]
    assert main(["compare", "breast_cancer", *arguments]) == 0
    out = capsys.readouterr().out
    assert "breast_cancer: class 1 against the rest" in out
    rows = [line.split("  ")[0] for line in out.splitlines() if line.startswith(("float", "full", "double", "nearest"))]
    assert rows == ["float64", "full, 32 bits", "double, 4 bits", "nearest, 4 bits"]
    assert sorted(os.listdir("c")) == ["loss-bytes.png", "loss.png", "run.jsonl"]
    assert [line["bits"] for line in records.read_record("c").lines] == [64, 32, 4, 4]


def test_compare_one_digit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "wine", "--positive", "2", "--bits", "8", "--sampling", "double", *QUICK]) == 0
    assert "wine: class 2 against the rest" in capsys.readouterr().out


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_compare_losses_and_staleness(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--bits", "8", "--sampling", "double", "--staleness", "1,0,1", "--width", "128"]
    assert main(["compare", "breast_cancer", "--loss", loss, *shape, *QUICK, "--out", "c"]) == 0
    out = capsys.readouterr().out
    assert "128 bits wide" in out
    assert "accuracy" in out
    rows = [line.split("  ")[0] for line in out.splitlines() if line.startswith(("float", "full", "double"))]
    assert rows == ["float64", "full, 32 bits", "double, 8 bits", "full, 32 bits, stale", "double, 8 bits, stale"]
    record = records.read_record("c")
    assert [line["staleness"] for line in record.lines] == [0, 0, 0, 1, 1]
    assert all(line["accuracy"] > 0.8 for line in record.lines)
    assert sorted(os.listdir("c")) == ["loss-bytes.png", "loss.png", "run.jsonl"]


def test_compare_tells_of_held_out_rows(here: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(600, 3))
    y = np.where(X[:, 0] > 0, 1, 0)
    np.savez(here / "t.npz", X_train=X[:400], y_train=y[:400], X_test=X[400:], y_test=1 - y[400:])
    assert (
        main(["compare", "t.npz", "--bits", "8", "--sampling", "double", "--loss", "log_loss", *QUICK, "--out", "c"])
        == 0
    )
    assert "held out" in capsys.readouterr().out
    assert all(line["accuracy"] > 0.8 > 0.2 > line["held_out"] for line in records.read_record("c").lines)


def test_plot_draws_again(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "run"]) == 0
    for png in Path("run").glob("*.png"):
        png.unlink()
    capsys.readouterr()
    assert main(["plot", "run"]) == 0
    assert capsys.readouterr().out.split() == ["run/loss.png", "run/loss-bytes.png"]
    assert sorted(os.listdir("run")) == ["checkpoint.npz", "loss-bytes.png", "loss.png", "model.npz", "run.jsonl"]


def test_lists(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["datasets"]) == 0
    assert "cadata" in capsys.readouterr().out
    unavailable = type("Availability", (), {"name": "rtl", "available": False, "reason": "pip install it"})
    monkeypatch.setattr(devices, "available_devices", lambda: [unavailable])
    assert main(["devices"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=2) == ["rtl", "no", "pip install it"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bitlane {bitlane.__version__}\n"
    assert main(["train", "--help"]) == 0
    assert "--learning-rate" in capsys.readouterr().out


def test_progress_on_a_terminal_only(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["train", str(prices), "--target", "price", *QUICK]) == 0
    assert "training" in capsys.readouterr().err


# --- levels --------------------------------------------------------------------------------------
def test_levels_prints_and_draws(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["levels", str(prices), "--target", "price", "--bits", "6"]
    assert main(source) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert "prices.csv: 60 rows, 2 features that vary; double sampling, 6 bits a feature: 17 levels" in printed
    cells = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(("rooms", "age"))}
    assert cells["rooms"][1:] == ["0", "0"]  # 8 different values
    uniform, optimal, over = map(float, cells["age"])
    assert 0 < optimal < uniform and over == pytest.approx(optimal / uniform, rel=1e-2)
    before = sorted(os.listdir())
    assert main([*source, "--out", "l.png"]) == 0
    assert capsys.readouterr().out == f"{printed}\nwritten to l.png\n"
    assert Path("l.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == sorted([*before, "l.png"])


def test_levels_draws_what_saves_most(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(levels, "levels_plot", lambda *given: drawn.append(given) or given[2].touch())
    assert main(["levels", "breast_cancer", "--bits", "4", "--out", "l.png"]) == 0
    ((panels, uniform, _, title),) = drawn
    lines = capsys.readouterr().out.splitlines()
    rows = lines[next(i for i, line in enumerate(lines) if line.startswith("---")) + 1 :][:12]
    features = [line.split("  ")[0] for line in rows]
    figures = [[float(cell) for cell in line.split()[-3:]] for line in rows]
    assert [panel.name for panel in panels] == features and len(features) == 12
    assert [before - after for before, after, _ in figures] == sorted(
        (before - after for before, after, _ in figures), reverse=True
    )
    assert title == "breast_cancer: uniform and optimal levels, 4 bits"
    assert uniform.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert all(np.isin(panel.levels, panel.values).all() and len(panel.levels) == 5 for panel in panels)
    assert panels[0].note == f"variance {figures[0][0]:.3g}, optimal {figures[0][1]:.3g}"


def test_levels_of_words_missing_values_and_constant_columns(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{k},7,{k * k if k != 3 else ''},{'no' if k % 2 else 'yes'}" for k in range(10))
    (here / "t.csv").write_text(f"a,same,b,y\n{rows}\n")
    for bits in ("2", "32"):
        assert main(["levels", "t.csv", "--target", "y", "--impute", "--bits", bits]) == 0
        out, err = capsys.readouterr()
        assert "10 rows, 2 features that vary" in out
        assert err == "bitlane: note: 1 column(s) of X are constant: they are not stored\n"


def test_levels_need_numpy_alone(here: Path, seed: int) -> None:
    X = np.random.default_rng(seed).lognormal(size=(100, 2))
    np.savez(here / "t.npz", X=X, y=X[:, 0])
    missing = "pandas", "sklearn", "matplotlib", "tqdm", "numba", "pyarrow"
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); from bitlane.cli.main import main; sys.exit(main())"
    )
    run = [sys.executable, "-c", program, "levels", "t.npz"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "all 2" in done.stdout and done.stderr == ""
    done = subprocess.run([*run, "--out", "l.png"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bitlane: error: plotting (--out) needs matplotlib: pip install 'bitlane[cli]'\n"
    assert os.listdir() == ["t.npz"]


def test_levels_show_progress(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["levels", str(prices), "--target", "price"]) == 0
    assert "choosing levels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--bits", "5"], "bits=5 cannot be stored: choose an even number from 2 to 32"),
        (["--bits", "0"], "bits=0"),
        (["--bits", "34"], "bits=34"),
        (["--bits", "few"], "invalid int value: 'few'"),
        (["--bits", "10"], "257 levels crowd a plot: use --bits 8 or less"),
        (["--target", "pric"], "did you mean price?"),
        (["--epochs", "3"], "unrecognized arguments: --epochs 3"),
        (["--out", "l.svg"], "--out l.svg: the plot is a PNG"),
        (["--out", "."], "--out .: give the name of a file"),
        (["--out", "none/l.png"], "--out none/l.png: give the name of a file in an existing folder"),
    ],
)
def test_levels_with_bad_options(
    prices: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], part: str
) -> None:
    monkeypatch.setattr(levels, "savings", None)  # nothing is computed
    assert part in fails("levels", str(prices), "--target", "price", "--out", "l.png", *arguments)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "no file t.csv"),
        ("a,y\n1,2\ninf,4\n5,6\n", "column 'a' has the value inf in row 2"),
        ("a,y\n7,2\n7,4\n7,6\n", "every column of X is constant"),
        ("a,y\n1.7e308,1\n-1.7e308,2\n1.7e308,3\n", "overflow"),
    ],
)
def test_levels_of_bad_tables(here: Path, fails: Callable[..., str], text: str | None, part: str) -> None:
    if text is not None:
        (here / "t.csv").write_text(text)
    assert part in fails("levels", "t.csv", "--target", "y", "--out", "l.png")


def test_levels_of_unknown_data(fails: Callable[..., str]) -> None:
    assert "no file or data set 'digit'; did you mean digits?" in fails("levels", "digit", "--out", "l.png")
    assert "omit --target" in fails("levels", "digits", "--target", "y")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_levels_plot_that_cannot_be_written(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def failing(_: Any, __: Any, path: Path, ___: str) -> None:
        path.write_text("a part")
        raise failure

    monkeypatch.setattr(levels, "levels_plot", failing)
    Path("l.png").write_text("an earlier one")
    status = main(["levels", str(prices), "--target", "price", "--out", "l.png"])
    assert status == (2 if isinstance(failure, OSError) else 130)
    assert capsys.readouterr().out == ""
    assert Path("l.png").read_text() == "an earlier one"
    assert sorted(os.listdir()) == ["houses.csv", "l.png", "prices.csv"]


# --- notes ---------------------------------------------------------------------------------------
def test_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{k},7,{k % 3 + 0.5}" for k in range(10))
    (here / "t.csv").write_text(f"a,same,y\n{rows}\n")
    for command in ("train", "compare"):
        assert main([command, "t.csv", "--target", "y", *QUICK]) == 0
        notes = capsys.readouterr().err.splitlines()
        assert all(note.startswith("bitlane: note: ") for note in notes)
        assert sum("batch_size=16 exceeds the 10 rows" in note for note in notes) == 1
        assert sum("constant" in note for note in notes) == 1


def test_a_note_where_values_are_clipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "digits", "--bits", "2", "--learning-rate", "4", *QUICK]) == 0
    assert "clipped" in capsys.readouterr().err


# --- bad input -----------------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "no file t.csv"),
        ("", "t.csv is empty"),
        ("a,y\n", "no row"),
        ("a,y\n1,2\n", "one row"),
        ("a,z\n1,2\n3,4\n", "no column 'y'"),
        ("a,y\n1,2\ntwo,4\n5,6\n", "column 'a' holds text: 'two' in row 2"),
        ("a,y\n1,2\n,4\n5,6\n", "column 'a' has no value (NaN) in row 2"),
        ("a,y\n1,2\ninf,4\n5,6\n", "column 'a' has the value inf in row 2"),
        ("a,y\n1,2\n3,4,5\n", "not a regular table"),
        ("a,y\n7,2\n7,4\n7,6\n", "every column of X is constant"),
        ("a,y\n1.7e308,1\n-1.7e308,2\n1.7e308,3\n", "overflow"),
    ],
)
def test_bad_tables(here: Path, fails: Callable[..., str], command: str, text: str | None, part: str) -> None:
    if text is not None:
        (here / "t.csv").write_text(text)
    assert part in fails(command, "t.csv", "--target", "y", "--task", "regression", *QUICK, "--out", "run")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--bits", "7"], "bits=7"),
        (["--levels", "best"], "invalid choice: 'best'"),
        (
            ["--levels", "optimal", "--bits", "6"],
            "levels='optimal' needs double sampling with 3, 4 or 5 bits; got bits=6",
        ),
        (
            ["--levels", "optimal", "--bits", "32"],
            "levels='optimal' needs double sampling with 3, 4 or 5 bits; got bits=32",
        ),
        (["--levels", "optimal", "--sampling", "naive"], "3, 4 or 5 bits; got sampling='naive'"),
        (["--bits", "34"], "bits=34"),
        (["--bits", "0"], "bits=0"),
        (["--bits", "four"], "'four' is neither an integer nor mqgrad"),
        (["--bits", "4", "--sampling", "full"], "contradicts"),
        (["--sampling", "tripple"], "invalid choice: 'tripple'"),
        (["--draws", "sometimes"], "--draws"),
        (["--draws", "0"], "draws=0"),
        (["--epochs", "0"], "must be 1 or more"),
        (["--epochs", "70000"], "epochs=70000"),
        (["--batch-size", "0"], "must be 1 or more"),
        (["--batch-size", "-4"], "must be 1 or more"),
        (["--learning-rate", "-1"], "learning_rate"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--learning-rate", "1e9"], "learning_rate"),
        (["--decay", "0.2"], "decay=0.2"),
        (["--penalty", "l2", "--alpha", "-1"], "alpha=-1"),
        (["--penalty", "l2", "--alpha", "1e6"], "alpha"),
        (["--penalty", "l1", "--alpha", "1e6"], "alpha"),
        (["--penalty", "l3"], "invalid choice: 'l3'"),
        (["--loss", "huber"], "invalid choice: 'huber'"),
        (["--loss", "hinge"], "loss='hinge': choose one of 'squared_error'"),
        (["--bounds", "0"], "--bounds: invalid"),
        (["--bounds", "0,many"], "--bounds: invalid"),
        (["--bounds", "1,0"], "bounds=(1.0, 0.0)"),
        (["--bounds", "0,none", "--penalty", "l1"], "exclude a penalty"),
        (["--staleness", "2"], "invalid choice: 2"),
        (["--width", "100"], "invalid choice: 100"),
        (["--outputs", "0"], "must be 1 or more"),
        (["--outputs", "99"], "outputs=99"),
        (["--class-weight", "even"], "invalid choice: 'even'"),
        (["--class-weight", "balanced"], "has no classes"),
        (["--device", "tpu"], "device='tpu' is unknown"),
        (["--seed", "-1"], "must be 0 or more"),
        (["--target", "pric"], "did you mean price?"),
        (["--task", "classification"], "class"),
    ],
)
def test_bad_options(prices: Path, fails: Callable[..., str], arguments: list[str], part: str) -> None:
    if arguments[0] == "--task":
        prices.write_text("rooms,price\n1,3\n2,3\n3,3\n")
    assert part in fails("train", str(prices), "--target", "price", *QUICK, *arguments, "--out", "run")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--bits", "4,5"], "bits=5"),
        (["--bits", "4,,8"], "'4,,8'"),
        (["--sampling", "double,often"], "sampling='often'"),
        (["--positive", "1"], "has no classes"),
        (["--loss", "hinge"], "has no classes"),
        (["--staleness", "0,2"], "--staleness 0,2: choose 0, 1 or 0,1"),
        (["--staleness", "x"], "--staleness"),
        (["--width", "1024"], "invalid choice: 1024"),
        (["--learning-rate", "0"], "learning_rate"),
        (["--epochs", "-1"], "must be 1 or more"),
        (["--decay", "nan"], "decay=nan"),
    ],
)
def test_bad_options_of_compare(prices: Path, fails: Callable[..., str], arguments: list[str], part: str) -> None:
    assert part in fails("compare", str(prices), "--target", "price", *QUICK, *arguments, "--out", "run")


def test_unknown_sources_and_commands(fails: Callable[..., str], here: Path) -> None:
    assert "no file or data set 'digit'; did you mean digits?" in fails("train", "digit")
    assert "see bitlane datasets" in fails("train", "qqq")
    (here / "t.xlsx").touch()
    assert "the suffix .xlsx" in fails("train", "t.xlsx")
    assert "omit --target" in fails("train", "digits", "--target", "y")
    assert "no class '11'" in fails("compare", "digits", "--positive", "11", *QUICK)
    assert "invalid choice: 'trian'" in fails("trian")
    assert "COMMAND" in fails()


def test_one_class(here: Path, fails: Callable[..., str]) -> None:
    (here / "t.csv").write_text("a,y\n1,yes\n2,yes\n3,yes\n")
    assert "one class" in fails("train", "t.csv", "--target", "y", *QUICK)
    assert "two classes are needed" in fails("compare", "t.csv", "--target", "y", *QUICK)


def test_words_cannot_be_regressed(houses: Path, fails: Callable[..., str]) -> None:
    message = fails("train", str(houses), "--target", "district", "--task", "regression", *QUICK)
    assert "district" in message


def test_more_features_than_the_hardware_holds(here: Path, fails: Callable[..., str], seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(4, 40_000))
    np.savez(here / "wide.npz", X=X, y=X[:, 0])
    message = fails("train", "wide.npz", "--task", "regression", *QUICK)
    assert "40000" in message.replace(",", "")
    assert "features" in message


# --- run folders ---------------------------------------------------------------------------------
def test_foreign_folders_are_refused_before_training(
    prices: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").touch()
    monkeypatch.setattr(train, "SGDRegressor", None)
    monkeypatch.setattr(compare, "compare", None)
    for command in ("train", "compare"):
        message = fails(command, str(prices), "--target", "price", *QUICK, "--out", "thesis")
        assert "not a bitlane run; name another folder" in message


def damaged(change: Callable[[list[str]], list[str]]) -> None:
    path = Path("run/run.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


def stale(lines: list[str]) -> list[str]:
    return [json.dumps({**json.loads(lines[0]), "format": 99}), *lines[1:]]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [lines[0], lines[1][:9], *lines[2:]], "damaged in line 2"),
        (stale, "format 99"),
        (lambda lines: ["{}"], "not a bitlane run"),
        (
            lambda lines: [json.dumps({"kind": "run", "format": records.FORMAT}), *lines[1:]],
            "lacks what the plots show",
        ),
    ],
)
def test_damaged_run_folders(
    prices: Path,
    fails: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[list[str]], list[str]],
    part: str,
) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "run"]) == 0
    capsys.readouterr()
    damaged(change)
    assert part in fails("plot", "run")


def test_plot_of_nothing(here: Path, fails: Callable[..., str]) -> None:
    assert "no run folder" in fails("plot", "none")
    (here / "empty").mkdir()
    assert "it has no run.jsonl" in fails("plot", "empty")


# --- a disk that fills, an interrupt -------------------------------------------------------------
@pytest.mark.parametrize("failing", ["savez", "draw", "save"])
def test_a_full_disk(prices: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"savez": (np, "savez"), "draw": (train, "draw"), "save": (Checkpoint, "save")}[failing], full)
    message = fails("train", str(prices), "--target", "price", *QUICK, "--out", "deep/run")
    assert "No space left on device" in message


def test_a_file_size_limit(prices: Path, here: Path) -> None:
    """A limit of the operating system, met while the run folder is written."""
    program = (
        "import resource, sys; from bitlane.cli.main import main; import matplotlib.pyplot; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["train", str(prices), "--target", "price", *QUICK, "--out", "run"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bitlane: error: ")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir()) == ["houses.csv", "prices.csv"]


@pytest.mark.parametrize("command", ["train", "compare"])
def test_interrupt(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare if command == "compare" else train, "draw", interrupted)
    assert main([command, str(prices), "--target", "price", *QUICK, "--out", "deep/run"]) == 130
    assert capsys.readouterr().out == ""
    assert sorted(os.listdir()) == ["houses.csv", "prices.csv"]


def test_an_interrupt_while_it_trains(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an epoch of a resumed training: what was there stays as it was, and nothing is added."""
    source = ["train", str(prices), "--device", "emulator"]
    assert main([*source, "--target", "price", "--epochs", "2", "--out", "run"]) == 0
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    @contextlib.contextmanager
    def progress(*_: Any) -> Any:
        def advance(epoch: int, _: float) -> None:
            if epoch == 3:
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(train, "progress", progress)
    assert main([*source, "--resume", "run", "--epochs", "5", "--out", "run"]) == 130
    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_reader_that_stops_reading(here: Path) -> None:
    program = [sys.executable, "-m", "bitlane.cli", "datasets"]
    done = subprocess.run(["sh", "-c", f"{' '.join(program)} | head -c 1"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
