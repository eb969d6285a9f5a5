"""Period: means over ranks, the time of the slowest rank, and an error on all ranks if a loss is missing."""

import math

import numpy as np
import pytest
from tests.helpers.policy_steps import alone, step

from bitlane.errors import DataError
from bitlane.policies.period import Period


def sent_numbers(losses, seconds):
    """Return the numbers that the rank sends after a period with these losses and times."""
    sent = []
    period = Period(len(losses))
    for loss, time in zip(losses, seconds, strict=True):
        assert not period.complete
        period.add(step(loss, time))
    assert period.complete

    def share(numbers):
        sent.extend(numbers)
        return [[0.0] * len(numbers)]

    period.exchange(share)
    return sent


def test_a_rank_sends_its_losses_and_its_time():
    assert sent_numbers([3.0, 2.5], [0.5, 0.25]) == [3.0, 2.5, 0.75]


def test_means_over_ranks_and_the_slowest_time():
    period = Period(2)
    for loss in (1.0, 2.0):
        period.add(step(loss))
    losses, seconds = period.exchange(lambda own: [own, [3.0, 6.0, 9.0], [2.0, 1.0, 0.5]])
    assert losses == [2.0, 3.0]
    assert seconds == 9.0
    assert not period.complete


def test_a_missing_loss_is_an_error_on_all_ranks():
    missing = sent_numbers([3.0, None], [1.0, 1.0])
    for own in (3.0, None):
        period = Period(2)
        period.add(step(3.0))
        period.add(step(own))
        with pytest.raises(DataError, match="rank 1 did not report one"):
            period.exchange(lambda _: [[3.0, 3.0, 2.0], missing])


def test_a_nonfinite_loss_is_not_an_error():
    period = Period(2)
    period.add(step(math.inf))
    period.add(step(1.0))
    losses, seconds = period.exchange(alone)
    assert losses == [math.inf, 1.0]
    assert seconds == 2.0


def test_a_state_within_a_period_continues_identically(seed):
    rng = np.random.default_rng(seed)
    steps = [step(*rng.random(2)) for _ in range(4)]
    one, other = Period(4), Period(4)
    for each in steps[:2]:
        one.add(each)
    other.load_state_dict(one.state_dict())
    for each in steps[2:]:
        one.add(each)
        other.add(each)
    assert other.complete
    assert other.exchange(alone) == one.exchange(alone)
