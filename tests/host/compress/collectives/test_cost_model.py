"""The choice of the collective, by times computed by hand."""

from __future__ import annotations

import pytest

from bitlane.compress.collectives.cost_model import AlphaBetaModel


@pytest.mark.parametrize(
    ("body", "ranks", "reduce_scatter"),
    [
        (10**6, 2, False),  # equal bytes, and one more round
        (10**6, 3, True),  # 2 MB in a round, or 1.33 MB in two: 667 us less, 100 us more
        (10**5, 3, False),  # 67 us less, 100 us more
        (10**5, 8, True),  # 525 us less
        (10**9, 1, False),
    ],
)
def test_the_faster_collective(body, ranks, reduce_scatter):
    assert AlphaBetaModel(latency=100e-6, bandwidth=1e9).prefers_reduce_scatter(body, ranks) is reduce_scatter


def test_seconds_are_rounds_and_bytes():
    link = AlphaBetaModel(latency=0.5, bandwidth=100.0)
    assert link.all_gather_seconds(200, 5) == 0.5 + 8.0
    assert link.reduce_scatter_seconds(200, 5) == 1.0 + 3.2
