"""The loss curve of a training on several processes."""

from __future__ import annotations

import numpy as np

from bitlane.reporting.loss_curve import draw_losses, running_mean


def test_running_mean(seed):
    values = np.random.default_rng(seed).standard_normal(100)
    values[[3, 50]] = np.nan
    wanted = [np.nanmean(values[max(0, end - 5) : end]) for end in range(1, 101)]
    np.testing.assert_allclose(running_mean(values), wanted, atol=1e-12)


def test_few_and_no_losses(tmp_path):
    assert running_mean(np.zeros(0)).shape == (0,)
    for number, losses in enumerate(([], [1.0], [1.0, None, 0.5])):
        path = draw_losses(losses, 7, tmp_path / f"{number}.png", "a title")
        assert path.read_bytes().startswith(b"\x89PNG")
