"""The study of bits: rounding with one scale, the rows of its table, and wrong settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import alike, steps

from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.training.experiment import TrainingHistory
from bitlane.errors import DataError
from bitlane.policies.protocol import FixedBits
from bitlane_studies.papers.mqgrad.bit_widths import SETTINGS, main, rows
from bitlane_studies.papers.mqgrad.one_scale import OneScale, OneScaleReducer
from bitlane_studies.papers.mqgrad.pace import StepTimes

pytestmark = pytest.mark.torch

PACE = StepTimes("100mbit", 1.0, {2: 0.0, 8: 0.0}, {2: 2.0, 8: 8.0})


def test_one_scale_is_unbiased_and_equal_on_all_ranks(seed):
    """The mean over many steps is that of the gradients; each average lies on levels of its largest value."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(1, 3, 64)).astype(np.float32).repeat(4000, axis=0)
    found = steps(OneScale(FixedBits(3), seed), gradients).averages
    assert alike(found)
    mean = gradients[0].mean(axis=0)
    error = found[:, 0].std(axis=0) / len(found) ** 0.5
    assert (np.abs(found[:, 0].mean(axis=0) - mean) < 6 * error + 1e-6).all()
    for average in found[:20, 0]:
        levels = average / np.abs(average).max() * 3
        np.testing.assert_allclose(levels, np.rint(levels), atol=1e-5)


def test_each_parameter_has_its_own_scale():
    layout = layout_of_shapes([(4,), (3,), (2,)])
    reducer = OneScaleReducer(layout, None, 2, 0)
    vector = torch.tensor([1e-3, 1e-3, -1e-3, 0, 7.0, 7.0, -7.0, 0, 0])
    rounded = vector.clone()
    reducer._round(rounded, 5)
    assert torch.equal(rounded, vector)


def history(losses, bits):
    return TrainingHistory(np.array(losses, float), 0.5, 0, 0.0, np.full(len(losses), bits))


def test_rows():
    """Losses that fall to the target after 30 steps, and losses that never do."""
    falls, stays = [5.0] * 30 + [1.0] * 30, [5.0] * 60
    two, eight = [history(falls, 2), history(stays, 2)], [history(falls, 8), history(falls, 8)]
    found = rows({"2 bits": [(PACE, two)], "8 bits": [(PACE, eight)]}, [1.05, 1.05])
    assert found[0] == ["2 bits", "missed by 1 of 2", "2.00", "3.0000", "0.500"]
    assert found[1] == ["8 bits", f"{50 * 9:.2f}", "8.00", "1.0000", "0.500"]


def test_wrong_settings():
    with pytest.raises(DataError, match=f"--only 1 to {len(SETTINGS)}; got 3 and 7"):
        main(["--only", "7"])
    with pytest.raises(DataError, match="--seeds must be 1 or more"):
        main(["--seeds", "0"])
