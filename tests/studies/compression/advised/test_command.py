"""A short run of the study: real processes, every kind of candidate, bytes as the advice predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.compression.advised import __main__ as command
from bitlane_studies.compression.advised.settings import AdvisedSetting
from bitlane_studies.compression.advised.trial import _step_seconds

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("name", "seconds"), [("bf16", 1.0), ("auto", 1.0), ("diloco:20", 1.5), ("diloco:4", 3.5)])
def test_a_step_takes_the_median_of_blocks_that_end_with_a_round(name, seconds):
    """Each step takes a second, each round 10 more; a pause of 1000 s in one block changes nothing."""
    every = int(name.partition(":")[2] or 10**6)
    steps = [1.0 + 10.0 * (step % every == 0) + 1000.0 * (step in (3, 150)) for step in range(1, 401)]
    assert _step_seconds(np.cumsum(steps), name) == pytest.approx(seconds)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_each_kind_of_candidate_trains_and_sends_what_is_predicted():
    result = command.measured(AdvisedSetting("lstm", "1gbit", steps=60), ["qsgd:bits=8", "diloco:20"], 3)
    assert [each.name for each in result.candidates] == ["plain", "bf16", "qsgd:bits=8", "diloco:20", "auto"]
    assert result["plain"].increase == 0
    assert abs(result["bf16"].increase) < 0.03 and abs(result["qsgd:bits=8"].increase) < 0.03
    start = 8000  # bytes of a step: connections, and the weights that DDP sends from rank 0
    assert abs(result["auto"].increase) < 0.05 and result["auto"].bytes < result["plain"].bytes
    for each in result.candidates[:-1]:
        assert 0.98 * each.predicted_bytes < each.bytes < 1.02 * each.predicted_bytes + start
    assert result.advised in [each.name for each in result.candidates]


def test_too_few_steps_for_a_round_are_one_line():
    with pytest.raises(BitlaneError, match="--steps must be 200 or more for diloco:100; got 199"):
        command.main(["lstm", "--candidates", "diloco:100", "--steps", "199"])
