"""Options of a training: a one-line error for each bad value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--bits", "7"], "--bits 7"),
        (["--levels", "best"], "invalid choice: 'best'"),
        (
            ["--levels", "optimal", "--bits", "6"],
            "--levels optimal needs double sampling with 3, 4 or 5 bits; got --bits 6",
        ),
        (
            ["--levels", "optimal", "--bits", "32"],
            "--levels optimal needs double sampling with 3, 4 or 5 bits; got --bits 32",
        ),
        (["--levels", "optimal", "--sampling", "naive"], "3, 4 or 5 bits; got --sampling naive"),
        (["--bits", "34"], "--bits 34"),
        (["--bits", "0"], "--bits 0"),
        (["--bits", "four"], "'four' is not an integer, adaptive or mqgrad"),
        (["--bits", "4", "--sampling", "full"], "contradicts"),
        (["--sampling", "tripple"], "invalid choice: 'tripple'"),
        (["--draws", "sometimes"], "--draws: 'sometimes' is not an integer, once or epoch"),
        (["--draws", "0"], "--draws 0"),
        (["--epochs", "0"], "must be at least 1"),
        (["--epochs", "70000"], "--epochs 70000"),
        (["--batch-size", "0"], "must be at least 1"),
        (["--batch-size", "-4"], "must be at least 1"),
        (["--learning-rate", "-1"], "--learning-rate"),
        (["--learning-rate", "nan"], "--learning-rate"),
        (["--learning-rate", "1e9"], "--learning-rate"),
        (["--decay", "0.2"], "--decay 0.2"),
        (["--penalty", "l2", "--alpha", "-1"], "--alpha -1"),
        (["--learning-rate", "fast"], "--learning-rate: 'fast' is not a number or auto"),
        (["--learning-rate", "0.1", "--penalty", "l2", "--alpha", "1e6"], "alpha"),
        (["--learning-rate", "0.1", "--penalty", "l1", "--alpha", "1e6"], "alpha"),
        (["--penalty", "l3"], "invalid choice: 'l3'"),
        (["--loss", "perceptron"], "invalid choice: 'perceptron'"),
        (["--loss", "hinge"], "--loss hinge: choose one of 'squared_error'"),
        (["--bounds", "0"], "--bounds: invalid"),
        (["--bounds", "0,many"], "--bounds: invalid"),
        (["--bounds", "1,0"], "--bounds 1.0,0.0"),
        (["--bounds", "0,none", "--penalty", "l1", "--alpha", "0.1"], "cannot be combined with a penalty"),
        (["--staleness", "2"], "invalid choice: 2"),
        (["--width", "100"], "invalid choice: 100"),
        (["--outputs", "0"], "must be at least 1"),
        (["--outputs", "99"], "--outputs 99"),
        (["--class-weight", "even"], "invalid choice: 'even'"),
        (["--class-weight", "balanced"], "has no classes"),
        (["--device", "tpu"], "--device tpu is unknown"),
        (["--seed", "-1"], "must be at least 0"),
        (["--target", "pric"], "did you mean price?"),
        (["--task", "classification"], "class"),
    ],
)
def test_bad_options(prices: Path, fails: Callable[..., str], arguments: list[str], part: str) -> None:
    if arguments[0] == "--task":
        prices.write_text("rooms,price\n1,3\n2,3\n3,3\n")
    assert part in fails("train", str(prices), "--target", "price", *QUICK, *arguments, "--out", "run")
