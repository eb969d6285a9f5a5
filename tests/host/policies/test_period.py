"""Period: means over ranks, the slowest rank's time, and one error on all ranks where a loss is missing."""

import math

import numpy as np
import pytest
from tests.helpers.policy_steps import alone, step

from bitlane.errors import DataError
from bitlane.policies.period import Period


def told(losses, seconds):
    """What the rank sends of a period with such steps."""
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
    assert told([3.0, 2.5], [0.5, 0.25]) == [3.0, 2.5, 0.75]


def test_means_over_ranks_and_the_slowest():
    period = Period(2)
    for loss in (1.0, 2.0):
        period.add(step(loss))
    losses, seconds = period.exchange(lambda own: [own, [3.0, 6.0, 9.0], [2.0, 1.0, 0.5]])
    assert losses == [2.0, 3.0]
    assert seconds == 9.0
    assert not period.complete


def test_a_loss_that_nobody_told_is_an_error_on_all_ranks():
    missing = told([3.0, None], [1.0, 1.0])
    for own in (3.0, None):
        period = Period(2)
        period.add(step(3.0))
        period.add(step(own))
        with pytest.raises(DataError, match="rank 1 did not report the loss"):
            period.exchange(lambda _: [[3.0, 3.0, 2.0], missing])


def test_a_loss_that_is_not_finite_is_no_error():
    period = Period(2)
    period.add(step(math.inf))
    period.add(step(1.0))
    losses, seconds = period.exchange(alone)
    assert losses == [math.inf, 1.0]
    assert seconds == 2.0


def test_goes_on_within_a_period(seed):
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
