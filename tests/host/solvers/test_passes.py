"""A pass over coded rows: sums against float64, and the same bits with numpy, threads and all vector instructions."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from bitlane.encoded.coded_rows import CodedArray, CodeScale
from bitlane.solvers import passes
from bitlane.solvers.losses import KINDS, SmoothLoss
from bitlane.solvers.passes import PassModels, PassSums, RowOutputs, run_pass
from bitlane.support import c_library


class Case:
    """Random rows and models of a loss."""

    def __init__(self, rng: np.random.Generator, loss: str):
        rows, columns, count = int(rng.integers(1, 900)), int(rng.integers(1, 80)), int(rng.integers(1, 8))
        codes = rng.integers(-128, 128, (rows, columns)).astype(np.int8)
        self.rows = CodedArray(codes, CodeScale(np.zeros(columns), np.ones(columns)))
        self.loss = SmoothLoss(loss, float(rng.choice([1.0, 0.25])))
        labels = rng.normal(size=(count, rows)) if loss == "squared_error" else rng.choice([-1.0, 1.0], (count, rows))
        self.models = PassModels(
            rng.standard_normal((count, columns)) / 100,
            rng.standard_normal(count),
            list(labels.astype(np.float32)),
            list(rng.random((count, rows), dtype=np.float32)) if rng.random() < 0.5 else None,
            list(rng.standard_normal((count, rows), dtype=np.float32)) if rng.random() < 0.5 else None,
            rng.random(count) + 0.1,
        )
        self.certificate = np.c_[rng.random((count, 2)), np.zeros(count)]

    def run(self, certify: bool = False, threads: int = 1) -> list[np.ndarray]:
        """All that a pass returns and writes."""
        shape = len(self.models.weights), self.rows.shape[0]
        scores, curvatures = np.zeros((2, *shape), np.float32)
        outputs = RowOutputs(list(scores), list(curvatures))
        sums = run_pass(
            self.rows, self.models, self.loss, outputs, self.certificate if certify else None, threads=threads
        )
        return [*astuple(sums), scores, curvatures]


def textbook(case: Case) -> PassSums:
    """The sums in float64."""
    models = case.models
    codes, y = case.rows.codes.astype(np.float64), np.array(models.targets, np.float64)
    z = models.weights.astype(np.float32).astype(np.float64) @ codes.T + models.bias[:, None]
    z = z if models.offsets is None else z + np.array(models.offsets)
    weights = np.ones_like(z) if models.row_weights is None else np.array(models.row_weights, np.float64)
    h, margin = case.loss.width, y * z
    if case.loss.name == "squared_error":
        losses, slopes = (z - y) ** 2 / 2, z - y
    elif case.loss.name == "log_loss":
        losses, slopes = np.logaddexp(0, -margin), -y / (1 + np.exp(margin))
    elif case.loss.name == "squared_hinge":
        losses, slopes = np.maximum(0, 1 - margin) ** 2, -2 * y * np.maximum(0, 1 - margin)
    else:
        slopes = -y * np.clip((1 - margin) / h + 0.5, 0, 1)
        inside = np.clip(1 - margin, -h / 2, h / 2)
        losses = (inside + h / 2) ** 2 / (2 * h) + np.maximum(1 - margin - h / 2, 0)
    return PassSums(
        (weights * losses).sum(1), (weights * slopes).sum(1), (weights * abs(slopes)).sum(1), (weights * slopes) @ codes
    )


@pytest.mark.parametrize("loss", KINDS)
def test_sums_are_those_of_float64(loss: str, seed: int) -> None:
    case = Case(np.random.default_rng(seed), loss)
    found, expected = case.run()[:4], astuple(textbook(case))
    size = expected[2].max() + 1
    for own, other, scale in zip(found, expected, (size, size, size, 128 * size), strict=True):
        assert np.abs(own - other).max() <= 2e-6 * scale


@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("loss", KINDS)
def test_numpy_has_the_bits_of_compiled_code(
    loss: str, certify: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(np.random.default_rng(seed), loss)
    compiled = case.run(certify)
    monkeypatch.setattr(passes, "c_passes", lambda: None)
    for own, other in zip(compiled, case.run(certify), strict=True):
        np.testing.assert_array_equal(own, other)


def test_threads_have_the_same_bits(seed: int) -> None:
    case = Case(np.random.default_rng(seed), "log_loss")
    for own, other in zip(case.run(), case.run(threads=2), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("flags", [[], ["-mavx2"], ["-mavx2", "-mfma"]])
def test_instruction_sets_have_the_same_bits(flags: list[str], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if flags and not set(c_library.cpu_flags()) & {"-mavx2", "-mavx512f"}:
        pytest.skip("this machine has no AVX2")
    case = Case(np.random.default_rng(seed), "log_loss")
    own = case.run()
    monkeypatch.setattr(c_library, "cpu_flags", lambda: flags)
    kernels = passes.c_passes.__wrapped__()
    monkeypatch.setattr(passes, "c_passes", lambda: kernels)
    for one, other in zip(own, case.run(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_kept_rows_are_copied(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-128, 128, (3000, 700)).astype(np.int8)  # several blocks
    rows = CodedArray(codes, CodeScale(np.zeros(700), np.ones(700)))
    kept = np.flatnonzero(rng.random(3000) < 0.1)
    copied = np.empty((len(kept), 700), np.int8)
    models = PassModels(np.zeros((1, 700)), np.zeros(1), [np.ones(3000, np.float32)])
    run_pass(rows, models, SmoothLoss("log_loss"), RowOutputs(kept=kept, kept_codes=copied))
    np.testing.assert_array_equal(copied, codes[kept])
