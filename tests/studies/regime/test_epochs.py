"""The study of epochs of SGD, on a small table."""

import numpy as np
import pytest

from bitlane_studies.regime import epochs
from bitlane_studies.regime.problems import standardise
from bitlane_studies.regime.tables import dense

pytest.importorskip("scipy")


def test_the_losses_are_near_those_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "REPEATS", 1)
    X, numbers = dense(3000, 8, "numbers")
    standardise(X, shifted=True)
    thirds = np.digitize(numbers[:, 0], np.quantile(numbers, [1 / 3, 2 / 3]))
    classes = np.where(thirds[:, None] == np.arange(3), 1, -1).astype(np.float32)
    lines, of_classes = epochs.compared(X, numbers, classes)
    assert [line[0] for line in lines] == [epochs.BLAS, *(f"SGDRegressor, {b} bits, {s}" for b, s in epochs.WAYS)]
    losses = [float(line[-1]) for line in lines]
    assert max(losses) < 1.1 * min(losses)
    assert len(of_classes) == len(epochs.WAYS)
