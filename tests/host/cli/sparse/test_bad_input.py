"""Bad input of `bitlane sparse`: one clear line with file and row, exit status 2, and nothing left behind."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.sparse_training import files_of

from bitlane.cli.main import main
from bitlane.sparse.training import checkpoint

Fails = Callable[..., str]


def write(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


CSV = "label,user,price\n" + "1,a,0.5\n0,b,0.25\n" * 50
LIBSVM = "1 3:1 7:0.5\n0 3:1\n" * 50
GZIP = gzip.compress(os.urandom(1 << 15).hex().encode())


@pytest.mark.parametrize(
    ("name", "content", "arguments", "words"),
    [
        ("rows.csv", CSV, ["--target", "clicked"], ["rows.csv", "no label column 'clicked'"]),
        ("rows.csv", CSV, ["--numeric", "prize"], ["rows.csv", "no column 'prize'"]),
        ("rows.csv", CSV + "2,a,0.5\n", [], ["rows.csv", "row 101", "label 2 is neither 0 nor 1"]),
        ("rows.csv", CSV + "1,a,cheap\n", ["--numeric", "price"], ["rows.csv", "row 101", "cheap"]),
        ("rows.csv", CSV + "1,a\n", [], ["rows.csv"]),
        ("rows.csv", "label,user\n", [], ["rows.csv", "no rows"]),
        ("rows.libsvm", LIBSVM + "2 3:1\n", [], ["rows.libsvm", "line 101", "label 2"]),
        ("rows.libsvm", LIBSVM + "1 3:x\n", [], ["rows.libsvm", "line 101"]),
        ("rows.libsvm", LIBSVM + "1 3:nan\n", [], ["rows.libsvm", "line 101"]),
        ("rows.libsvm", "", [], ["rows.libsvm", "is empty"]),
        ("rows.libsvm.gz", GZIP[: len(GZIP) // 2], [], ["rows.libsvm.gz"]),
        ("rows.parquet", b"PAR1" + bytes(100), [], ["rows.parquet"]),
        ("rows.npz", b"PK", [], ["rows.npz"]),
        ("rows.ffm", "1 0:1:1\n0 9:1:1\n", ["--model", "ffm", "--fields", "4"], ["rows.ffm", "line 2", "field 9"]),
        ("rows.txt", "1 0:1:1\n", [], ["rows.txt", "unknown format"]),
    ],
)
def test_bad_data(fails: Fails, name: str, content: str | bytes, arguments: list[str], words: list[str]) -> None:
    error = fails("sparse", "train", write(name, content), *arguments, "--out", "runs/new")
    assert [word for word in words if word not in error] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "DATA is missing"),
        (["nowhere.csv"], "no file matches 'nowhere.csv'"),
        (["rows.libsvm", "--model", "svm"], "invalid choice: 'svm'"),
        (["rows.libsvm", "--epochs", "0"], "argument --epochs"),
        (["rows.libsvm", "--learning-rate", "-1"], "--learning-rate"),
        (["rows.libsvm", "--l1", "-1"], "l1"),
        (["rows.libsvm", "--model", "lr", "--dim", "4"], "--dim: lr has none"),
        (["rows.libsvm", "--model", "lr", "--linear-rate", "1"], "--linear-rate: lr has none"),
        (["rows.libsvm", "--hidden", "8,4"], "--hidden: fm has none"),
        (["rows.libsvm", "--fields", "4"], "--fields: fm has none"),
        (["rows.libsvm", "--target", "y"], "--target: "),
        (["rows.libsvm", "--test-fraction", "1.5"], "test fraction of 1.5"),
        (["rows.libsvm", "--test-fraction", "0.1", "--test", "rows.libsvm"], "use either --test or --test-fraction"),
        (["rows.libsvm", "--test", "nowhere.csv"], "no file matches 'nowhere.csv'"),
        (["rows.libsvm", "--follow"], "--follow needs one folder"),
        ([".", "--follow", "--epochs", "2"], "--epochs: a followed folder has one epoch"),
        (["rows.libsvm", "--metrics-port", "x"], "is not a port or HOST:PORT"),
        (["rows.libsvm", "--learning-rate", "1e30"], "lower the learning rate"),
        (["rows.libsvm", "--model", "dnn", "--batch-rows", "1"], "--batch-rows 1"),
    ],
)
def test_bad_arguments(fails: Fails, arguments: list[str], message: str) -> None:
    pytest.importorskip("prometheus_client")
    write("rows.libsvm", LIBSVM.replace("1 ", "1 ", 1))
    assert message in fails("sparse", "train", *arguments, "--out", "runs/new")


def test_a_run_folder_that_is_in_use(trains: Callable[..., str], fails: Fails) -> None:
    write("rows.libsvm", LIBSVM)
    trains("rows.libsvm", "--out", "run")
    assert "continue it with --resume run" in fails("sparse", "train", "rows.libsvm", "--out", "run")
    assert "is not a folder" in fails("sparse", "train", "rows.libsvm", "--out", "rows.libsvm")


def test_bad_data_behind_a_checkpoint_keeps_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 10_000)
    long = " ".join(f"{key}:0.125" for key in range(10, 60))  # the reader checks 4 MiB at a time
    write("rows.libsvm", f"1 {long}\n0 {long}\n" * 12_500 + "2 3:1\n")
    options = ["--checkpoint-rows", "10000", "--out", "run"]
    assert main(["sparse", "train", "rows.libsvm", *options]) == 2
    assert "line 25001" in capsys.readouterr().err
    assert len(os.listdir("run")) == 3
    last = checkpoint.latest(Path("run"))
    assert last is not None and checkpoint.load(last).rows_done in (10_000, 20_000)


def test_a_disk_that_fills_in_a_checkpoint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bitlane.sparse.parameters import storage

    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 10_000)
    write("rows.libsvm", LIBSVM * 300)
    saves: list[int] = []
    original = storage.write_dense

    def fill(*arguments: object) -> object:
        saves.append(1)
        if len(saves) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_dense", fill)
        assert main(["sparse", "train", "rows.libsvm", "--checkpoint-rows", "10000", "--out", "run"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "note: " not in line]
    assert errors == [
        "bitlane: error: run/checkpoint-0000002 cannot be written: No space left on device; "
        "the training can resume from run/checkpoint-0000001"
    ]
    assert sorted(os.listdir("run")) == ["checkpoint-0000001", "model", "run.jsonl"]
    assert main(["sparse", "train", "--resume", "run"]) == 0
    assert main(["sparse", "train", "rows.libsvm", "--out", "whole"]) == 0
    run, whole = files_of(Path("run/model")), files_of(Path("whole/model"))
    assert run.pop("training.json") != whole.pop("training.json")  # checkpoint_rows
    assert run == whole


def test_bad_models(trains: Callable[..., str], fails: Fails) -> None:
    data = write("rows.libsvm", LIBSVM)
    for arguments in (["evaluate", "run", data], ["predict", "run", data, "--out", "p.csv"], ["inspect", "run"]):
        assert "no folder run" in fails("sparse", *arguments)
    trains(data, "--out", "run")
    assert "must end with .csv or .parquet" in fails("sparse", "predict", "run", data, "--out", "p.txt")
    assert "existing folder" in fails("sparse", "predict", "run", data, "--out", "nowhere/p.csv")
    write("bad.libsvm", LIBSVM + "1 x\n")
    assert "bad.libsvm, line 101" in fails("sparse", "predict", "run", "bad.libsvm", "--out", "p.csv")
    assert "bad.libsvm, line 101" in fails("sparse", "evaluate", "run", "bad.libsvm")
    Path("run/model/training.json").write_text("{")
    assert "training.json is damaged" in fails("sparse", "inspect", "run")


def test_no_command(fails: Fails) -> None:
    assert "required: COMMAND" in fails("sparse")


def test_libraries_are_named(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    error = fails("sparse", "train", write("rows.libsvm", LIBSVM))
    assert "pip install 'bitlane[sparse]'" in error
