"""The study of trials: a training with exact averages changes nothing, and the table has means and deviations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bitlane.compress.advice.candidates import parse_candidate
from bitlane_studies.compression.local.tasks import ModelTask
from bitlane_studies.compression.trials import changes, table

pytestmark = pytest.mark.torch


def small_task(seed):
    generator = torch.Generator().manual_seed(seed)
    inputs, targets = torch.randn(300, 4, generator=generator), torch.randint(3, (300,), generator=generator)

    def build(seed):
        torch.manual_seed(seed)
        return nn.Linear(4, 3)

    return ModelTask(build, inputs[:200], targets[:200], inputs[200:], targets[200:])


def test_exact_averages_change_no_loss(seed):
    candidates = [parse_candidate("none"), parse_candidate("topk:density=0.1,error_feedback=False")]
    found = changes(small_task(seed), candidates, 0.01, 70, seed % 1000)
    assert found[0] == pytest.approx(0, abs=1e-5)
    assert (np.abs(found[1]) > 1e-6).all()


def test_the_table():
    found = np.array([[[0.01, 0.02, 0.03]], [[0.03, 0.02, 0.01]]])
    heading, _, row = table([parse_candidate("efsign")], found, 200).splitlines()
    assert heading.split("  ")[-1].strip() == "after 200 steps"
    assert " ".join(row.split()) == "efsign +2.00 +- 1.41 +2.00 +- 0.00 +2.00 +- 1.41"
