"""Calibrators are the fits of the textbook, are kept with a version, and refused in one line where none can be."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_calibration import miscalibrated, model_of, newton_line, pooled, textbook_probability
from tests.helpers.sparse_registry import saved
from tests.helpers.sparse_validation import Validated

pytest.importorskip("sklearn")

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry.calibrating import fit_calibrator, fit_isotonic, fit_platt, thinned
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.quantizing import choose_levels
from bitlane.sparse.registry.records import from_bytes, to_bytes
from bitlane.sparse.registry.upkeep import compact
from bitlane.sparse.scoring.model import FrozenModel

KINDS = pytest.mark.parametrize("kind", ["platt", "isotonic"])
SHAPES = pytest.mark.parametrize(("rows", "ties"), [(20, False), (20, True), (1000, False), (1000, True)])


@SHAPES
def test_platt_is_newtons_fit(seed: int, rows: int, ties: bool) -> None:
    scores, labels = miscalibrated(seed, rows, ties)
    assert fit_platt(scores, labels) == pytest.approx(newton_line(scores, labels), rel=1e-5, abs=1e-6)


def test_platt_is_finite_where_scores_separate_labels() -> None:
    scores = np.arange(20, dtype=np.float32)
    labels = (scores > 9).astype(np.float32)
    assert fit_platt(scores, labels) == pytest.approx(newton_line(scores, labels), rel=1e-5)


@SHAPES
def test_isotonic_pools_adjacent_violators(seed: int, rows: int, ties: bool) -> None:
    """Probabilities of 0 and 1 become half a label among all rows; nothing else changes."""
    scores, labels = miscalibrated(seed, rows, ties)
    knots, probabilities = fit_isotonic(scores, labels)
    least = 0.5 / (rows + 1)
    for score, mean in pooled(scores, labels).items():
        found = np.interp(score, knots.astype(np.float64), probabilities.astype(np.float64))
        assert found == pytest.approx(min(max(mean, least), 1 - least), rel=1e-6)


def test_thinned_knots_are_off_by_no_more_than_said(seed: int) -> None:
    draw = np.random.default_rng(seed)
    scores = np.unique(draw.normal(size=2000).astype(np.float32))
    probabilities = np.sort(draw.beta(0.3, 2, len(scores)).clip(1e-6, 1 - 1e-6)).astype(np.float32)
    near, levels, error = thinned(scores, probabilities, 40)
    assert len(near) == len(levels) == 40 and error > 0
    dense = np.concatenate([scores, draw.uniform(scores[0] - 1, scores[-1] + 1, 20_000)]).astype(np.float64)
    exact, found = (np.interp(dense, *each) for each in ((scores, probabilities), (near, levels)))
    off = np.maximum(np.abs(np.log(found / exact)), np.abs(np.log((1 - found) / (1 - exact))))
    assert off.max() == pytest.approx(error, rel=1e-5)
    assert thinned(scores, probabilities, 400)[2] < error
    same = thinned(scores, probabilities, len(scores))
    assert same[0] is scores and same[1] is probabilities and same[2] == 0


def test_many_knots_are_thinned_to_500(seed: int) -> None:
    """600 scores, of which score i has i labels of 1 in 601 rows: no two are pooled."""
    labels = (np.arange(601)[None, :] < np.arange(600)[:, None]).astype(np.float32).reshape(-1)
    gaps = 0.01 + np.random.default_rng(seed).exponential(size=600)
    scores = gaps.cumsum().astype(np.float32)
    model, rows = model_of(np.repeat(scores, 601), labels)
    record = fit_calibrator(model, [rows], "isotonic")
    assert len(record["scores"]) == len(record["probabilities"]) == 500
    found = np.array([textbook_probability(record, score) for score in scores[1:].tolist()])
    wanted = np.arange(1, 600) / 601
    off = np.maximum(np.abs(np.log(found / wanted)), np.abs(np.log((1 - found) / (1 - wanted))))
    assert off.max() == pytest.approx(record["error"], abs=2e-5) and 1e-4 < record["error"] < 0.05


@KINDS
@SHAPES
def test_the_record_tells_both_qualities(seed: int, kind: str, rows: int, ties: bool) -> None:
    """Platt's and isotonic log loss are those of scikit-learn; isotonic predictions have the mean of the labels."""
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = miscalibrated(seed, rows, ties)
    model, batch = model_of(scores, labels)
    record = fit_calibrator(model, [batch.slice(0, 7), batch.slice(7, rows)], kind)
    after = np.array([textbook_probability(record, score) for score in scores.tolist()])
    for name, chances in (("before", 1 / (1 + np.exp(-scores.astype(np.float64)))), ("after", after)):
        wanted = {"log_loss": metrics.log_loss(labels, chances), "calibration": chances.mean() / labels.mean()}
        assert record[name] == pytest.approx(wanted, rel=1e-5)
    assert record["held_out_rows"] == rows and json.loads(json.dumps(record)) == record
    if rows == 1000:
        assert record["after"]["calibration"] == pytest.approx(1, abs=0.01)
        assert record["after"]["log_loss"] < record["before"]["log_loss"] + 1e-4


REFUSED = [
    ({"loss": "squared_error"}, "a calibrator needs a model of log_loss; this one has squared_error: publish it wi"),
    ({"labels": [1, 1, 1]}, "the 3 held-out rows all have label 1: a calibrator needs both labels; give other rows"),
    ({"labels": [0, 0, 0]}, "the 3 held-out rows all have label 0: a calibrator needs both labels; give other rows"),
    ({"scores": [2, 2, 2]}, "the scores of the 3 held-out rows are all 2: there is nothing to calibrate; give other"),
    ({"scores": [2, 1, np.nan]}, "the score of held-out row 2 is nan: the model cannot be calibrated"),
    ({"labels": [1, 0, 0]}, "higher scores do not mean more labels of 1 on the 3 held-out rows, "),
]


@KINDS
@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_cannot_be_calibrated_is_one_line(change: dict, message: str, kind: str) -> None:
    given = {"scores": [0, 1, 2], "labels": [0, 1, 1], "loss": "log_loss", **change}
    scores, labels = (np.array(given[name], np.float32) for name in ("scores", "labels"))
    model, rows = model_of(scores, labels, given["loss"])
    with pytest.raises(DataError, match=f"^{re.escape(message)}[^\n]*$"):
        fit_calibrator(model, [rows], kind)


@KINDS
def test_without_scikit_learn_a_line_says_so(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn.linear_model", "sklearn.isotonic"):
        monkeypatch.setitem(sys.modules, name, None)
    model, rows = model_of(*miscalibrated(1, 20))
    message = "--calibrate needs scikit-learn: pip install 'bitlane[datasets]'"
    with pytest.raises(BitlaneError, match=f"^{re.escape(message)}$"):
        fit_calibrator(model, [rows], kind)


class Calibrated(Validated):
    """A registry with a model whose scores are far too high."""

    def __init__(self, folder: Path, seed: int):
        super().__init__(folder / "ctr", seed)
        self._folder = folder / "m"
        self.shift(1.5)

    def publish_model(self, kind: str | None = None, **options: object) -> Manifest:
        def calibrate(model: FrozenModel) -> dict[str, object]:
            assert kind is not None
            return fit_calibrator(model, self.batches(), kind)

        return publish_folder(
            self.registry,
            saved(self._folder, self.model),
            calibrate=None if kind is None else calibrate,
            **options,  # type: ignore[arg-type]
        )


@KINDS
def test_a_delta_has_the_calibrator_of_its_parent(tmp_path: Path, seed: int, kind: str) -> None:
    given = Calibrated(tmp_path, seed)
    registry = given.registry
    first = given.publish_model(kind).description.calibrator
    given.model.learn(given.train)
    assert given.publish_model(parent=1).description.calibrator == first is not None
    assert compact(registry, 2).description.calibrator == registry.manifest(3).description.calibrator == first
    other = given.publish_model("platt" if kind == "isotonic" else "isotonic", parent=2).description.calibrator
    assert other is not None and other["kind"] != kind
    assert given.publish_model(parent=4).description.calibrator == other
    assert given.publish_model().description.calibrator is None
    raw = given.model.scores(given.held_out).tolist()
    after = registry.load(1)
    for version, record in ((2, first), (3, first), (5, other)):
        wanted = [textbook_probability(record, score) for score in raw]
        for model in (registry.load(version), registry.load(version, after=after)):
            np.testing.assert_allclose(model.predict(given.held_out), wanted, rtol=1e-4, atol=1e-6)


@KINDS
def test_validation_measures_calibrated_predictions(tmp_path: Path, seed: int, kind: str) -> None:
    """Both versions have the same weights; answers are held against those of the calibrated one."""
    given = Calibrated(tmp_path, seed)
    given.publish_model()
    record = given.publish_model(kind, parent=1).description.calibrator
    assert record is not None
    plain, calibrated = given.validate(1), given.validate(2, recorded=given.requests())
    assert [check.name for check in plain.checks if not check.passed] == ["calibration"]
    assert plain.metrics["calibration"] == pytest.approx(record["before"]["calibration"])
    for name, value in record["after"].items():
        assert calibrated.metrics[name] == pytest.approx(value)
    checks = {check.name: check for check in calibrated.checks}
    assert checks["calibration"].passed and not checks["answers"].passed
    moved = np.abs(given.registry.load(2).predict(given.held_out) - given.model.predict(given.held_out))[:200]
    assert checks["answers"].figure == pytest.approx(float(moved.mean()), rel=1e-5)


def test_few_bits_are_calibrated_as_they_are_served(tmp_path: Path, seed: int) -> None:
    """Of a base with 2 bits and of a delta, which takes its levels."""
    given = Calibrated(tmp_path, seed)
    rows = given.batches()
    given.publish_model("platt", quantize=lambda model: choose_levels(model, rows, 2, max_loss=9.0))
    given.model.learn(given.train)
    given.publish_model("platt", parent=1, shards=1)
    for version in (1, 2):
        record = given.registry.manifest(version).description.calibrator
        plain = given.registry.load(version)
        plain._calibrator = None
        assert record is not None
        line = newton_line(plain.scores(given.held_out), given.held_out.labels)
        assert (record["slope"], record["intercept"]) == pytest.approx(line, rel=1e-4, abs=1e-5)


def test_another_model_is_refused_before_it_is_calibrated(tmp_path: Path, seed: int) -> None:
    given = Calibrated(tmp_path, seed)
    given.publish_model()
    path = given.registry.folder(1)
    manifest = from_bytes(path.read("manifest.json"), "manifest.json")
    manifest["spec"]["intercept"] = False
    path.replace("manifest.json", to_bytes(manifest))
    with pytest.raises(DataError, match=r"^version 1 has intercept=False, this model True: publish it as a base$"):
        given.publish_model("platt", parent=1)


def test_a_manifest_without_the_entry_is_read_and_a_damaged_one_named(tmp_path: Path, seed: int) -> None:
    given = Calibrated(tmp_path, seed)
    given.publish_model("platt")
    folder = given.registry.folder(1)
    record = from_bytes(folder.read("manifest.json"), "manifest.json")
    record["calibrator"]["slope"] = 0
    folder.replace("manifest.json", to_bytes(record))
    with pytest.raises(DataError, match=r"^the calibrator of version 1 is damaged: slope must be above 0"):
        given.registry.load(1)
    del record["calibrator"]
    folder.replace("manifest.json", to_bytes(record))
    assert given.registry.manifest(1).description.calibrator is None
    np.testing.assert_array_equal(given.registry.load(1).scores(given.held_out), given.model.scores(given.held_out))


def test_weights_are_copies(seed: int) -> None:
    scores, labels = miscalibrated(seed, 300, ties=True)
    weights = np.random.default_rng(seed).integers(1, 5, 300).astype(np.float32)
    copies = np.repeat(np.arange(300), weights.astype(int))
    assert fit_platt(scores, labels, weights) == pytest.approx(fit_platt(scores[copies], labels[copies]), rel=1e-5)
    found, expected = fit_isotonic(scores, labels, weights), fit_isotonic(scores[copies], labels[copies])
    assert np.array_equal(found[0], expected[0]) and np.allclose(found[1], expected[1], rtol=1e-5)
    (model, batch), zeros = model_of(scores, labels), np.zeros(300, np.float32)
    doubled = [replace(batch, weights=weights), replace(batch, labels=1 - labels, weights=zeros)]
    record, plain = (fit_calibrator(model, rows, "platt") for rows in (doubled, [batch.take(copies)]))
    assert record["slope"] == pytest.approx(plain["slope"], rel=1e-5), "rows of weight 0 do not count"
    assert record["after"] == pytest.approx(plain["after"], rel=1e-5) and record["held_out_rows"] == 300
