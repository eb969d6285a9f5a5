"""The advised settings: the same batches in the trial and in the training, and rates that fall at the end."""

from __future__ import annotations

import pytest
import torch

from bitlane.compress.advice.trial import JUDGES, STEPS
from bitlane.errors import BitlaneError
from bitlane_studies.compression.advised.settings import BATCH, TASKS, AdvisedSetting, ByteLSTM

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_the_trial_has_the_first_batches_of_the_training_and_others_to_compare(ranks):
    setting = AdvisedSetting("lstm", "1gbit", ranks, 70)
    training = setting.measured_training(4)
    batches = setting.batches(len(TASKS["lstm"].load().inputs), 4)
    order = list(training.batches)
    assert len(order) == JUDGES + STEPS * ranks and all(each.shape == (BATCH,) for each in order)
    for step in range(STEPS):
        for rank in range(ranks):
            assert torch.equal(order[JUDGES + step * ranks + rank], batches[step, rank])
    judges = batches[70:].flatten(0, 1)[:JUDGES]
    assert torch.equal(torch.stack(order[:JUDGES]), judges) and len(judges) == JUDGES


def test_the_rate_is_constant_then_falls_to_0():
    setting = AdvisedSetting("lstm", "1gbit", steps=400)
    factors = [setting.factor(step) for step in range(400)]
    assert factors[:301] == [1.0] * 301 and factors[350] == 0.5 and 0 < factors[-1] <= 0.01
    assert factors == sorted(factors, reverse=True)


def test_the_recurrent_network_sees_only_earlier_bytes():
    torch.manual_seed(1)
    network = ByteLSTM(12)
    text = torch.randint(256, (2, 9))
    changed = text.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 256
    before, after = network(text), network(changed)
    assert before.shape == (2, 9, 256)
    assert torch.equal(before[:, :6], after[:, :6]) and not torch.equal(before[:, 6], after[:, 6])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("rnn", "1gbit"), "unknown task 'rnn'"),
        (("lstm", "1gbit", 2, 59), "at least 60"),
        (("lstm", "1gbit", 1), "2 ranks"),
    ],
)
def test_wrong_settings(values, message):
    with pytest.raises(BitlaneError, match=message):
        AdvisedSetting(*values)
