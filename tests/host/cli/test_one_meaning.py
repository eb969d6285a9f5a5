"""An option means the same in all commands; an old spelling works, and a line names the new one and the version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.reporting import records

for module in ("pandas", "sklearn", "matplotlib", "numba", "pyarrow", "xxhash"):
    pytest.importorskip(module)

QUICK = ["--device", "emulator", "--epochs", "2"]


@pytest.fixture
def clicks(here: Path) -> Path:
    path = here / "clicks.csv"
    path.write_text("click,user\n" + "".join(f"{k % 2},{k % 7}\n" for k in range(60)))
    return path


@pytest.mark.parametrize("command", ["train", "compare"])
def test_an_earlier_run_is_replaced_with_a_note_or_by_overwrite(
    command: str, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bits = ["--bits", "4"] if command == "train" else ["--bits", "4", "--sampling", "double"]
    source = [command, str(prices), "--target", "price", *QUICK, *bits, "--out", "run"]
    note = "bitlane: note: --out run replaces an earlier run: from version 0.2 on this needs --overwrite\n"
    for more, err in ([], ""), ([], note), (["--overwrite"], ""):
        assert main([*source, *more]) == 0
        assert capsys.readouterr().err == err


def test_a_resumed_run_is_not_an_earlier_one(prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(prices), "--target", "price", *QUICK, "--out", "run"]) == 0
    for epochs, out in ("3", []), ("4", ["--out", "run"]):
        assert main(["train", "--resume", "run", "--device", "emulator", "--epochs", epochs, *out]) == 0
    assert capsys.readouterr().err == ""
    assert len(records.read_record("run").lines) == 4


def test_a_sparse_run_is_replaced_by_overwrite(clicks: Path, fails: Callable[..., str]) -> None:
    source = ["sparse", "train", str(clicks), "--target", "click", "--model", "lr", "--out", "run"]
    assert main(source) == 0
    first = Path("run/run.jsonl").read_bytes()
    assert main([*source, "--epochs", "2", "--overwrite"]) == 0
    assert Path("run/run.jsonl").read_bytes() != first


@pytest.mark.parametrize("content", ["chapter.tex", "run.jsonl"])
@pytest.mark.parametrize("command", ["train", "sparse train"])
def test_other_folders_are_never_replaced(
    command: str, content: str, clicks: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("thesis").mkdir()
    (Path("thesis") / content).write_text("notes\n")
    options = ["--model", "lr"] if command == "sparse train" else QUICK
    fails(*command.split(), str(clicks), "--target", "click", *options, "--out", "thesis", "--overwrite")
    assert (Path("thesis") / content).read_text() == "notes\n"


@pytest.mark.parametrize("command", ["train", "compare", "sparse train"])
def test_overwrite_needs_out(command: str, clicks: Path, fails: Callable[..., str]) -> None:
    options = [] if command == "sparse train" else QUICK
    message = fails(*command.split(), str(clicks), "--target", "click", *options, "--overwrite")
    assert "--overwrite needs --out" in message


def test_old_spellings_of_a_sparse_training(clicks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--alpha` is the strength of a penalty, and `--label` a label of a registry: in `sparse train` they end."""
    new = ["--target", "click", "--learning-rate", "0.7"]
    old = ["--label", "click", "--alpha", "0.7"]
    for name, options in (("new", new), ("old", old)):
        capsys.readouterr()
        assert main(["sparse", "train", str(clicks), "--model", "lr", *options, "--out", name]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bitlane: ")]
    assert notes == [
        "bitlane: note: --label is an old spelling, which ends in version 0.2: use --target",
        "bitlane: note: --alpha is an old spelling, which ends in version 0.2: use --learning-rate",
    ]
    for name in ("new", "old"):
        assert main(["sparse", "predict", name, str(clicks), "--out", f"{name}.csv"]) == 0
    assert Path("new.csv").read_text() == Path("old.csv").read_text()
    assert main(["sparse", "train", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--alpha" not in text and "--label" not in text
