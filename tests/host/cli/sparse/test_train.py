"""`bitlane sparse train`: summary, run folder, resumption, options."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_training import files_of, without_times

from bitlane.cli.main import main
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.training.log import read_log

LABEL = ["--target", "click"]


def table_of(out: str) -> dict[str, list[float]]:
    """The rows of the table in a summary: rows, AUC, log loss, calibration."""
    lines = out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("---"))
    rows = {}
    for line in lines[start + 1 :]:
        if not line:
            break
        name, *values = [part for part in line.split("  ") if part]
        rows[name] = [float(value.replace(",", "")) for value in values if value.strip() != "-"]
    return rows


def test_train_prints_and_writes(clicks: Path, drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--epochs", "2", "--window-rows", "200", "--test-fraction", "0.2", "--out", "runs/fm"]
    assert main(["sparse", "train", str(clicks), *LABEL, *options]) == 0
    out = capsys.readouterr().out
    found = table_of(out)
    assert list(found) == [
        "epoch 1, before learning",
        "epoch 2, before learning",
        "last window, before learning",
        "held-out rows",
    ]
    assert found["epoch 1, before learning"][0] + found["held-out rows"][0] == 600
    assert 0.0 < found["held-out rows"][1] < 1.0
    assert "clicks.csv: fm, " in out
    assert sorted(os.listdir("runs/fm")) == ["checkpoint-0000001", "model", "quality.png", "run.jsonl", "table.png"]
    header, *lines = read_log("runs/fm")
    assert header["model"]["kind"] == "fm"
    assert header["data"]["schema"]["categorical"] == ["user", "item"]
    assert header["data"]["schema"]["numeric"] == ["price"]
    assert [line["kind"] for line in lines[-2:]] == ["end", "test"]
    assert sum(line["rows"] for line in lines if line["kind"] == "window") == 2 * found["epoch 1, before learning"][0]
    assert lines[-1]["auc"] == pytest.approx(found["held-out rows"][1], abs=1e-4)
    assert SparseModel.load("runs/fm/model").rows_seen == lines[-2]["rows_done"]


def test_progress_is_logged_by_verbose(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "train", str(pairs), "--model", "lr", "--window-rows", "300", "-v"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "log loss" in line]
    assert len(lines) == 2
    assert lines[1].startswith("bitlane: epoch 1, 600 rows, AUC 0.")


@pytest.mark.parametrize("model", ["lr", "fm", "ffm"])
def test_the_same_command_gives_the_same_bytes(pairs: Path, model: str) -> None:
    for name in "ab":
        assert main(["sparse", "train", str(pairs), "--model", model, "--shuffle-rows", "100", "--out", name]) == 0
    first, second = (files_of(Path(name, "model")) for name in "ab")
    assert first == second
    assert without_times(read_log("a")) == without_times(read_log("b"))
    assert (
        main(["sparse", "train", str(pairs), "--model", model, "--shuffle-rows", "100", "--seed", "1", "--out", "c"])
        == 0
    )
    assert without_times(read_log("c")) != without_times(read_log("a"))


def test_an_interaction_needs_factors(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each user clicks on items of its parity: no sum of weights says that."""
    found = {}
    for model in ("lr", "fm", "ffm"):
        options = ["--epochs", "30", "--model", model, "--learning-rate", "0.3", "--seed", "1"]
        assert main(["sparse", "train", str(pairs), *options]) == 0
        found[model] = table_of(capsys.readouterr().out)["last window, before learning"][1]
    assert found["lr"] < 0.7 < 0.85 < min(found["fm"], found["ffm"])


@pytest.mark.parametrize(
    ("arguments", "categorical", "numeric"),
    [
        ([], ["user", "item"], ["price"]),
        (["--categorical", "item"], ["item"], ["price"]),
        (["--categorical", "item,price"], ["item", "price"], []),
        (["--categorical", "item", "--numeric", "price"], ["item"], ["price"]),
        (["--ignore", "user,price"], ["item"], []),
    ],
)
def test_columns_by_arguments(clicks: Path, arguments: list[str], categorical: list[str], numeric: list[str]) -> None:
    more = ["--cross", "user,item", "--model", "ffm", "--out", "run"]
    assert main(["sparse", "train", str(clicks), *LABEL, *arguments, *more]) == 0
    header = read_log("run")[0]
    schema = header["data"]["schema"]
    assert (schema["categorical"], schema["numeric"], schema["crosses"]) == (categorical, numeric, [["user", "item"]])
    assert header["model"]["fields"] == len(categorical) + len(numeric) + 1


def test_a_column_named_time_is_no_feature(here: Path) -> None:
    (here / "log.csv").write_text("label,time,user\n" + "".join(f"{n % 2},{n},u{n % 3}\n" for n in range(30)))
    assert main(["sparse", "train", "log.csv", "--out", "run"]) == 0
    schema = read_log("run")[0]["data"]["schema"]
    assert (schema["time"], schema["categorical"]) == ("time", ["user"])


def test_threads_say_that_they_are_not_repeatable(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "train", str(pairs), "--threads", "2", "--epochs", "3"]) == 0
    out, err = capsys.readouterr()
    assert "fm, 1,800 rows learned" in out
    assert err.count("bitlane: note: 2 threads update one table without waiting for each other (Hogwild)") == 1


def test_metrics_are_served(pairs: Path, trains: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    from bitlane.sparse.training.metrics import MetricsServer

    rows: list[int] = []
    monkeypatch.setattr(MetricsServer, "on_rows", lambda _, count: rows.append(count))
    trains(pairs, "--metrics-port", "0", "--window-rows", "400")
    assert rows == [400, 200]


def test_fields_are_counted(pairs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["sparse", "train", str(pairs), "--model", "ffm", "--out", "run"]) == 0
    assert read_log("run")[0]["model"]["fields"] == 2
    assert "--fields" not in capsys.readouterr().err
    monkeypatch.setattr("bitlane.cli.sparse.data.SCANNED_ROWS", 500)
    assert main(["sparse", "train", str(pairs), "--model", "ffm"]) == 0
    assert "2 fields, by the first 600 rows: if there are more, say so by --fields" in capsys.readouterr().err


def test_optimizers(pairs: Path) -> None:
    arguments = ["--optimizer", "sgd", "--learning-rate", "0.05", "--linear-rate", "0.02", "--l2", "0.001"]
    assert main(["sparse", "train", str(pairs), *arguments, "--out", "run"]) == 0
    model = read_log("run")[0]["model"]
    for name, rate in (("linear", 0.02), ("factors", 0.05)):
        assert (model[name]["name"], model[name]["learning_rate"], model[name]["l2"]) == ("sgd", rate, 0.001)
    assert (
        main(["sparse", "train", str(pairs), "--model", "lr", "--learning-rate", "0.7", "--l1", "2", "--out", "lr"])
        == 0
    )
    linear = read_log("lr")[0]["model"]["linear"]
    assert (linear["name"], linear["alpha"], linear["l1"]) == ("ftrl", 0.7, 2.0)


def test_many_epochs_are_not_all_listed(pairs: Path, trains: Callable[..., str]) -> None:
    names = list(table_of(trains(pairs, "--model", "lr", "--epochs", "8")))
    assert names == [*(f"epoch {n}, before learning" for n in (4, 5, 6, 7, 8)), "last window, before learning"]


def test_regression(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "prices.libsvm").write_text("".join(f"{n % 5 * 2} {n % 5}:1\n" for n in range(500)))
    assert main(["sparse", "train", "prices.libsvm", "--loss", "squared_error", "--epochs", "5"]) == 0
    found = table_of(capsys.readouterr().out)
    assert found["epoch 5, before learning"][1] < found["epoch 1, before learning"][1]


def test_a_folder_is_followed(here: Path, trains: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come later are learned; Ctrl-C ends, and a resumed training goes on with what is new."""
    from bitlane.sparse.generator.click_log import ClickLog
    from bitlane.sparse.generator.formats import write_arrow
    from bitlane.sparse.generator.settings import ClickLogSettings
    from bitlane.sparse.training.windows import Window

    log, names = ClickLog(ClickLogSettings(fields=2, keys=50)), ("f0", "f1")

    def segment(number: int) -> None:
        write_arrow(log.batch(1000 * number, 1000), names, Path(f"log/.part-{number}"))
        os.rename(f"log/.part-{number}", f"log/part-{number}.arrow")

    def come(window: Window) -> None:
        number = window.rows_done // 1000
        if number % 3:
            segment(number)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    Path("log").mkdir()
    segment(0)
    arguments = ["log", "--follow", "--window-rows", "1000", "--out", "run"]
    with monkeypatch.context() as patch:
        patch.setattr("bitlane.sparse.training.bookkeeping.describe", lambda window: come(window) or "")
        assert main(["sparse", "train", *arguments]) == 130
        assert [line["rows_done"] for line in read_log("run") if line["kind"] == "window"] == [1000, 2000, 3000]
        segment(3)
        assert main(["sparse", "train", "--resume", "run"]) == 130
    assert [line["rows_done"] for line in read_log("run") if line["kind"] == "window"] == [
        1000 * n for n in range(1, 7)
    ]
    assert SparseModel.load("run/model").rows_seen == 6000
    trains(*(f"log/part-{number}.arrow" for number in range(6)), "--window-rows", "1000", "--out", "whole")
    for name in ("parameters.arrow", "dense.npz"):
        assert Path("run/model", name).read_bytes() == Path("whole/model", name).read_bytes()
    assert without_times(read_log("run")) == without_times(read_log("whole"))


# --- resumption
def resumed(*arguments: str) -> int:
    return main(["sparse", "train", "--resume", "run", *arguments])


def test_a_training_goes_on_to_more_epochs(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--model", "fm", "--shuffle-rows", "150", "--window-rows", "250", "--test-fraction", "0.1"]
    assert main(["sparse", "train", str(pairs), *common, "--epochs", "3", "--out", "whole"]) == 0
    assert main(["sparse", "train", str(pairs), *common, "--epochs", "1", "--out", "run"]) == 0
    capsys.readouterr()
    assert resumed("--epochs", "3") == 0
    assert "epoch 3, before learning" in capsys.readouterr().out
    assert files_of(Path("run/model")) == files_of(Path("whole/model"))
    assert without_times(read_log("run")) == without_times(read_log("whole"))
    assert read_log("run")[-1] == read_log("whole")[-1]  # the held-out rows


def behind_resumption(log: Path) -> int:
    """How many windows the last process has written to a log."""
    return log.read_text().rpartition('"resumed"')[2].count('"window"')


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_bit(seed: int, here: Path, pairs: Path) -> None:
    """SIGKILL at random times of a real training, with checkpoints in the middle of epochs."""
    many = here / "many.ffm"
    many.write_text(pairs.read_text() * 400)
    options = ["--model", "fm", "--epochs", "3", "--shuffle-rows", "7000", "--checkpoint-rows", "50000", "--seed", "5"]
    command = [sys.executable, "-m", "bitlane.cli", "sparse", "train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "host")}
    subprocess.run([*command, str(many), *options, "--out", "whole"], check=True, env=environment, capture_output=True)
    draw, kills, log = random.Random(seed), 0, Path("run/run.jsonl")
    while True:
        begun = log.exists() and log.stat().st_size > 0
        arguments = ["--resume", "run"] if begun else [str(many), *options, "--out", "run"]
        with subprocess.Popen([*command, *arguments], env=environment, stderr=subprocess.PIPE) as process:
            windows = draw.randint(1, 4) if kills < 4 else 1000  # that it trains, before it is killed
            while process.poll() is None and not (log.exists() and behind_resumption(log) >= windows):
                time.sleep(0.002)
            time.sleep(draw.uniform(0.0, 0.05))
            process.kill()
            _, errors = process.communicate()
        if process.returncode >= 0:
            assert process.returncode == 0 or b"the training has already done 3" in errors, errors
            break
        kills += 1
    assert kills >= 1
    assert files_of(Path("run/model")) == files_of(Path("whole/model"))
    assert without_times(read_log("run")) == without_times(read_log("whole"))


@pytest.mark.slow
def test_ctrl_c_ends_with_a_checkpoint(here: Path, pairs: Path) -> None:
    many = here / "many.ffm"
    many.write_text(pairs.read_text() * 400)
    command = [sys.executable, "-m", "bitlane.cli", "sparse", "train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "host")}
    options = ["--epochs", "1000", "--window-rows", "10000", "--out", "run"]
    with subprocess.Popen(
        [*command, str(many), *options], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 300
        log = Path("run/run.jsonl")
        while not (log.exists() and '"window"' in log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    lines = [line for line in errors.splitlines() if "note: " not in line]
    rows = read_log("run")[-1]["rows_done"]
    assert lines == [f"bitlane: interrupted after {rows:,} rows; go on with: bitlane sparse train --resume run"]
    assert read_log("run")[-1]["reason"] == "interrupted"
    assert SparseModel.load("run/model").rows_seen == rows


def test_a_resumed_training_keeps_its_options(
    pairs: Path, trains: Callable[..., str], fails: Callable[..., str]
) -> None:
    trains(pairs, "--out", "run")
    for option in (["--dim", "4"], ["--seed", "1"], ["--out", "other"], ["--drop-zeros"]):
        assert f"{option[0]}: a resumed training keeps" in fails("sparse", "train", "--resume", "run", *option)
    assert "DATA: a resumed training keeps" in fails("sparse", "train", str(pairs), "--resume", "run")
    assert "the training has already done 1" in fails("sparse", "train", "--resume", "run")


def test_other_data_cannot_resume(pairs: Path, trains: Callable[..., str], fails: Callable[..., str]) -> None:
    trains(pairs, "--out", "run")
    with pairs.open("a") as file:
        file.write("1 0:1:1\n")
    assert "differ from those at the start" in fails("sparse", "train", "--resume", "run", "--epochs", "2")


@pytest.mark.parametrize("name", ["model.json", "parameters.arrow", "dense.npz", "progress.json", "window.npz"])
def test_a_damaged_checkpoint_is_one_clear_line(
    pairs: Path, trains: Callable[..., str], fails: Callable[..., str], name: str
) -> None:
    trains(pairs, "--out", "run")
    (file,) = Path("run/checkpoint-0000001").rglob(name)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert "damaged" in fails("sparse", "train", "--resume", "run", "--epochs", "2")


def test_what_cannot_be_resumed(here: Path, fails: Callable[..., str]) -> None:
    assert "is not a run folder of a sparse training" in fails("sparse", "train", "--resume", "nowhere")
    (here / "run.jsonl").write_text(json.dumps({"kind": "run", "format": 2}) + "\n")
    assert "is not the log of a sparse training" in fails("sparse", "train", "--resume", ".")


# --- statistics
def test_statistics_are_features_and_resume_to_the_bit(
    pairs: Path, trains: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", "ffm", "--statistics", "--half-life", "500", "--window-rows", "200", "--test-fraction", "0.2"]
    trains(pairs, *common, "--epochs", "2", "--out", "whole")
    trains(pairs, *common, "--epochs", "1", "--out", "run")
    trains("--resume", "run", "--epochs", "2")
    assert files_of(Path("run/model")) == files_of(Path("whole/model"))
    assert without_times(read_log("run")) == without_times(read_log("whole"))
    header = read_log("run")[0]
    assert (header["model"]["fields"], header["data"]["fields"], header["statistics"]["fields"]) == (6, 2, [0, 1])
    assert main(["sparse", "evaluate", "run", str(pairs), "--test-fraction", "0.2"]) == 0
    assert f"{read_log('run')[-1]['auc']:.4f}" in capsys.readouterr().out
    assert main(["sparse", "inspect", "run"]) == 0
    assert "rate and count of 2 fields, half-life 500 rows; 32 keys" in capsys.readouterr().out


def test_statistics_alone_find_what_is_clicked(here: Path, trains: Callable[..., str]) -> None:
    """One pass over rows whose keys differ in their click rate."""
    lines = [f"{int(n * 7919 % 100 < 10 + 80 * (key % 2))} {key}:1\n" for n in range(4000) for key in [n * n % 101]]
    (here / "rates.libsvm").write_text("".join(lines))
    options = ["--model", "lr", "--window-rows", "1000", "--optimizer", "sgd", "--learning-rate", "0.001"]
    without = table_of(trains("rates.libsvm", *options))["last window, before learning"][1]
    found = table_of(trains("rates.libsvm", *options, "--statistics"))["last window, before learning"][1]
    assert found > without + 0.05


def test_bad_statistics(pairs: Path, fails: Callable[..., str]) -> None:
    assert "--half-life needs --statistics" in fails("sparse", "train", str(pairs), "--half-life", "5")
    assert "--half-life -5" in fails("sparse", "train", str(pairs), "--statistics", "--half-life", "-5")
    assert "--statistics needs labels 0 and 1" in fails(
        "sparse", "train", str(pairs), "--statistics", "--loss", "squared_error"
    )


def test_numbers_of_any_unit_are_learned(here: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=4_000)
    clicks = rng.random(4_000) < 1 / (1 + np.exp(-2 * numbers))
    unit, offset = float(10.0 ** rng.integers(5, 9)), float(rng.integers(-3, 4))
    lines = [f"{int(y)},{unit * (x + offset)!r}" for y, x in zip(clicks, numbers.tolist(), strict=True)]
    (here / "n.csv").write_text("label,n\n" + "\n".join(lines) + "\n")
    for kind in ("lr", "fm"):
        assert main(["sparse", "train", "n.csv", "--model", kind]) == 0
        printed = capsys.readouterr()
        assert "n.csv: label label; numeric n (" in printed.err and "worse than one prediction" not in printed.err
        window = next(line for line in printed.out.splitlines() if line.startswith("epoch 1"))
        assert float(window.split()[-2]) < 0.62  # log loss; that of a constant is 0.69
    assert main(["sparse", "train", "n.csv", "--model", "fm", "--unscaled"]) == 0
    assert "the model is worse than one prediction for all rows: log loss " in capsys.readouterr().err
