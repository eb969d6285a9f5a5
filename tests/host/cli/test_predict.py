"""`bitlane predict` and `bitlane evaluate`: the bits of the estimator, columns by name, and one line for each fault."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bitlane
from bitlane import SGDClassifier, SGDRegressor
from bitlane.cli.main import main
from bitlane.estimators.saved import model_arrays
from bitlane.reporting import records

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

QUICK = ["--device", "emulator", "--epochs", "2"]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def model(prices: Path) -> Path:
    """A run folder of the prices."""
    assert main(["train", str(prices), "--target", "price", *QUICK, "--seed", "3", "--out", "runs/a"]) == 0
    return Path("runs/a")


def trained(prices: Path) -> tuple[SGDRegressor, np.ndarray, np.ndarray]:
    """The same training without the command line, on numbers that are read without it."""
    table = np.array([[float(row[name]) for name in ("rooms", "age", "price")] for row in rows_of(prices)])
    X, y = table[:, :2], table[:, 2]
    return SGDRegressor(device="emulator", epochs=2, random_state=3).fit(X, y), X, y


@pytest.mark.parametrize("out", ["p.csv", "p.npz", None])
def test_predictions_are_those_of_the_estimator(
    model: Path, prices: Path, out: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator, X, _ = trained(prices)
    capsys.readouterr()
    assert main(["predict", str(model), str(prices), *(["--out", out] if out else [])]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    if out == "p.npz":
        found = np.load("p.npz")["prediction"].tolist()
    else:
        lines = (Path("p.csv").read_text() if out else text).splitlines()
        assert lines[0] == "prediction"
        found = [float(line) for line in lines[1:]]
    assert found == estimator.predict(X).tolist()
    assert bitlane.load(model).coef_.tolist() == estimator.coef_.tolist()
    assert out is None or text == f"60 predictions written to {out}\n"


def test_columns_are_matched_by_name(model: Path, prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(prices)
    Path("moved.csv").write_text(
        "id,age,rooms\n" + "".join(f"{k},{row['age']},{row['rooms']}\n" for k, row in enumerate(rows))
    )
    capsys.readouterr()
    assert main(["predict", str(model), str(prices)]) == 0
    straight = capsys.readouterr()
    assert main(["predict", str(model), "moved.csv"]) == 0
    moved = capsys.readouterr()
    assert moved.out == straight.out and straight.err == ""
    assert moved.err == "bitlane: note: moved.csv: the model does not use column id\n"
    assert main(["predict", str(model), "moved.csv", "--ignore", "id"]) == 0
    assert capsys.readouterr() == straight


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("room,age\n1,2\n", "lacks column rooms, which the model was trained on; did you mean room?"),
        ("age\n1\n", "lacks column rooms"),
        ("rooms,age\n1,old\n", "column 'age' holds text: 'old' in row 1"),
        ("rooms,age\n1,\n", "column 'age' has no value (NaN) in row 1"),
        ("", "is empty"),
    ],
)
def test_rows_that_cannot_be_used(model: Path, fails: Callable[..., str], text: str, part: str) -> None:
    Path("new.csv").write_text(text)
    assert part in fails("predict", str(model), "new.csv", "--out", "p.csv")


def test_labels_for_an_evaluation(model: Path, prices: Path, fails: Callable[..., str]) -> None:
    Path("new.csv").write_text("rooms,age\n1,2\n")
    assert "lacks the target column 'price'" in fails("evaluate", str(model), "new.csv")
    Path("new.csv").write_text("rooms,age,price\n1,2,high\n")
    assert "target 'price' holds text, but the model predicts numbers" in fails("evaluate", str(model), "new.csv")


def test_an_evaluation_is_that_of_the_estimator(model: Path, prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimator, X, y = trained(prices)
    capsys.readouterr()
    assert main(["evaluate", str(model), str(prices)]) == 0
    error = math.sqrt(sum((p - v) ** 2 for p, v in zip(estimator.predict(X).tolist(), y.tolist(), strict=True)) / 60)
    assert capsys.readouterr().out.splitlines() == [
        "data       prices.csv: 60 rows",
        f"R squared  {estimator.score(X, y):.4f}",
        f"RMSE       {error:.5g} label units",
    ]


def test_classes_and_probabilities(houses: Path, fails: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ignore", "price", "--target", "district", "--loss", "log_loss"]
    assert main(["train", str(houses), *options, *QUICK, "--seed", "3", "--out", "a"]) == 0
    assert main(["predict", "a", str(houses), "--out", "p.csv"]) == 0
    rows = rows_of(houses)
    X = np.array([[float(row["rooms"]), float(row["age"])] for row in rows])
    y = np.array([row["district"] for row in rows])
    estimator = SGDClassifier(device="emulator", epochs=2, random_state=3, loss="log_loss").fit(X, y)
    found, expected = rows_of(Path("p.csv")), estimator.predict_proba(X)
    assert list(found[0]) == ["prediction", "probability_north", "probability_south"]
    assert [row["prediction"] for row in found] == estimator.predict(X).tolist()
    for k, name in enumerate(("north", "south")):
        assert [float(row[f"probability_{name}"]) for row in found] == expected[:, k].tolist()
    capsys.readouterr()
    assert main(["evaluate", "a", str(houses)]) == 0
    loss = -sum(math.log(p[label == "south"]) for p, label in zip(expected.tolist(), y, strict=True)) / 60
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"accuracy  {estimator.score(X, y):.4f}",
        f"log loss  {loss:.5g} nats",
    ]
    Path("new.csv").write_text("rooms,age,district\n1,2,east\n")
    assert "label 'east' in row 1 is none of the classes north, south" in fails("evaluate", "a", "new.csv")


def test_missing_values_are_replaced_by_the_means_of_the_training(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.csv").write_text("a,b,y\n1,5,1\n,7,2\n3,9,3\n8,1,4\n")
    assert main(["train", "t.csv", "--target", "y", "--impute", "--task", "regression", *QUICK, "--out", "a"]) == 0
    Path("new.csv").write_text("b,a\n2,\n2,4\n")  # the mean of 1, 3 and 8 is 4
    capsys.readouterr()
    assert main(["predict", "a", "new.csv"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_arrays_need_numpy_alone(here: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    y = X @ [1.0, -2.0, 0.5] + 3.0
    np.savez("t.npz", X=X, y=y)
    np.savez("new.npz", X=X)
    np.save("new.npy", X)
    blocked = "sys.modules.update(dict.fromkeys(['sklearn', 'pandas', 'tqdm', 'scipy', 'pyarrow', 'numba', 'pooch']))"
    program = f"import sys; {blocked}; from bitlane.cli.main import main; sys.exit(main(sys.argv[1:]))"
    model = SGDRegressor(device="emulator", epochs=2, random_state=0).fit(X, y)
    Path("run").mkdir()
    np.savez("run/model.npz", **model_arrays(model, ("x0", "x1", "x2"), "y", None, {}))
    expected = "\n".join(["prediction", *map(repr, model.predict(X).tolist())]) + "\n"
    for data in ("t.npz", "new.npz", "new.npy"):
        command = [sys.executable, "-c", program, "predict", "run", data]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", expected)
    np.savez("wide.npz", X=X[:, :2])
    command = [sys.executable, "-c", program, "predict", "run", "wide.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "wide.npz has 2 features, but the model was trained on 3" in done.stderr and done.returncode == 2


def test_a_share_of_the_rows_is_held_out(houses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ignore", "price", "--target", "district", "--test-fraction", "0.25", *QUICK, "--seed", "5"]
    assert main(["train", str(houses), *options, "--out", "a"]) == 0
    out = capsys.readouterr().out
    record = records.read_record("a")
    labels = [row["district"] for row in rows_of(houses)]
    held = sum(round(0.25 * labels.count(label)) for label in set(labels))
    assert record.header["data"]["held_out"] == held and record.header["data"]["rows"] == 60 - held
    assert f"{60 - held} rows, 2 features, target district; {held} rows held out" in out
    assert f"{record.end['score_held_out']:.4f} on held-out rows" in out
    assert record.header["data"]["source"]["test_fraction"] == 0.25
    assert main(["train", "--resume", "a", "--epochs", "3", "--device", "emulator"]) == 0  # the same rows are held out
    assert len(records.read_record("a").lines) == 3


def test_data_with_held_out_rows_has_no_other(here: Path, fails: Callable[..., str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2))
    np.savez("t.npz", X_train=X[:15], y_train=X[:15, 0], X_test=X[15:], y_test=X[15:, 0])
    message = fails("train", "t.npz", "--task", "regression", "--test-fraction", "0.2", *QUICK)
    assert "--test-fraction: t.npz has held-out rows; omit the option" in message
    assert main(["train", "t.npz", "--task", "regression", *QUICK, "--out", "a"]) == 0
    assert main(["predict", "a", "t.npz", "--out", "p.npz"]) == 0
    assert len(np.load("p.npz")["prediction"]) == 5
