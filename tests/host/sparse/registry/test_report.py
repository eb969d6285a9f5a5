"""Curves of a report, against sums over all rows and scikit-learn."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from bitlane.sparse.registry.checks import Bounds, Evidence, ValidationCheck
from bitlane.sparse.registry.held_out import HeldOutScores
from bitlane.sparse.registry.report import BINS, calibration_curve, report_html, roc_curve
from bitlane.sparse.registry.verdict import Validation

pytestmark = pytest.mark.usefixtures("drawn")


def rows(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=count), 2).astype(np.float32)  # with ties
    return scores, (rng.random(count) < 1 / (1 + np.exp(-scores))).astype(np.float32)


def test_the_roc_curve_passes_through_the_points_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = rows(seed, 400)
    false, true, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    found = roc_curve(scores, labels)
    np.testing.assert_allclose(found, (false, true))
    many, labels = rows(seed, 30_000)
    false, true = roc_curve(many, labels)
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
    assert abs(area - metrics.roc_auc_score(labels, many)) < 1e-4


def test_calibration_bins_have_equal_rows(seed: int) -> None:
    predicted = np.random.default_rng(seed).permutation(np.arange(105) / 105).astype(np.float32)
    mean, label = calibration_curve(predicted, (predicted > 0.5).astype(np.float32))
    parts = np.array_split(np.sort(predicted), BINS)
    np.testing.assert_allclose(mean, [part.mean() for part in parts], rtol=1e-6)
    np.testing.assert_allclose(label, [(part > 0.5).mean() for part in parts], rtol=1e-6)


@pytest.mark.parametrize("kind", ["log_loss", "squared_error", "one class", "NaN", "nothing", "current is NaN"])
def test_each_page_is_complete(seed: int, kind: str) -> None:
    """What cannot be drawn is left out; each image is well-formed SVG within the page."""
    scores, labels = rows(seed, 300)
    loss = "squared_error" if kind == "squared_error" else "log_loss"
    wrong = np.full_like(scores, np.nan)
    if kind == "one class":
        labels = np.zeros_like(labels)
    scored = HeldOutScores(
        labels, (wrong if kind == "NaN" else scores, wrong if "is" in kind else scores), (loss, loss)
    )
    evidence = Evidence([(scored, 0), (scored, 1)], [scores, scores[:0]], [np.full(5, 0.001)])
    if kind == "nothing":
        evidence = Evidence()
    checks = (ValidationCheck("files", False, "5 < 6 & <b>"), ValidationCheck("AUC", True, "good", 0.1, 0.2))
    found = Validation(3, "production", 2, "2024-01-02T03:04:05+00:00", "rows", {"auc": 0.5}, Bounds(), checks)
    page = report_html(found, "models/<ctr>", evidence)
    assert "<b>" not in page and "models/&lt;ctr&gt;" in page and "Version 3 rejected" in page
    images = re.findall(r"base64,([^\"]+)\"", page)
    titles = re.findall(r"<h2>([^<]+)</h2>\n<figure>", page)
    for image in images:
        assert ElementTree.fromstring(base64.b64decode(image)).tag.endswith("svg")
    expected = {"log_loss": 5, "squared_error": 3, "one class": 4, "NaN": 2, "nothing": 0, "current is NaN": 5}
    assert len(images) == len(titles) == expected[kind]
