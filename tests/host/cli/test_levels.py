"""`bitlane levels`: its table, its plot, and errors for bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.cli import levels
from bitlane.cli.main import main

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")


def test_levels_prints_and_draws(prices: Path, drawn: None, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["levels", str(prices), "--target", "price", "--bits", "6"]
    assert main(source) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert "prices.csv: 60 rows, 2 features that vary; double sampling, 6 bits a feature: 17 levels" in " ".join(
        printed.split()
    )
    cells = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(("rooms", "age"))}
    assert cells["rooms"][1:] == ["0", "0"]  # 8 distinct values
    uniform, optimal, over = map(float, cells["age"])
    assert 0 < optimal < uniform and over == pytest.approx(optimal / uniform, rel=1e-2)
    before = sorted(os.listdir())
    assert main([*source, "--out", "l.png"]) == 0
    assert capsys.readouterr().out == f"{printed}\nwritten to l.png\n"
    assert Path("l.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == sorted([*before, "l.png"])


def test_levels_draws_the_features_with_the_largest_savings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_levels_need_only_numpy(here: Path, seed: int) -> None:
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
        (["--bits", "5"], "--bits 5 cannot be stored: choose an even number from 2 to 32"),
        (["--bits", "0"], "--bits 0"),
        (["--bits", "34"], "--bits 34"),
        (["--bits", "few"], "invalid int value: 'few'"),
        (["--bits", "10"], "too many levels to plot (257): use --bits 8 or less"),
        (["--target", "pric"], "did you mean price?"),
        (["--epochs", "3"], "unrecognized arguments: --epochs 3"),
        (["--out", "l.svg"], "--out l.svg: the plot is a PNG"),
        (["--out", "."], "--out .: not a file name"),
        (["--out", "none/l.png"], "--out none/l.png: not a file name in an existing folder"),
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
        ("a,y\n7,2\n7,4\n7,6\n", "every column is constant"),
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
