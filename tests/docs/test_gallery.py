"""The examples of the gallery: short, quick, and true to their texts."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.bare_python import run_bare
from tests.helpers.places import ROOT

FOLDER = ROOT / "examples" / "gallery"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MOST_LINES = 25  # of code
SECONDS = 120  # on a loaded machine that compiles loops for the first time; a few seconds later
# Shows each figure by the labels of its axes.
SHOWN = """
import runpy, sys
import matplotlib.pyplot as plt
plt.show = lambda: print(*([axis.get_xlabel(), axis.get_ylabel()] for axis in plt.gcf().axes), file=sys.stderr)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def printed_by(script: Path, folder: Path) -> tuple[str, str]:
    """Output and errors of an example, which leaves no file."""
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, script],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout, done.stderr


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"(?<!\w)-?\d[\d,]*\.?\d*", text)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_they_are_short_and_say_what_they_show(script: Path) -> None:
    text = script.read_text()
    module = ast.parse(text)
    title, underline, *prose = ast.get_docstring(module).splitlines()
    assert underline == "=" * len(title)
    assert len(" ".join(prose).split()) > 15
    code = text.splitlines()[module.body[0].end_lineno :]
    assert sum(bool(line) for line in code) <= MOST_LINES


def test_there_are_five_to_seven() -> None:
    assert 5 <= len(SCRIPTS) <= 7


def test_the_first_model_needs_numpy_alone() -> None:
    out = run_bare(f"import runpy; runpy.run_path({str(FOLDER / 'first_fit.py')!r})")
    coefficients, score, costs = out.splitlines()
    assert numbers(coefficients) == pytest.approx([1.0, -2.0, 0.5, 0.0, 3.0, 4.0], abs=0.11)
    assert numbers(score)[-1] > 0.99
    assert len(numbers(costs)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem != "first_fit"], ids=lambda path: path.stem)
def test_their_texts_are_true(script: Path, tmp_path: Path) -> None:
    out, errors = printed_by(script, tmp_path)
    labels = ast.literal_eval(errors.splitlines()[-1])
    assert labels[1] and (labels[0] or script.stem in ("cross_validation", "double_sampling"))  # their ticks are words
    CHECKS[script.stem]([numbers(line.partition(":")[2] or line) for line in out.splitlines()], out)


def check_bits(lines: list[list[float]], _: str) -> None:
    losses, megabytes = zip(*lines, strict=True)
    assert losses[1] / losses[-1] < 1.01  # "four bits lose almost nothing here"
    assert megabytes[-1] / megabytes[1] == pytest.approx(8, abs=0.5)


def check_sampling(lines: list[list[float]], out: str) -> None:
    at_four_bits = [float(re.search(r"4 bits ([\d.]+)", line)[1]) for line in out.splitlines()]
    double, nearest, once = at_four_bits
    assert double < 1.15 < 1.3 < nearest < once


def check_folds(lines: list[list[float]], out: str) -> None:
    means = [float(re.search(r"accuracy ([\d.]+)", line)[1]) for line in out.splitlines()]
    assert means[1] > means[0] and abs(means[1] - means[-1]) < 0.03


def check_resume(_: list[list[float]], out: str) -> None:
    assert out == "same bits: True\n"


def check_clicks(lines: list[list[float]], _: str) -> None:
    (lr, keys, *_), (fm, *_) = lines
    assert fm > lr + 0.1 and keys == pytest.approx(5000, rel=0.02)


def check_cycles(lines: list[list[float]], _: str) -> None:
    waiting, not_waiting = lines
    assert sorted(waiting, reverse=True) == waiting
    assert waiting[0] > 1.5 and max(not_waiting) < 1.15


CHECKS = {
    "bits_and_loss": check_bits,
    "cross_validation": check_folds,
    "cycles": check_cycles,
    "double_sampling": check_sampling,
    "resume": check_resume,
    "sparse_clicks": check_clicks,
}
