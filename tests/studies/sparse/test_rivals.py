"""The other programs of the speed study: those that are here train, and those that are not say how to get them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane_studies.sparse.rivals import FastFM, LibFFM, LibFM, ScikitLearnModels, VowpalWabbit, Workspace, build
from bitlane_studies.sparse.rows import divide


@pytest.fixture
def parts(seed, tmp_path):
    """Rows whose label follows from one key in nine of ten cases."""
    rng = np.random.default_rng(seed)
    rows = 2000
    keys = rng.integers(0, 10, rows)
    labels = (keys % 2) ^ (rng.random(rows) < 0.1)
    rows = Batch(
        keys.astype(np.uint64), np.zeros(rows, np.uint16), np.ones(rows, np.float32), np.arange(rows + 1),
        labels.astype(np.float32),
    )  # fmt: skip
    return divide(rows, tmp_path)


def area_under_curve(labels, scores):
    """By all pairs."""
    above = scores[labels == 1][:, None] - scores[labels == 0]
    return np.mean(above > 0) + np.mean(above == 0) / 2


# The study's penalties suit millions of rows: SGDClassifier's first steps of 1 / alpha would swing on 2,000.
LINEAR = {
    "vowpal_wabbit": (VowpalWabbit, {"alpha": 1.0}),
    "vowpal_wabbit_cached": (lambda: VowpalWabbit("cache"), {"alpha": 1.0}),
    "sgd_classifier": (lambda: ScikitLearnModels("SGDClassifier"), {"alpha": 0.01}),
    "logistic_regression": (lambda: ScikitLearnModels("LogisticRegression"), {"C": 1.0}),
}


@pytest.mark.parametrize(("make", "setting"), LINEAR.values(), ids=LINEAR)
def test_linear_rivals_learn(make, setting, parts, tmp_path):
    contender = make()
    if contender.missing() is not None:
        pytest.skip(contender.missing())
    place = Workspace(tmp_path, (max(os.sched_getaffinity(0)),))
    contender.prepare(parts.train)
    timing = contender.train(setting, 2, parts.train, place)
    assert 0 < timing.seconds < 60
    found = contender.predict(parts.train, parts.test, place)
    assert found.shape == (parts.test.rows.rows,)
    assert np.all((found >= 0) & (found <= 1))
    assert area_under_curve(parts.test.rows.labels, found) > 0.8


def test_vowpal_wabbit_learns_the_same_from_text_and_cache(parts, tmp_path):
    if VowpalWabbit().missing() is not None:
        pytest.skip(VowpalWabbit().missing())
    place, found = Workspace(tmp_path, (max(os.sched_getaffinity(0)),)), []
    for contender in (VowpalWabbit("text"), VowpalWabbit("cache")):
        contender.prepare(parts.train)
        contender.train({"alpha": 1.0}, 2, parts.train, place)
        found.append(contender.predict(parts.train, parts.test, place))
    assert np.array_equal(*found)


def test_missing_programs_say_how_to_get_them(tmp_path):
    assert LibFFM(None, tmp_path).missing().startswith("git clone https://github.com/ycjuan/libffm and give --libffm")
    assert LibFM(None, tmp_path).missing().startswith("git clone https://github.com/srendle/libfm and give --libfm")
    assert "fastfm" in FastFM(None).missing()
    with pytest.raises(BitlaneError, match=r"nowhere is not a folder: git clone "):
        LibFM(tmp_path / "nowhere", tmp_path).missing()


def test_a_program_is_compiled_in_a_copy(tmp_path):
    source, work = tmp_path / "source", tmp_path / "work"
    source.mkdir()
    (source / "Makefile").write_text("greet:\n\tprintf '#!/bin/sh\\necho hello' > greet; chmod +x greet\n")
    assert build(None, work, ("greet",), ".", "the way") == "the way"
    assert build(source, work, ("greet",), ".", "the way") is None
    assert (work / "greet").exists() and not (source / "greet").exists()
    assert build(None, work, ("greet",), ".", "the way") is None
    (source / "Makefile").write_text("other:\n\tfalse\n")
    assert build(source, work, ("other",), ".", "the way").startswith(f"make failed in {source}: ")
