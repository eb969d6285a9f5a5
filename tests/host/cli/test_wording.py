"""Messages name options, not parameters of Python, and names that are near a wrong one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.cli.wording import as_typed

for module in ("pandas", "sklearn", "matplotlib"):
    pytest.importorskip(module)

QUICK = ["--device", "emulator", "--epochs", "2"]
OPTIONS = {"batch_size": "--batch-size", "levels": "--levels", "bounds": "--bounds", "seed": "--seed", "bits": "--bits"}


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("batch_size=16 exceeds the 10 rows", "--batch-size 16 exceeds the 10 rows"),
        ("levels='optimal' needs 3 bits; got bits=8", "--levels optimal needs 3 bits; got --bits 8"),
        ('use levels="optimal"', "use --levels optimal"),
        ("bounds=(1.0, 0.0): the low one", "--bounds 1.0,0.0: the low one"),
        ("bounds=(None, 0.5)", "--bounds none,0.5"),
        ("random_state=-1 must be", "--seed -1 must be"),
        ("batch_size must be 1; see batch_size.csv", "--batch-size must be 1; see batch_size.csv"),
        ("fractions: use a regressor for them", "fractions: use --task regression for them"),
        ("depth=3 is no option, nor is x == y or a=b.csv", "depth=3 is no option, nor is x == y or a=b.csv"),
    ],
)
def test_parameters_become_options(message: str, typed: str) -> None:
    assert as_typed(message, OPTIONS) == typed
    assert as_typed(message, {}) == message


@pytest.mark.parametrize(
    "options",
    [
        ["--bits", "7"],
        ["--levels", "optimal", "--bits", "6"],
        ["--bits", "4", "--sampling", "full"],
        ["--draws", "0"],
        ["--learning-rate", "-1"],
        ["--learning-rate", "0.1", "--penalty", "l2", "--alpha", "1e6"],
        ["--decay", "0.2"],
        ["--bounds", "1,0"],
        ["--loss", "hinge"],
        ["--model-bits", "99"],
        ["--gradient-bits", "1"],
        ["--outputs", "99"],
        ["--device", "tpu"],
        ["--task", "classification"],
        ["--batch-size", "70"],
    ],
    ids=" ".join,
)
def test_no_message_has_python_in_it(options: list[str], prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["train", str(prices), "--target", "price", *QUICK, *options])
    message = capsys.readouterr().err
    assert status == (0 if "--batch-size" in options else 2) and message.count("\n") == 1
    assert not re.search(r"\w=|SGD|scikit|DataError|None|True|fit\b", message), message


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["trian"], "invalid choice: 'trian'; did you mean train"),
        (["qqqq"], "invalid choice: 'qqqq'; choose from encode, train, predict, "),
        (["sparse", "evalute"], "did you mean evaluate or"),
        (
            ["train", "digits", "--tagret", "y"],
            "unrecognized arguments: --tagret y; did you mean --target? (see bitlane train",
        ),
        (["train", "digits", "--batchsize=3"], "did you mean --batch-size?"),
        (
            ["sparse", "train", "x", "--lable", "y"],
            "unrecognized arguments: --lable y (see bitlane sparse train --help)",
        ),
        (["train", "digits", "--sampling", "neerest"], "did you mean nearest?"),
        (["sparse", "train", "x", "--model", "deepfn"], "did you mean deepfm or"),
        (["train", "digist"], "did you mean digits"),
        (["predict", "runs/digist", "digits"], "did you mean digits?"),
        (["sparse", "versions", "runs/digist"], "runs/digist has no version: publish one; did you mean digits?"),
        (["sparse", "evaluate", "runs/digist", "x"], "did you mean digits?"),
        (["sparse", "train", "runs/digist"], "did you mean digits?"),
        (["plot", "runs/digist"], "no run folder runs/digist"),
    ],
)
def test_names_that_are_near(arguments: list[str], part: str, here: Path, fails: Callable[..., str]) -> None:
    for module in ("numba", "pyarrow", "xxhash"):
        pytest.importorskip(module)
    Path("runs/digits").mkdir(parents=True)
    assert part in fails(*arguments)


def test_a_shell_completes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    Path("completion.sh").write_text(capsys.readouterr().out)
    program = """
    source completion.sh
    complete -p bitlane
    COMP_WORDS=(bitlane train digits --te); COMP_CWORD=3; COMP_LINE="bitlane train digits --te"; COMP_POINT=25
    _shtab_bitlane; echo "${COMPREPLY[*]}"
    COMP_WORDS=(bitlane sparse ev); COMP_CWORD=2; COMPREPLY=(); _shtab_bitlane; echo "${COMPREPLY[*]}"
    """
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["--test-fraction", "evaluate"]


def test_completion_needs_shtab(fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    assert "completion needs shtab: pip install 'bitlane[cli]'" in fails("completion", "zsh")


def test_reading_shows_progress_on_a_terminal_only(
    prices: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tqdm")
    source = ["train", str(prices), "--target", "price", *QUICK]
    assert main(source) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(source) == 0
    assert "reading prices.csv" in capsys.readouterr().err
