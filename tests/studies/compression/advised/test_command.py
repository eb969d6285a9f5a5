"""A short run of the study: real processes, every kind of candidate, bytes as the advice predicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_studies.compression.advised import __main__ as command
from bitlane_studies.compression.advised.settings import AdvisedSetting

pytestmark = pytest.mark.torch


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_each_kind_of_candidate_trains_and_sends_what_is_predicted():
    result = command.measured(AdvisedSetting("lstm", "1gbit", steps=60), ["qsgd:bits=8", "diloco:20"], 3)
    assert [each.name for each in result.candidates] == ["plain", "bf16", "qsgd:bits=8", "diloco:20", "auto"]
    assert result["plain"].increase == 0
    assert abs(result["bf16"].increase) < 0.01 and abs(result["qsgd:bits=8"].increase) < 0.02
    start = 6000  # bytes of a step: connections, and the weights that DDP sends from rank 0
    assert abs(result["auto"].increase) < 0.02 and result["auto"].bytes < result["plain"].bytes
    for each in result.candidates[:-1]:
        assert 0.98 * each.predicted_bytes < each.bytes < 1.02 * each.predicted_bytes + start
    assert result.advised in [each.name for each in result.candidates]
