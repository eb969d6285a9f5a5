"""SSIM equals its definition."""

import sys

import numpy as np
import pytest
import torch

from bitlane.errors import BitlaneError
from bitlane_studies.privacy.similarity import similarity

pytestmark = pytest.mark.torch


def textbook(one, other, span):
    """Return the mean of the expression of Wang et al. over windows of 7 x 7, with sample variances, in float64."""
    c1, c2, found = (0.01 * span) ** 2, (0.03 * span) ** 2, []
    for a, b in zip(one.astype(np.float64), other.astype(np.float64), strict=True):
        for y in range(a.shape[0] - 6):
            for x in range(a.shape[1] - 6):
                p, q = a[y : y + 7, x : x + 7].ravel(), b[y : y + 7, x : x + 7].ravel()
                cov = np.cov(p, q)
                means = (2 * p.mean() * q.mean() + c1) / (p.mean() ** 2 + q.mean() ** 2 + c1)
                found.append(means * (2 * cov[0, 1] + c2) / (cov[0, 0] + cov[1, 1] + c2))
    return np.mean(found)


def test_it_equals_the_definition(seed):
    rng = np.random.default_rng(seed)
    one = rng.uniform(-1, 2, (2, 3, 10, 12)).astype(np.float32)
    other = (one + rng.normal(0, 0.3, one.shape)).astype(np.float32)
    found = similarity(torch.from_numpy(one), torch.from_numpy(other), 3.0)
    assert found == pytest.approx([textbook(a, b, 3.0) for a, b in zip(one, other, strict=True)], abs=1e-4)
    assert similarity(torch.from_numpy(one), torch.from_numpy(one), 3.0) == pytest.approx([1.0, 1.0])


def test_a_missing_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    with pytest.raises(BitlaneError, match=r"SSIM needs scikit-image: pip install './studies\[torch\]'"):
        similarity(torch.zeros(1, 1, 8, 8), torch.zeros(1, 1, 8, 8), 1.0)
