"""Calibrators: probabilities of the textbook, in every way to score; scores that are not finite stay visible."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.helpers.sparse_calibration import miscalibrated, model_of, textbook_probability

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.scoring.calibrators import read_calibrator
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.scoring.scorer import Scorer


def random_record(seed: int, kind: str) -> dict[str, object]:
    draw = np.random.default_rng(seed)
    if kind == "platt":
        return {"kind": kind, "slope": float(draw.uniform(0.1, 3)), "intercept": float(draw.normal())}
    count = int(draw.integers(1, 30))
    scores = np.unique(draw.normal(size=count).astype(np.float32))
    levels = np.sort(draw.choice(np.linspace(0.01, 0.99, 12), len(scores))).astype(np.float32)
    return {"kind": kind, "scores": scores.tolist(), "probabilities": levels.tolist()}


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_every_way_to_score_is_calibrated(seed: int, kind: str) -> None:
    record = random_record(seed, kind)
    scores, labels = miscalibrated(seed, 300)
    plain, rows = model_of(scores, labels)
    model = FrozenModel(plain.spec, plain.table, plain.dense, 1, calibrator=read_calibrator(record, "version 1"))
    wanted = [textbook_probability(record, score) for score in scores.tolist()]
    found = model.predict(rows)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(1 / (1 + np.exp(-model.scores(rows).astype(np.float64))), wanted, rtol=2e-6, atol=1e-7)
    assert model.predict_partial(rows)[0].tobytes() == found.tobytes()
    assert Scorer(model).score(rows).predictions.tobytes() == found.tobytes()
    assert (np.diff(model.scores(rows)[np.argsort(scores)]) >= 0).all()


def test_extreme_scores_stay_finite_and_others_visible(seed: int) -> None:
    """A score that is not finite is one afterwards: a check must see it."""
    largest = float(np.finfo(np.float32).max)
    scores = np.array([-largest, largest, np.nan, np.inf, -np.inf], np.float32)
    for kind in ("platt", "isotonic"):
        calibrator = read_calibrator({**random_record(seed, kind), **({"slope": 7.0} if kind == "platt" else {})}, "it")
        assert calibrator is not None
        found = calibrator(scores)
        assert found.dtype == np.float32 and np.isfinite(found[:2]).all() and found[0] <= found[1]
        np.testing.assert_array_equal(found[2:], scores[2:])
        assert len(calibrator(scores[:0])) == 0


KNOTS = {"kind": "isotonic", "scores": [0.0, 1.0], "probabilities": [0.25, 0.5]}
RULE = "its scores must ascend, and its probabilities be above 0, below 1 and never fall"
DAMAGES = [
    ({"kind": "platt", "slope": 1.0}, "is damaged: 'intercept'"),
    (
        {"kind": "platt", "slope": -1.0, "intercept": 0.0},
        "is damaged: slope must be above 0 and finite, intercept finite; got -1 and 0",
    ),
    ({**KNOTS, "scores": [0.0, 0.0]}, f"is damaged: {RULE}"),
    ({**KNOTS, "scores": [0.0, None]}, f"is damaged: {RULE}"),
    ({**KNOTS, "scores": [0.0]}, f"is damaged: {RULE}"),
    ({**KNOTS, "scores": [], "probabilities": []}, f"is damaged: {RULE}"),
    ({**KNOTS, "probabilities": [0.5, 0.25]}, f"is damaged: {RULE}"),
    ({**KNOTS, "probabilities": [0.0, 0.25]}, f"is damaged: {RULE}"),
    ({**KNOTS, "probabilities": [0.5, 1.0]}, f"is damaged: {RULE}"),
    ({"kind": "beta"}, "is of kind 'beta'; known are platt, isotonic"),
    ({}, "is damaged: 'kind'"),
]


@pytest.mark.parametrize(("record", "message"), DAMAGES)
def test_a_damaged_record_is_one_line(record: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(f'the calibrator of version 3 {message}')}$"):
        read_calibrator(record, "version 3")


def test_no_record_is_no_calibrator() -> None:
    assert read_calibrator(None, "version 3") is None
