"""Validation: each check fails for a version made wrong in just that way, and a label moves only after all passed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_validation import BOUNDS, Validated, failed

pytest.importorskip("matplotlib")

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.registry import checks
from bitlane.sparse.registry.checks import Bounds
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.validation import Inputs, promote, read_validation, report_name, validate
from bitlane.sparse.scoring.model import FrozenModel

QUALITY = ["files", "new rows", "weights", "scores", "calibration"]
COMPLETE = [*QUALITY, "AUC", "log loss", "known values", "answers", "latency", "hook mine"]


@pytest.fixture
def subject(tmp_path: Path, seed: int) -> Validated:
    """Version 1 is in production; version 2 is what is made wrong."""
    subject = Validated(tmp_path / "model", seed)
    subject.publish()
    promote(subject.registry, "production", 1, force=True)
    return subject


def flip_a_bit(subject: Validated) -> None:
    path = Path(subject.registry.uri) / "versions" / "0000002" / "rows-00000.frozen"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def lose_a_file(subject: Validated) -> None:
    (Path(subject.registry.uri) / "versions" / "0000001" / "rows-00000.frozen").unlink()


def learn_wrong_labels(subject: Validated) -> None:
    wrong = replace(subject.train, labels=1 - subject.train.labels)
    for _ in range(3):
        subject.model.learn(wrong)


BEFORE: dict[str, tuple[Callable[[Validated], None], set[str]]] = {
    "NaN": (lambda subject: subject.spoil(np.nan), {"weights", "scores"}),
    "infinity": (lambda subject: subject.spoil(np.inf), {"weights", "scores"}),
    "worse": (learn_wrong_labels, {"AUC", "log loss"}),
    "mis-calibrated": (lambda subject: subject.shift(-3), {"calibration", "log loss"}),
}
AFTER: dict[str, tuple[Callable[[Validated], None], list[str]]] = {
    "flipped bit": (flip_a_bit, ["0000002/rows-00000.frozen is damaged: its SHA-256"]),
    "missing file of the parent": (lose_a_file, ["0000001/rows-00000.frozen is missing"]),
    "both": (lambda subject: [flip_a_bit(subject), lose_a_file(subject)], ["0000001/rows", "0000002/rows"]),
}


def report_of(subject: Validated, version: int) -> str:
    return Path(report_name(subject.registry, version)).read_text()


def test_a_good_version_passes_every_check(subject: Validated) -> None:
    seen: list[object] = []

    def mine(candidate: FrozenModel, current: FrozenModel | None, manifest: Manifest) -> None:
        assert current is not None
        seen.extend([candidate.version, current.version, manifest.version])

    requests = subject.requests()
    subject.model.learn(subject.train)
    found = subject.validate(subject.publish(), recorded=requests, hooks={"mine": mine})
    assert (found.passed, found.problems, found.current) == (True, [], 1)
    assert [check.name for check in found.checks] == COMPLETE
    assert seen == [2, 1, 2]
    assert read_validation(subject.registry, 2) == found
    report = report_of(subject, 2)
    assert "Version 2 passed" in report and report.count("<img") == 5
    assert not re.search(r"(?:src|href)=\"(?!data:)|url\(|@import", report)
    promote(subject.registry, "production", 2, "better")
    assert [(move.version, move.reason) for move in subject.registry.history("production")][-1] == (2, "better")
    assert subject.registry.readers() == {}


@pytest.mark.parametrize("name", BEFORE)
def test_a_bad_model_is_rejected(subject: Validated, name: str) -> None:
    spoil, expected = BEFORE[name]
    spoil(subject)
    found = subject.validate(subject.publish())
    assert set(failed(found)) >= expected and not set(failed(found)) & {"files", "answers", "latency"}
    if name == "mis-calibrated":
        assert set(failed(found)) == expected  # the order of the rows is the same
    expect_rejected(subject, found.problems)


@pytest.mark.parametrize("name", AFTER)
def test_a_damaged_version_is_rejected(subject: Validated, name: str) -> None:
    """Nothing else is checked then. The label names a version that is not damaged."""
    damage, expected = AFTER[name]
    subject.model.learn(subject.train)
    assert subject.publish() == 2
    damage(subject)
    found = validate(subject.registry, 2, subject.inputs(), BOUNDS, label="other")
    assert [check.name for check in found.checks] == failed(found) == ["files"]
    assert all(text in found.problems[0] for text in expected)
    assert "scored" in report_of(subject, 2)
    expect_rejected(subject, found.problems)


def test_a_damaged_manifest_is_a_failed_check(subject: Validated) -> None:
    path = Path(subject.registry.uri) / "versions" / "0000001" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"rows_seen": ', b'"rows_seen": 1'))
    (problem,) = validate(subject.registry, 1, subject.inputs(), BOUNDS, label="other").problems
    assert "manifest.json is damaged" in problem


def expect_rejected(subject: Validated, problems: list[str]) -> None:
    """The record and the report name the problems, and the label stays."""
    record = read_validation(subject.registry, 2)
    assert record is not None and record.problems == problems and not record.passed
    report = report_of(subject, 2)
    assert "Version 2 rejected" in report and report.count('class="failed"') == len(problems)
    with pytest.raises(DataError, match=r"version 2 was rejected: "):
        promote(subject.registry, "production", 2)
    assert subject.registry.label("production") == 1


def test_changed_answers_and_slow_ones_are_rejected(subject: Validated) -> None:
    requests = subject.requests()
    subject.shift(0.5)
    subject.publish()
    moved = float(np.mean([np.abs(subject.model.predict(rows) - answer).mean() for rows, answer in requests]))
    loose = replace(BOUNDS, log_loss_lost=1, miscalibration=1, answer_change=1)
    assert failed(subject.validate(2, loose, recorded=requests)) == []
    tight = replace(loose, answer_change=0.99 * moved)
    found = subject.validate(2, tight, recorded=requests)
    assert failed(found) == ["answers"] and f"{moved:.5f} on average" in found.problems[0]
    assert subject.validate(2, replace(loose, answer_change=1.01 * moved), recorded=requests).passed
    assert failed(subject.validate(2, replace(loose, slowdown=0), recorded=requests)) == ["latency"]


def test_a_busy_machine_rejects_no_version_against_itself(
    subject: Validated, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request takes 40 ms or more, and up to a second where others have the processor."""
    rng, clock, predict = np.random.default_rng(seed), [0.0], FrozenModel.predict

    def predict_slowly(model: FrozenModel, batch: Batch) -> np.ndarray:
        clock[0] += (0.04 + 0.01 * rng.random() + (rng.random() < 0.3) * rng.random()) * slowness[model.version]
        return predict(model, batch)

    monkeypatch.setattr(FrozenModel, "predict", predict_slowly)
    monkeypatch.setattr(checks.time, "perf_counter", lambda: clock[0])
    requests = subject.requests()
    subject.publish()
    slowness = {1: 1.0, 2: 1.0}
    loose, bounds = replace(BOUNDS, slowdown=100), replace(BOUNDS, slowdown=Bounds().slowdown)
    assert failed(subject.validate(1, bounds, recorded=requests)) == []
    assert failed(subject.validate(2, bounds, recorded=requests)) == []
    slowness[2] = 3.0
    assert failed(subject.validate(2, loose, recorded=requests)) == []
    found = subject.validate(2, bounds, recorded=requests)
    assert failed(found) == ["latency"]
    (problem,) = found.problems
    assert re.search(r"ms \(p99\), [23]\.\d+ times as long as the current version: [23]\.\d+ is more than 2$", problem)


def test_without_a_current_version_the_latency_is_shown_only(subject: Validated) -> None:
    found = validate(subject.registry, 1, subject.inputs(recorded=subject.requests()), BOUNDS, label="other")
    (latency,) = (check for check in found.checks if check.name == "latency")
    assert latency.passed and latency.detail.endswith("ms (p99); no version to compare with")


def test_requests_that_the_model_cannot_score_are_rejected(subject: Validated) -> None:
    rows, answer = subject.requests()[0]
    answer = np.full_like(answer, np.nan)
    assert failed(subject.validate(1, recorded=[(rows, answer)])) == ["answers"]
    with pytest.raises(DataError, match="no requests"):
        subject.validate(1, recorded=[])


def test_versions_whose_labels_have_other_names_are_compared_on_the_same_rows(subject: Validated) -> None:
    """Only what changes keys lets a version read the held-out rows on its own."""
    read: list[int] = []

    def batches(manifest: Manifest) -> object:
        read.append(manifest.version)
        return subject.batches()

    columns = {"kind": "columns", "categorical": ["user"], "label": "clicked"}
    for schema in (columns, {**columns, "label": "bought"}, {**columns, "categorical": ["item"]}):
        Publisher(subject.registry, subject.model, {"schema": schema, "label": schema["label"]}).publish()
    promote(subject.registry, "production", 2, force=True)
    inputs = Inputs(batches, "rows.npz")
    assert validate(subject.registry, 3, inputs, BOUNDS).passed and read == [3]
    read.clear()
    assert validate(subject.registry, 4, inputs, BOUNDS).passed and read == [4, 2]


def test_hooks_that_find_problems_fail_or_take_long_are_rejected(subject: Validated) -> None:
    def complains(*_: object) -> list[str]:
        return ["too many keys", "bad <name>"]

    def raises(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    def leaves(*_: object) -> None:
        raise SystemExit(0)

    def sleeps(*_: object) -> None:
        time.sleep(2)

    hooks = {"c": complains, "r": raises, "l": leaves, "s": sleeps, "t": lambda *_: "one", "good": lambda *_: None}
    found = subject.validate(1, replace(BOUNDS, hook_seconds=0.5), hooks=hooks)
    assert found.problems == [
        "hook c: too many keys; bad <name>",
        "hook r: it raised ZeroDivisionError: by zero",
        "hook l: it raised SystemExit: 0",
        "hook s: it took longer than 0.5 s",
        "hook t: one",
    ]
    assert "bad &lt;name&gt;" in report_of(subject, 1)


def test_the_first_version_has_nothing_to_compare_with(tmp_path: Path, seed: int) -> None:
    subject = Validated(tmp_path / "model", seed)
    subject.publish()
    with pytest.raises(DataError, match=r"version 1 was not validated: validate it, or add --force"):
        promote(subject.registry, "production", 1)
    found = subject.validate(1)
    assert found.current is None and [check.name for check in found.checks] == [*QUALITY, "known values"]
    promote(subject.registry, "production", 1)


def test_a_validation_against_another_version_is_not_enough(subject: Validated) -> None:
    """Version 3 was compared with 1; meanwhile version 2 went into production."""
    for version in (2, 3):
        subject.publish()
        assert subject.validate(version).passed
    promote(subject.registry, "production", 2)
    promote(subject.registry, "production", 2)  # again: nothing to compare
    with pytest.raises(DataError, match=r"compared with version 1, but production names version 2 now"):
        promote(subject.registry, "production", 3)
    assert subject.validate(3).current == 2
    promote(subject.registry, "production", 3)


def test_force_promotes_what_was_rejected(subject: Validated) -> None:
    subject.shift(5)
    subject.publish()
    assert not subject.validate(2).passed
    promote(subject.registry, "production", 2, force=True)
    assert subject.registry.label("production") == 2
    with pytest.raises(DataError, match="no version 9"):
        promote(subject.registry, "production", 9, force=True)


def test_mistakes_write_nothing(subject: Validated) -> None:
    """Rows of another kind, a damaged current version, a bad label."""
    subject.publish()
    with pytest.raises(DataError, match="no rows"):
        validate(subject.registry, 2, replace(subject.inputs(), read_held_out=lambda _: []), BOUNDS)
    with pytest.raises(DataError, match="cannot be a label"):
        validate(subject.registry, 2, subject.inputs(), BOUNDS, label="no label")
    with pytest.raises(DataError, match="auc_lost must be at least 0; got -1"):
        Bounds(auc_lost=-1)
    assert read_validation(subject.registry, 2) is None
    assert subject.registry.store.names("validations") == []


@pytest.mark.slow
@pytest.mark.parametrize("place", ["hook", "record.json", "label"])
def test_a_killed_validator_moves_no_label(subject: Validated, seed: int, place: str) -> None:
    subject.publish()
    kill_a_validator(subject, seed, place)
    assert subject.validate(2).passed
    promote(subject.registry, "production", 2)


def test_a_validator_killed_at_its_report_leaves_none(subject: Validated, seed: int) -> None:
    """Version 2 had passed: until the new record is there, it counts as not validated."""
    subject.publish()
    assert subject.validate(2).passed
    before = report_of(subject, 2)
    kill_a_validator(subject, seed, "report.html")
    assert report_of(subject, 2) == before and read_validation(subject.registry, 2) is None


def kill_a_validator(subject: Validated, seed: int, place: str) -> None:
    command = [sys.executable, "-m", "tests.helpers.registry_validator", subject.registry.uri, str(seed), place]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    names = subject.registry.store.names("validations/0000002")
    if place == "label":
        assert done.stdout == "passed\n" and names == ["record.json", "report.html"]
    else:
        assert "record.json" not in names and read_validation(subject.registry, 2) is None
        with pytest.raises(DataError, match="was not validated"):
            promote(subject.registry, "production", 2)
    assert subject.registry.label("production") == 1
