"""`bitlane sparse publish`, `versions`, `diff`, `compact`, `promote`, `rollback`, `collect`, `repair`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.ray_trainings import TrainingProcess, serving, write_rows

from bitlane.cli.main import main
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.training.log import read_log

LABEL = ["--target", "click"]
REGISTRY = "models/ctr"

Call = Callable[..., str]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `bitlane sparse`, which must succeed; return what it printed."""

    def run(*arguments: object) -> str:
        assert main(["sparse", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `bitlane sparse`, which must fail; return its line of error."""

    def run(*arguments: object) -> str:
        assert main(["sparse", *map(str, arguments)]) != 0
        *_, line = capsys.readouterr().err.splitlines()
        return line.removeprefix("bitlane: error: ")

    return run


@pytest.fixture
def runs(clicks: Path, call: Call) -> tuple[Path, Path]:
    """Two run folders: after one epoch, and after two."""
    call("train", clicks, *LABEL, "--out", "one")
    call("train", clicks, *LABEL, "--epochs", 2, "--out", "two")
    return Path("one"), Path("two")


def test_the_life_of_versions(runs: tuple[Path, Path], clicks: Path, call: Call, fails: Call) -> None:
    one, two = runs
    assert call("publish", one, REGISTRY) == "version 1, base of 33 rows, 0.00 MB\n"
    assert call("promote", REGISTRY, 1, "--force") == "production: version 1\n"
    assert call("publish", two, REGISTRY) == "version 2, delta of version 1: 33 rows changed, 0 deleted, 0.00 MB\n"
    batch = next(open_source(str(clicks), label="click").batches(0))
    expected = SparseModel.load(two / "model").predict(batch)
    assert np.allclose(ModelRegistry(REGISTRY).load(2).predict(batch), expected, atol=1e-6)

    lines = call("versions", REGISTRY).splitlines()
    assert max(map(len, lines)) <= 80
    header, _, first, second = lines[:4]
    assert header.split()[:3] == ["version", "kind", "parent"]
    assert first.split()[:3] == ["1", "base", "-"] and " production " in first
    assert second.split()[:3] == ["2", "delta", "1"] and "production" not in second
    found = json.loads(call("versions", REGISTRY, "--json"))
    assert [each["version"] for each in found["versions"]] == [1, 2] and found["labels"] == {"production": 1}
    windows = [[line for line in read_log(run) if line["kind"] == "window"][-1] for run in runs]
    assert [each["metrics"]["auc"] for each in found["versions"]] == [window["auc"] for window in windows]
    assert found["versions"][0]["data"]["schema"]["categorical"] == ["user", "item"]

    first, _, _, _, last, *_ = call("diff", REGISTRY, "production", "--top", 3).splitlines()
    assert first == "version 1 to version 2, 33 rows: 0 added, 33 changed, 0 deleted"
    assert last.split()[0].isdecimal() and float(last.split()[1]) > 0
    moved = call("promote", REGISTRY, "latest", "--reason", "better", "--force")
    assert moved == "production: version 2, before it version 1\n"
    assert call("compact", REGISTRY).startswith("version 3, base of 33 rows")
    assert call("promote", REGISTRY, 3, "--force") == "production: version 3, before it version 2\n"
    assert call("rollback", REGISTRY) == "production: version 2, before it version 3\n"
    assert call("rollback", REGISTRY, "--reason", "worse") == "production: version 1, before it version 2\n"
    assert fails("rollback", REGISTRY).endswith("cannot be rolled back: it has always named version 1")
    call("promote", REGISTRY, 3, "--force")
    assert call("collect", REGISTRY, "--keep", 1).startswith("removed versions: 2; ")
    assert ModelRegistry(REGISTRY).numbers() == [1, 3]
    assert call("publish", two, REGISTRY) == "version 4, delta of version 3: 0 rows changed, 0 deleted, 0.00 MB\n"
    assert call("publish", two, REGISTRY, "--base", "--shards", 2).startswith("version 5, base of 33 rows")
    assert call("publish", one, REGISTRY, "--parent", 1).startswith("version 6, delta of version 1: 0 rows changed")


def test_what_is_refused(runs: tuple[Path, Path], clicks: Path, call: Call, fails: Call) -> None:
    one, _ = runs
    assert fails("versions", REGISTRY) == f"{REGISTRY} has no version: publish one"
    assert fails("promote", REGISTRY, "latest") == f"{REGISTRY} has no version: publish one"
    assert fails("publish", "nowhere", REGISTRY).startswith("no folder nowhere")
    call("publish", one, REGISTRY)
    assert fails("publish", one, REGISTRY, "--base", "--parent", 1) == "use either --base or --parent, not both"
    assert fails("publish", one, REGISTRY, "--shards", 2).startswith("--shards: a delta has the shards of its")
    call("train", clicks, *LABEL, "--ignore", "price", "--out", "three")
    assert fails("publish", "three", REGISTRY).startswith("version 1 has different hashing settings, numeric=")
    statistics = ["--statistics", "--model", "lr"]
    call("train", clicks, *LABEL, *statistics, "--out", "four")
    assert fails("publish", "four", REGISTRY) == "four: models with statistics cannot be published yet"
    publish = ["--publish", REGISTRY]
    assert fails("train", clicks, *LABEL, "--publish-every", 1) == "--publish-every needs --publish"
    assert "cannot be published yet" in fails("train", clicks, *LABEL, *statistics, *publish)
    assert "must be above 0" in fails("train", clicks, *LABEL, *publish, "--publish-every", 0)
    assert ModelRegistry(REGISTRY).claimed() == [1]


def test_versions_of_a_training(clicks: Path, call: Call) -> None:
    """The last version is the model at the end; a training that is resumed goes on with a base."""
    publish = ["--publish", REGISTRY, "--publish-every", 0.02]
    call("train", clicks, *LABEL, "--epochs", 60, "--window-rows", 200, "--out", "run", *publish)
    registry = ModelRegistry(REGISTRY)
    kinds = [manifest.kind for manifest in registry.versions()]
    assert kinds[0] == "base" and set(kinds[1:]) == {"delta"}
    last = registry.manifest(len(kinds))
    batch = next(open_source(str(clicks), label="click").batches(0))
    model = SparseModel.load(Path("run/model"))
    assert np.allclose(registry.load(last.version).predict(batch), model.predict(batch), atol=1e-6)
    assert (last.description.rows_seen, last.rows) == (60 * 600, len(model.parameters.table))
    assert last.description.metrics["auc"] > 0.5
    call("train", "--resume", "run", "--epochs", 61, "--publish", REGISTRY)
    assert registry.versions()[-1].kind == "base"
    assert call("publish", "run", REGISTRY).splitlines()[0].endswith("0 rows changed, 0 deleted, 0.00 MB")


@pytest.mark.slow
def test_versions_of_a_training_on_ray(here: Path, seed: int, call: Call) -> None:
    """A server that is killed loses its log of changes, and no version; the last version is the model at the end."""
    pytest.importorskip("ray")
    rows = write_rows(here / "rows.ffm", seed, 6000)
    registry, run = ModelRegistry(here / "models"), here / "run"
    options = ["--engine", "ray", "--servers", 2, "--epochs", 50, "--window-rows", 1000, "--out", run]
    training = TrainingProcess(rows, *options, "--publish", registry.uri, "--publish-every", 0.3)
    try:
        training.wait_for(lambda: len(registry.numbers()) >= 3)
        os.kill(serving(run)["servers"][1]["pid"], signal.SIGKILL)
        known = len(registry.numbers())
        training.wait_for(lambda: len(registry.numbers()) >= known + 3)
        assert training.end(signal.SIGINT)[0] == 130
    finally:
        training.close()
    versions = registry.versions()
    assert [manifest.kind for manifest in versions] == ["base"] + ["delta"] * (len(versions) - 1)
    model = SparseModel.load(run / "model")
    assert (versions[-1].rows, versions[-1].description.rows_seen) == (len(model.parameters.table), model.rows_seen)
    batch = next(open_source(str(rows)).batches(0))
    for manifest in versions:
        assert np.isfinite(registry.load(manifest.version).scores(batch)).all()
    last = registry.load(versions[-1].version).predict(batch)
    assert np.allclose(last, model.predict(batch), atol=1e-6)
    assert call("publish", run, registry.uri).endswith(": 0 rows changed, 0 deleted, 0.00 MB\n")


def test_a_mirror_that_is_away_is_a_warning(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is there."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert main(["sparse", "publish", str(runs[0]), REGISTRY, "--mlflow", "http://127.0.0.1:9"]) == 0
    found = capsys.readouterr()
    assert found.out.startswith("version 1, base of 33 rows")
    assert "note: MLflow at http://127.0.0.1:9 was not updated with models/ctr: " in found.err
    assert ModelRegistry(REGISTRY).numbers() == [1]


def test_damage_is_shown_and_set_aside(
    runs: tuple[Path, Path], call: Call, fails: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands for what is not damaged go on; after `repair --mend` all do."""
    one, two = runs
    for run in (one, two):
        call("publish", run, REGISTRY)
    for label, version in (("production", 1), ("production", 2), ("other", 1)):
        call("promote", REGISTRY, version, "--force", "--label", label)
    assert call("repair", REGISTRY) == f"{REGISTRY}: nothing is damaged\n"
    damaged = Path(REGISTRY) / "versions/0000002/manifest.json", Path(REGISTRY) / "labels/other/0000001.json"
    for path in damaged:
        path.write_bytes(b"{}")
    lines = call("versions", REGISTRY).splitlines()
    assert lines[2].split()[:3] == ["1", "base", "-"] and lines[3].split()[:2] == ["2", "damaged"]
    assert [line for line in lines if line.startswith("damaged: ")] == [
        f"damaged: {REGISTRY}/versions/0000002/manifest.json is damaged: it is not a JSON record",
        f"damaged: {REGISTRY}/labels/other/0000001.json is damaged: it is not a JSON record",
        f"damaged: {REGISTRY}/labels/production/0000002.json names version 2, which is damaged",
    ]
    assert lines[-1] == f"see bitlane sparse repair {REGISTRY}"
    assert call("promote", REGISTRY, 1, "--force", "--label", "new") == "new: version 1\n"
    assert "manifest.json is damaged" in fails("publish", one, REGISTRY)
    assert main(["sparse", "repair", REGISTRY]) == 1
    assert capsys.readouterr().out.endswith("\n3 damaged: add --mend to set them aside\n")
    assert all(path.exists() for path in damaged)
    lines = call("repair", REGISTRY, "--mend").splitlines()
    assert lines[3:] == ["production: version 1", f"{REGISTRY}: 3 set aside"]
    assert lines[0].endswith(f"it is not a JSON record; now in {REGISTRY}/damaged/0000001/versions/0000002")
    assert call("repair", REGISTRY) == f"{REGISTRY}: nothing is damaged\n"
    assert call("publish", two, REGISTRY).startswith("version 3, delta of version 1")
    assert call("promote", REGISTRY, 3, "--force") == "production: version 3, before it version 1\n"
    assert call("rollback", REGISTRY).startswith("production: version 1")
    assert call("collect", REGISTRY, "--keep", 1).startswith("removed versions: ")
