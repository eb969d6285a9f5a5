"""`bitlane sparse validate`, `promote` after a validation, and `publish` in few bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry.registry import ModelRegistry

LABEL = ["--target", "click"]
REGISTRY = "models/ctr"
LOOSE = ["--max-miscalibration", 1, "--max-auc-loss", 1, "--max-log-loss", 1]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run `bitlane sparse`; return the exit status, and the lines of stdout, or the line of an error."""

    def run(*arguments: object) -> tuple[int, list[str]]:
        status = main(["sparse", *map(str, arguments)])
        said = capsys.readouterr()
        lines = said.out.splitlines()
        if status == 2:
            (line,) = said.err.splitlines()
            lines = [line.removeprefix("bitlane: error: ")]
        return status, lines

    return run


@pytest.fixture
def published(clicks: Path, run) -> list[object]:
    """Version 1 after one epoch, version 2 after three; returns the arguments of the held-out rows."""
    for number, epochs in ((1, 1), (2, 3)):
        options = ["--model", "fm", "--test-fraction", 0.3, "--epochs", epochs]
        assert run("train", clicks, *LABEL, *options, "--out", f"run{number}")[0] == 0
        assert run("publish", f"run{number}", REGISTRY)[0] == 0
    return ["--held-out", clicks, "--test-fraction", 0.3]


def test_a_version_passes_and_is_promoted(published, run, drawn: None) -> None:
    report = f"report: {REGISTRY}/validations/0000001/report.html"
    status, lines = run("validate", REGISTRY, 1, *published, *LOOSE)
    assert (status, lines) == (0, ["version 1 passed: 6 checks, no version to compare with", report])
    assert Path(f"{REGISTRY}/validations/0000001/report.html").exists()
    assert run("promote", REGISTRY, 1) == (0, ["production: version 1"])
    status, lines = run("promote", REGISTRY, "latest", *published, *LOOSE)
    assert status == 0 and lines[0] == "version 2 passed: 8 checks, compared with version 1"
    assert lines[2] == "production: version 2, before it version 1"
    printed = " ".join(run("versions", REGISTRY)[1])
    assert printed.count("passed on clicks.csv") == 2


def test_a_rejected_version_is_a_line_a_check(published, run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(here)
    (here / "my_checks.py").write_text(
        "def small(candidate, current, manifest):\n    return [f'{manifest.rows} rows']\n"
    )
    hook = ["--hook", "my_checks:small"]
    status, lines = run("promote", REGISTRY, 1, *published, *LOOSE, "--max-miscalibration", 0, *hook)
    assert status == 1 and lines[0] == "version 1 rejected: 7 checks, no version to compare with"
    assert lines[1].startswith("calibration: mean prediction over mean label is ")
    assert lines[2].startswith("hook my_checks:small: ") and lines[2].endswith(" rows")
    assert ModelRegistry(REGISTRY).labels() == {}
    status, lines = run("promote", REGISTRY, 1)
    assert status == 2 and lines[0].startswith(f"{REGISTRY}: version 1 was rejected: calibration: ")
    assert run("promote", REGISTRY, 1, "--force") == (0, ["production: version 1"])
    rows = Path(REGISTRY) / "versions" / "0000002" / "rows-00000.frozen"
    rows.write_bytes(rows.read_bytes()[:-1])
    status, lines = run("validate", REGISTRY, 2, *published)
    assert status == 1 and lines[1].startswith("files: ") and "rows-00000.frozen is damaged" in lines[1]


def test_recorded_requests_are_replayed(published, clicks: Path, run) -> None:
    pytest.importorskip("bitlane.sparse.serving.recording")
    from bitlane.sparse.serving.recording import Recorder

    batch = next(open_source(str(clicks), label="click").batches(0))
    model = SparseModel.load(Path("run1/model"))
    with Recorder(Path("requests.arrow"), share=1.0) as recorder:
        for start in range(0, 100, 10):
            recorder.add(batch.slice(start, start + 10), model.predict(batch.slice(start, start + 10)), 1)
    requests = ["--requests", "requests.arrow", *published, *LOOSE, "--max-slowdown", 100]
    assert run("validate", REGISTRY, 1, *requests, "--max-answer-change", 1e-6)[0] == 0
    assert run("promote", REGISTRY, 1)[0] == 0  # a version to compare with
    status, lines = run("validate", REGISTRY, 2, *requests, "--max-answer-change", 1e-6, "--max-slowdown", 0)
    assert status == 1 and [line.partition(":")[0] for line in lines[1:3]] == ["answers", "latency"]
    moved = np.abs(SparseModel.load(Path("run2/model")).predict(batch) - model.predict(batch))[:100]
    assert f"moved by {moved.mean():.5f} on average, {moved.max():.5f} at most" in lines[1]


def test_few_bits_are_published_under_a_bound(published, run) -> None:
    publish = ["publish", "run2", REGISTRY, "--base", *published]
    status, lines = run(*publish, "--bits", 8, "--max-loss", 0.5)
    assert status == 0 and lines[1].startswith("version 3, base of") and lines[2].startswith("8 bits lose ")
    registry = ModelRegistry(REGISTRY)
    found = registry.manifest(3).description.quantization
    assert found is not None and (found["bits"], found["levels"], found["max_loss"]) == (8, "nearest", 0.5)
    assert found["held_out_rows"] == registry_rows(published) and set(found["lost"]) == {"auc", "log_loss"}
    status, lines = run(*publish, "--bits", 2, "--max-loss", 0)
    if found["lost"]["auc"] <= 0 and status == 0:  # 2 bits happen to lose nothing
        return
    assert status == 2 and lines[0].startswith("2 bits with nearest levels lose ")
    assert registry.claimed()[-1] in (3, 4) and registry.numbers() == [1, 2, 3]
    status, lines = run(*publish, "--bits", "auto", "--max-loss", 0, "--levels", "uniform")
    assert status == 0 and "; 2 bits would lose " in lines[2]
    assert registry.versions()[-1].description.quantization["bits"] > 2  # type: ignore[index]
    assert run("publish", "run1", REGISTRY)[0] == 0
    last = registry.versions()[-1].description.quantization
    assert last is not None and last["levels"] == "uniform" and last["clipped"] >= 0


def registry_rows(published: list[object]) -> int:
    """Held-out rows, counted by the command that measures them."""
    from bitlane.cli.sparse import data

    settings = {"schema": None, "label": "click", "task": "classification", "fields": None}
    source = data.open_evaluation([str(published[1])], settings, 0.3, labelled=True)
    return sum(batch.rows for batch in source.batches(0))


MISTAKES = [
    (["validate", REGISTRY, 9, "--held-out", "clicks.csv"], f"{REGISTRY} has no version 9; versions: 1, 2"),
    (["validate", REGISTRY, 1, "--held-out", "gone.csv"], "no file matches 'gone.csv'"),
    (
        ["validate", REGISTRY, 1, "--held-out", "clicks.csv", "--hook", "x"],
        "hook 'x' is not package.module:function",
    ),
    (["validate", REGISTRY, 1, "--held-out", "clicks.csv", "--max-auc-loss", -1], "auc_lost must be at least 0"),
    (
        ["validate", REGISTRY, 1, "--held-out", "clicks.csv", "--test-fraction", 0.3, "--requests", "gone"],
        "gone cannot be read",
    ),
    (["validate", REGISTRY, 1, "--held-out", "clicks.csv"], "version 1 has learned held-out rows: all rows of "),
    (["promote", REGISTRY, 1, "--held-out", "clicks.csv", "--test-fraction", 0.2], "version 1 has learned held-out"),
    (["promote", REGISTRY, 1, "--max-auc-loss", 1], "--max-auc-loss needs --held-out"),
    (["promote", REGISTRY, 1, "--hook", "x:y"], "--hook needs --held-out"),
    (["promote", REGISTRY, 1, "--held-out", "clicks.csv", "--force"], "use either --force or --held-out, not both"),
    (["promote", REGISTRY, 1], f"{REGISTRY}: version 1 was not validated: validate it, or add --force"),
    (["publish", "run1", REGISTRY, "--bits", "4"], "--bits needs --held-out"),
    (["publish", "run1", REGISTRY, "--max-loss", "4"], "--max-loss needs --bits"),
    (["publish", "run1", REGISTRY, "--bits", "4", "--held-out", "clicks.csv"], "--bits: a delta has the levels of its"),
]


def test_mistakes_are_one_line(published, run) -> None:
    for arguments, message in MISTAKES:
        status, (line,) = run(*arguments)
        assert status == 2 and line.startswith(message)
    assert not Path(f"{REGISTRY}/validations").exists() and ModelRegistry(REGISTRY).numbers() == [1, 2]
