"""Rounds: each fragment once in `every` steps, one round at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bitlane.compress.local.schedule import RoundSchedule
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("every", range(1, 25))
def test_each_fragment_begins_once_in_a_period(every):
    for fragments in range(1, every + 1):
        schedule = RoundSchedule.checked(every, fragments, every // fragments - 1, None)
        begun = [(step, schedule.begins(step)) for step in range(1, 3 * every + 1)]
        rounds = [(step, fragment) for step, fragment in begun if fragment is not None]
        assert len(rounds) == 3 * fragments
        for step, fragment in rounds:
            assert step % every == fragment * every // fragments
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(rounds)]
        assert min(gaps, default=every) > schedule.delay  # a round ends before the next begins


def test_the_default_weight_of_own_parameters():
    assert RoundSchedule.checked(10, 1, 0, None).blend == 0.0
    assert RoundSchedule.checked(10, 1, 3, None).blend == 0.5
    assert RoundSchedule.checked(10, 1, 3, 0).blend == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 1, 0, None), "every=0: it must be an integer of at least 1"),
        ((2.5, 1, 0, None), r"every=2\.5: it must be an integer"),
        ((True, 1, 0, None), "every=True: it must be an integer"),
        ((10, 0, 0, None), "fragments=0: it must be an integer of at least 1"),
        ((10, 1, -1, None), "delay=-1: it must be an integer of at least 0"),
        ((3, 4, 0, None), "fragments=4 with every=3: at most one fragment can begin in a step"),
        ((10, 3, 3, None), "delay=3 with every=10 and fragments=3: .* delay must be less than 3"),
        ((10, 1, 10, None), "delay must be less than 10"),
        ((10, 1, 0, 1.0), r"blend must be 0 or more and less than 1, .* got 1\.0"),
        ((10, 1, 0, -0.1), r"blend must be 0 or more and less than 1, .* got -0\.1"),
        ((10, 1, 0, "half"), "blend='half': it must be a finite number"),
        ((10, 1, 0, None, 1.5), r"step_ahead must be 0 to 1, .* got 1\.5"),
        ((10, 1, 0, None, -0.5), r"step_ahead must be 0 to 1, .* got -0\.5"),
        ((10, 1, 2, None, 0.5), r"step_ahead=0\.5 .* needs delay=0 and blend=0; got delay=2 and blend=0\.5"),
        ((10, 1, 2, 0, 0.5), "needs delay=0 and blend=0; got delay=2"),
        ((10, 1, 0, 0.1, 1), r"needs delay=0 and blend=0; got delay=0 and blend=0\.1"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(DataError, match=message):
        RoundSchedule.checked(*settings)
