"""`bitlane plan --solver`: its solver, reads and bytes are those of a fit, and it refuses what is of boards."""

import json
import time

import numpy as np
import pytest

from bitlane import EncodedTable, LinearClassifier, LinearRegressor
from bitlane.cli.main import main
from bitlane.solvers.costs import Rate

pytest.importorskip("pandas")
SIZE = ["--rows", "500", "--features", "4"]
TARGET = {"data.csv": ["--target", "y"], "data.bits": []}


def write_table(X, y, name, capsys):
    """Write a csv file, and an encoded table of it."""
    names = ",".join([*"abcde"[: X.shape[1]], "y"])
    np.savetxt("data.csv", np.c_[X, y], delimiter=",", header=names, comments="")
    if name == "data.bits":
        assert main(["encode", "data.csv", "--target", "y", "--out", name]) == 0
        capsys.readouterr()


def planned(capsys, *arguments):
    assert main(["plan", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "squared_hinge", "hinge"])
@pytest.mark.parametrize("name", ["data.csv", "data.bits"])
def test_a_small_file_is_measured_as_a_whole(loss, name, here, capsys, seed):
    """With three classes of which one is rare."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(400, 5))
    y = (X @ random.normal(size=5) > 0).astype(float)
    y[3] = 2
    write_table(X, y, name, capsys)
    found = planned(capsys, name, *TARGET[name], "--solver", "auto", "--loss", loss, "--task", "classification")
    table = EncodedTable.open(name) if name == "data.bits" else X
    solution = LinearClassifier(loss=loss).fit(table, y).solution_
    assert found["data"] == {"name": name, "rows": 400, "features": 5, "models": 3}
    assert found["estimator"] == "LinearClassifier"
    names = ("solver", "reason", "passes", "bytes_read")
    assert [found[each] for each in names] == [getattr(solution, each) for each in names]
    assert 0 < found["seconds"] < 60 and found["measured_rows"] == 400


@pytest.mark.parametrize(
    ("options", "solver", "reason"),
    [
        ([], "gram", "squared errors: one Gram matrix has the solution"),
        (["--loss", "log_loss"], "newton", "log_loss with few columns: exact rows are read a few times"),
        (["--task", "classification", "--penalty", "l1"], "centered", "log_loss with an L1 penalty"),
        (["--loss", "hinge"], "centered", "hinge has no second derivative"),
        (["--solver", "centered"], "centered", "solver='centered'"),
    ],
)
def test_the_solver_and_why(options, solver, reason, capsys):
    found = planned(capsys, *SIZE, "--solver", "auto", *options)
    assert (found["solver"], found["reason"]) == (solver, reason)


def test_many_columns_have_passes(monkeypatch, capsys):
    monkeypatch.setattr("bitlane.solvers.solve.NARROW", 3)
    found = planned(capsys, *SIZE, "--solver", "auto", "--loss", "log_loss")
    assert found["reason"] == "Hessians of 4 columns take longer than passes over codes"


def test_many_models_have_passes(monkeypatch, capsys):
    monkeypatch.setattr("bitlane.solvers.solve.MOST_HESSIANS", 31)
    found = planned(capsys, *SIZE, "--solver", "auto", "--loss", "log_loss", "--models", "3")
    assert found["reason"] == "Hessians of 4 columns for 3 models take too much memory"


def test_a_large_table_is_measured_in_part(capsys, monkeypatch):
    monkeypatch.setattr("bitlane.cli.plan_solver.MEASURED", 1)
    monkeypatch.setattr("bitlane.cli.plan_solver.gram_rates", lambda: (Rate(1, 0, 0), Rate(2, 0, 0)))
    monkeypatch.setattr("bitlane.planning.solver_time.MEASURED", 1)
    size = ["--rows", "1000000", "--features", "3", "--solver", "gram"]
    found = planned(capsys, *size, "--models", "2")
    assert (found["data"]["models"], found["measured_rows"]) == (2, 8192)
    assert found["bytes_read"] == 12_000_000
    assert found["gram_matrix"] == {"floats_seconds": 1, "codes_seconds": 2}
    assert main(["plan", *size]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "LinearRegressor" in lines[0] and "8,192 random rows" in "\n".join(lines)


@pytest.mark.parametrize("name", ["data.csv", "data.bits"])
def test_parts_of_a_file_have_all_its_classes(name, here, capsys, monkeypatch):
    monkeypatch.setattr("bitlane.planning.solver_time.FEW_ROWS", 50)
    monkeypatch.setattr("bitlane.planning.solver_time.MEASURED", 1)
    X, y = np.random.default_rng(0).normal(size=(1000, 2)), np.zeros(1000)
    y[501] = 1.0
    write_table(X, y, name, capsys)
    found = planned(capsys, name, *TARGET[name], "--solver", "auto", "--task", "classification")
    assert found["measured_rows"] == 100 and found["data"]["models"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*SIZE, "--solver", "auto", "--board", "kv260"], "--board needs a plan for SGD on a board: omit --solver"),
        ([*SIZE, "--penalty", "l1"], "--penalty needs --solver"),
        ([*SIZE, "--loss", "squared_hinge"], "--loss squared_hinge needs --solver"),
        (["--rows", "9", "--solver", "auto"], "give a file, the name of a data set, or both --rows and --features"),
        (["t.csv", "--models", "3", "--solver", "auto"], "t.csv has its own rows, features and labels: omit --models"),
        ([*SIZE, "--solver", "gram", "--loss", "hinge"], "is for squared errors, not for"),
    ],
)
def test_what_does_not_fit_together_is_one_line(arguments, message, capsys):
    assert main(["plan", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "features", "loss"), [(600_000, 32, "log_loss"), (200_000, 128, "squared_error")])
def test_the_prediction_is_near_the_time_of_a_fit(rows, features, loss, capsys):
    """Within a factor of four, as other programs may run beside."""
    random = np.random.default_rng(1)
    X = random.standard_normal((rows, features), np.float32)
    y = X @ random.standard_normal(features) / features**0.5 + random.logistic(0, 0.5, rows)
    model = LinearRegressor() if loss == "squared_error" else LinearClassifier()
    labels = y if loss == "squared_error" else y > 0
    for _ in range(3):
        found = planned(capsys, "--rows", str(rows), "--features", str(features), "--solver", "auto", "--loss", loss)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            model.fit(X, labels)
            times.append(time.perf_counter() - begin)
        if 1 / 4 < found["seconds"] / min(times) < 4:
            break
    assert 1 / 4 < found["seconds"] / min(times) < 4
    assert found["solver"] == model.solution_.solver
