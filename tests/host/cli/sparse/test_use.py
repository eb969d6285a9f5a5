"""`bitlane sparse evaluate`, `predict`, `inspect` and `generate`; what the command line imports."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.sparse.batches.schema import schema_from_json
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.models.model import SparseModel

LABEL = ["--target", "click"]


@pytest.fixture
def run(clicks: Path) -> Path:
    assert (
        main(["sparse", "train", str(clicks), *LABEL, "--test-fraction", "0.2", "--epochs", "3", "--out", "run"]) == 0
    )
    return Path("run")


def values(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The cells of the table's last row, without its name."""
    return capsys.readouterr().out.partition("\n\nnew rows")[0].splitlines()[-1].split()[1:]


def test_evaluate_is_the_held_out_evaluation(run: Path, clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bitlane.sparse.training.log import read_log

    test = read_log(run)[-1]
    capsys.readouterr()
    for model in (run, run / "model"):
        assert main(["sparse", "evaluate", str(model), str(clicks), "--test-fraction", "0.2"]) == 0
        assert values(capsys) == [
            f"{test['rows']:,}",
            f"{test['auc']:.4f}",
            f"{test['log_loss']:.4f}",
            f"{test['calibration']:.3f}",
        ]
    assert main(["sparse", "evaluate", str(run), str(clicks)]) == 2
    assert f"all rows of {clicks} were learned but for those of --test-fraction 0.2" in capsys.readouterr().err
    assert main(["sparse", "evaluate", str(run), str(clicks), "--allow-learned"]) == 0
    assert values(capsys)[0] == "600"


def test_what_the_model_does_not_know_is_told(run: Path, clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["sparse", "evaluate", str(run), str(clicks), "--allow-learned"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "values that the model knows: 100.0%"
    assert "the model knows" not in printed.err
    other = Path("other.csv")
    other.write_text(re.sub(r",i(\d)", r",item-\1", clicks.read_text()))
    for command in (["evaluate", str(run), str(other)], ["predict", str(run), str(other), "--out", "p.csv"]):
        assert main(["sparse", *command]) == 0
        printed = capsys.readouterr()
        assert printed.out.endswith("values that the model knows: 50.0%; item 0.0%\n")
        assert (
            "the model knows 0.0% of the 600 values of column 'item': are they written as in the training data?"
            in printed.err
        )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_are_those_of_the_model(run: Path, clicks: Path, suffix: str) -> None:
    import pandas

    unlabelled = Path("new.csv")
    unlabelled.write_text("\n".join(line.partition(",")[2] for line in clicks.read_text().splitlines()) + "\n")
    schema = schema_from_json(json.loads((run / "run.jsonl").read_text().splitlines()[0])["data"]["schema"])
    batch = next(open_source(str(clicks), schema=schema).batches(0))
    expected = SparseModel.load(run / "model").predict(batch)
    for data in (clicks, unlabelled):
        assert main(["sparse", "predict", str(run), str(data), "--out", f"p.{suffix}"]) == 0
        table = getattr(pandas, f"read_{suffix}")(f"p.{suffix}")
        assert table.columns.tolist() == ["prediction"]
        np.testing.assert_array_equal(table["prediction"].to_numpy(np.float32), expected)


def test_inspect(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "train", str(pairs), "--model", "lr", "--l1", "1.5", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["sparse", "inspect", "run", "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line[:22].strip(): line[22:] for line in lines[: lines.index("")]}
    assert (facts["kind"], facts["rows learned"], facts["keys"]) == ("lr", "600", "32")
    assert facts["optimizers"] == "linear by ftrl 0.3, l1 1.5"
    assert facts["trained on"] == "clicks.ffm"
    model = SparseModel.load("run/model")
    weights = {
        int(key): float(weight)
        for keys, rows, *_ in model.parameters.table.items()
        for key, weight in zip(keys, model.parameters.weights_of(rows)[:, 0], strict=True)
    }
    zeros = sum(weight == 0 for weight in weights.values())
    assert facts["weights that are 0"] == f"{zeros / 32:.1%} of 32"
    largest = sorted(weights.items(), key=lambda item: -abs(item[1]))[:3]
    assert [line.split() for line in lines[-3:]] == [[str(key), f"{weight:.6g}"] for key, weight in largest]


def test_inspect_without_linear_weights(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "train", str(pairs), "--model", "ffm", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["sparse", "inspect", "run/model"]) == 0
    out = capsys.readouterr().out
    assert "norm of the row" in out
    assert "fields                2" in out


def test_a_model_without_settings(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Python saves it."""
    assert main(["sparse", "train", str(pairs), "--model", "lr", "--out", "run"]) == 0
    Path("saved").mkdir()
    SparseModel.load("run/model").save("saved")
    capsys.readouterr()
    assert main(["sparse", "evaluate", "saved", str(pairs)]) == 0
    without = values(capsys)
    assert main(["sparse", "evaluate", "run", str(pairs), "--allow-learned"]) == 0
    assert values(capsys) == without
    assert main(["sparse", "inspect", "saved"]) == 0


def test_generate_and_train(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rows", "3000", "--keys", "300", "--fields", "3", "--segment-rows", "2000", "--seed", "4"]
    assert main(["sparse", "generate", "log", *arguments]) == 0
    assert "3,000 rows written to log; the true probabilities have AUC 0." in capsys.readouterr().out
    manifest = json.loads(Path("log/_manifest.json").read_text())
    assert (manifest["settings"]["keys"], manifest["settings"]["seed"], len(manifest["segments"])) == (300, 4, 2)
    assert main(["sparse", "train", "log", "--out", "run"]) == 0
    assert "3,000 rows learned" in capsys.readouterr().out
    from bitlane.sparse.training.log import read_log

    assert read_log("run")[0]["data"]["schema"]["categorical"] == ["f0", "f1", "f2"]


def test_generate_refuses(fails: Callable[..., str]) -> None:
    Path("used").mkdir()
    Path("used/file").write_text("")
    assert "used exists and is not an empty folder" in fails("sparse", "generate", "used")
    assert "zipf" in fails("sparse", "generate", "log", "--zipf", "-1")


def test_data_sets_with_held_out_rows_are_evaluated_on_them(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sparse", "train", "a9a", "--model", "lr", "--out", "run"]) == 0
    out = capsys.readouterr().out
    held_out = next(line for line in out.splitlines() if line.startswith("held-out rows"))
    assert held_out.split()[2] == "16,281"
    assert float(held_out.split()[3]) > 0.9
    assert main(["sparse", "evaluate", "run", "a9a"]) == 0
    assert values(capsys) == held_out.split()[2:]


def test_the_commands_import_nothing_heavy() -> None:
    program = (
        "import sys; from bitlane.cli.sparse import command; import argparse; "
        "command.COMMAND.add_arguments(argparse.ArgumentParser()); "
        "print(sorted({'numba', 'pyarrow', 'torch', 'scipy', 'xxhash', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("writer", ["csv.CSVWriter", "parquet.ParquetWriter"])
@pytest.mark.parametrize("place", ["write_table", "close"])
def test_a_full_disk_is_named_with_the_file(
    run: Path,
    clicks: Path,
    writer: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    suffix = writer.partition(".")[0]
    capsys.readouterr()
    kind = type("Writer", (), {"__init__": lambda *_, **__: None, "write_table": print, "close": print, place: fail})
    monkeypatch.setattr(f"pyarrow.{writer}", kind)
    assert main(["sparse", "predict", str(run), str(clicks), "--out", f"p.{suffix}"]) != 0
    message = f"p.{suffix} cannot be written: No space left on device: make room on this disk, then try again"
    assert capsys.readouterr().err == f"bitlane: error: {message}\n"
    assert not list(Path().glob("*p.*"))


def test_a_header_with_blanks_is_quoted(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clicks.write_text(clicks.read_text().replace("click,user,item,price", " wanted,user ,item,price", 1))
    assert main(["sparse", "train", str(clicks), "--target", "y"]) != 0
    assert capsys.readouterr().err.endswith("there are ' wanted', 'user ', item, price\n")
    assert main(["sparse", "train", str(clicks), "--target", " wanted", "--categorical", "user"]) != 0
    assert capsys.readouterr().err.endswith("has no column 'user'; there are 'user ', item, price\n")
