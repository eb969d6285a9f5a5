"""A sample of a gradient by group: against numpy, of all groups and of some, and joined from segments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane.compress.codecs import linear
from bitlane.compress.codecs.groups import GROUP, Groups
from bitlane.compress.compressors.group_sample import ROUNDED_GROUPS, SAMPLED_GROUPS, begin_sample
from bitlane.policies.protocol import GroupSample

pytestmark = pytest.mark.torch

CHOICES = (2, 3, 8)


def parts(values, groups):
    return [values[begin:end].astype(np.float64) for begin, end in zip(groups.starts, groups.starts[1:], strict=False)]


def evenly(count, most):
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


@pytest.mark.parametrize("groups", [Groups.of(1), Groups.of(5 * GROUP), Groups.of(400 * GROUP + 9), Groups.of(70, 600)])
def test_sums_are_those_of_numpy(groups, seed):
    """The average overwrites the gradient in place, as compressors do."""
    rng = np.random.default_rng(seed)
    values, average = rng.laplace(size=(2, groups.count)).astype(np.float32)
    vector = torch.from_numpy(values.copy())
    sampler = begin_sample(vector, groups, CHOICES, True)
    vector.copy_(torch.from_numpy(average))
    found, own, of_average = sampler(vector), parts(values, groups), parts(average, groups)
    assert found.average_rounded == 1
    assert found.lengths.tolist() == groups.lengths.tolist()
    np.testing.assert_allclose(found.peaks, [np.abs(part).max() ** 2 for part in own], rtol=1e-6)
    assert found.energy == pytest.approx(sum(part @ part for part in own), rel=1e-5)
    sampled = evenly(len(groups), SAMPLED_GROUPS)
    rounded = sampled[evenly(len(sampled), ROUNDED_GROUPS)]
    assert found.sampled_energy == pytest.approx(sum(own[i] @ own[i] for i in sampled))
    assert found.product == pytest.approx(sum(own[i] @ of_average[i] for i in sampled))
    assert found.rounded_peaks == pytest.approx(sum(len(own[i]) * np.abs(own[i]).max() ** 2 for i in rounded))
    few = np.concatenate([own[i] for i in rounded]).astype(np.float32)
    np.testing.assert_array_equal(found.errors, linear.expected_errors(few, Groups(groups.lengths[rounded]), CHOICES))


def test_segments_are_joined_in_their_order(seed):
    rng = np.random.default_rng(seed)
    samples = [
        begin_sample(vector, Groups.of(len(vector)), CHOICES, len(vector) == 700)(vector)
        for vector in map(torch.from_numpy, (rng.normal(size=n).astype(np.float32) for n in (700, 3, 512)))
    ]
    whole = GroupSample.joined(samples)
    assert whole.lengths.tolist() == [512, 188, 3, 512]
    assert whole.peaks.tolist() == [peak for sample in samples for peak in sample.peaks.tolist()]
    for name in ("energy", "sampled_energy", "product", "rounded_peaks"):
        assert getattr(whole, name) == pytest.approx(sum(getattr(sample, name) for sample in samples))
    assert whole.average_rounded == pytest.approx(700 / 1215)
    np.testing.assert_allclose(whole.errors, sum(sample.errors for sample in samples))
