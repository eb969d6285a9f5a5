"""The study of ways to run a compressor: short trainings, and the table of their means."""

from __future__ import annotations

import pytest
import torch

from bitlane.compress.training.experiment import NetworkTraining
from bitlane.compress.training.images import Images
from bitlane.errors import BitlaneError
from bitlane_studies.compression.variants import WAYS, VariantTrial, main, table, trial

pytestmark = pytest.mark.torch


def test_ways_differ_little(seed):
    torch.manual_seed(seed)
    pixels, classes = torch.randn(160, 1, 28, 28), torch.randint(0, 10, (160,))
    images = Images(pixels, classes, pixels[:20], classes[:20])
    training = NetworkTraining("perceptron", ranks=2, batch=8)
    full, half, cut, equal = (trial(training, "topk:density=0.01", way, images) for way in WAYS)
    assert full == trial(training, "topk:density=0.01", "float32", images)
    assert full.loss != half.loss and len({full.loss, cut.loss, equal.loss}) == 3
    assert full.loss == pytest.approx(half.loss, rel=0.05)
    assert full.loss == pytest.approx(cut.loss, rel=0.3)
    assert trial(training, "efsign", "bfloat16", images).loss < 5


def test_the_table_has_the_means():
    trials = {"float32": [VariantTrial(1.0, 0.5), VariantTrial(2.0, 0.7)]}
    trials |= {"bfloat16": [VariantTrial(1.1, 0.4)] * 2, "segments": [VariantTrial(1.2, 0.3)] * 2}
    trials["equal density"] = [VariantTrial(1.3, 0.2)] * 2
    numbers = ["1.5000", "0.6000", "1.1000", "0.4000", "1.2000", "0.3000", "1.3000", "0.2000"]
    assert table({"efsign": trials}).splitlines()[-1].split() == ["efsign", *numbers]


def test_a_wrong_setting_is_one_line():
    with pytest.raises(BitlaneError, match="unknown images 'cats'"):
        main(["--images", "cats"])
