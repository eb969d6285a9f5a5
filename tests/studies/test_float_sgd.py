"""Float32 SGD of the studies, against a textbook in float64."""

import numpy as np
import pytest

from bitlane_studies.float_sgd import ScaledTable, run_epoch, steps_of


@pytest.fixture
def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, size=(90, 5)).astype(np.float32)
    X[:, 2] = 7  # constant
    return X, (X @ np.arange(5) + rng.normal(size=90)).astype(np.float32)


def test_an_epoch_takes_the_steps_of_a_textbook(table: tuple[np.ndarray, np.ndarray]) -> None:
    scaled = ScaledTable.of(*table)
    weights, expected = np.zeros(4, np.float32), np.zeros(4)
    step = np.float32(0.01)
    run_epoch(scaled.rows, scaled.labels, weights, 16, step)
    for start in range(0, 90, 16):
        gradient = np.zeros(4)
        for row, label in zip(scaled.rows[start : start + 16], scaled.labels[start : start + 16], strict=True):
            gradient += (sum(a * w for a, w in zip(row, expected, strict=True)) - label) * row
        expected -= step * gradient
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_scores_of_a_model_are_those_of_its_scaled_weights(table: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    """Rows and labels are within [-1, 1]; shuffling keeps each row with its label."""
    X, y = table
    scaled = ScaledTable.of(X, y)
    assert np.abs(scaled.rows).max() <= 1 + 1e-6 and np.abs(scaled.labels).max() <= 1 + 1e-6
    weights = np.random.default_rng(seed).normal(size=4).astype(np.float32)
    coef, intercept = scaled.model(weights)
    unit, middle = scaled.scaling.label_scale[0], scaled.scaling.label_center[0]
    pairs = np.stack([X.astype(float) @ coef + intercept, y], axis=1)
    expected = np.stack([scaled.rows @ weights.astype(float), scaled.labels], axis=1) * unit + middle
    scale = np.abs(pairs).max()
    np.testing.assert_allclose(pairs[pairs[:, 1].argsort()], expected[expected[:, 1].argsort()], atol=1e-4 * scale)


def test_steps_fall_by_a_fifth_each_epoch() -> None:
    np.testing.assert_allclose(steps_of(0.5, 10, 3), [0.05, 0.04, 0.032], rtol=1e-6)
