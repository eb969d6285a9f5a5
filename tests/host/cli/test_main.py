"""The command line: lists, help, notes, and a closed output pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bitlane
from bitlane.cli import devices, parser
from bitlane.cli.main import main
from bitlane.cli.parser import OF_STUDIES, all_commands
from bitlane.cli.summaries import SUMMARIES

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def test_lists(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["datasets"]) == 0
    assert "cadata" in capsys.readouterr().out
    unavailable = type("Availability", (), {"name": "rtl", "available": False, "reason": "pip install it"})
    monkeypatch.setattr(devices, "available_devices", lambda: [unavailable])
    assert main(["devices"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split(maxsplit=2) == ["rtl", "no", "pip install it"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bitlane {bitlane.__version__}\n"
    assert main(["train", "--help"]) == 0
    assert "--learning-rate" in capsys.readouterr().out


HEAVY = ("sklearn", "pandas", "pyarrow", "numba", "matplotlib", "scipy", "torch", "amaranth")


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["--help"], ("numpy", "bitlane_studies")),
        ([], ("numpy", "bitlane_studies")),
        (["--version"], ("numpy", "bitlane_studies")),
        (["trian"], ("numpy", "bitlane_studies")),
        (["-v", "sparse", "rollback", "--help"], ()),
        (["devices"], ("bitlane.devices.software",)),
        (["datasets"], ()),
    ],
    ids=" ".join,
)
def test_a_command_imports_nothing_of_the_others(arguments: list[str], more: tuple[str, ...]) -> None:
    program = f"import sys; from bitlane.cli.main import main; main({arguments!r})"
    check = f"print([name for name in {[*HEAVY, *more]} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{program}; {check}"], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_help_has_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for command in all_commands():
        summary = command.summary if command.name in SUMMARIES else "from bitlane_studies"
        assert f"{command.name} {summary}" in text
    assert {command.name: command.summary for command in all_commands() if command.name in SUMMARIES} == SUMMARIES


def test_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{k},7,{k % 3 + 0.5}" for k in range(10))
    (here / "t.csv").write_text(f"a,same,y\n{rows}\n")
    for command in ("train", "compare"):
        assert main([command, "t.csv", "--target", "y", *QUICK]) == 0
        notes = capsys.readouterr().err.splitlines()
        assert all(note.startswith("bitlane: note: ") for note in notes)
        assert sum("--batch-size 16 exceeds the 10 rows" in note for note in notes) == 1
        assert sum("constant" in note for note in notes) == 1


def test_a_closed_output_pipe_is_not_an_error(here: Path) -> None:
    program = [sys.executable, "-m", "bitlane.cli", "datasets"]
    done = subprocess.run(["sh", "-c", f"{' '.join(program)} | head -c 1"], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("name", OF_STUDIES)
def test_a_command_of_the_studies_says_how_to_install_them(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in {command.name for command in all_commands()}
    monkeypatch.setattr(parser, "entry_points", lambda group: [])
    assert main([name]) == 2
    message = f"`bitlane {name}` needs bitlane-studies: pip install ./studies in a checkout of bitlane"
    assert capsys.readouterr() == ("", f"bitlane: error: {message}\n")
