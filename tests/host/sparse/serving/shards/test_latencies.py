"""Quantiles of latencies against numpy, and a budget that holds under any sequence of requests."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.serving.shards.latencies import RECENT, HedgeBudget, RecentLatencies


def test_the_wait_is_the_quantile_of_the_last_answers(seed):
    """After each 16 answers, from the 32nd on; answers that are older than the last 512 are forgotten."""
    draw = np.random.default_rng(seed)
    latencies, seconds = RecentLatencies(0.9, 7.0), []
    for count in range(1, 3 * RECENT + 1):
        seconds.append(draw.exponential())
        latencies.add(seconds[-1])
        if count < 32:
            assert latencies.wait == 7.0
        if count >= 32 and count % 16 == 0:
            assert latencies.wait == np.quantile(seconds[-RECENT:], 0.9)


def test_the_budget_holds(seed):
    draw = np.random.default_rng(seed)
    for share in (0.0, 0.1, 0.5, 1.0):
        budget, requests, extra = HedgeBudget(share), 0, 0
        for _ in range(300):
            if draw.random() < 0.5:
                count = int(draw.integers(1, 9))
                budget.add(count)
                requests += count
            else:
                extra += budget.take()
            assert extra <= share * requests + 8
        assert (budget.requests, budget.extra) == (requests, extra)
        assert (extra > 0) == (share > 0)


def test_what_was_saved_is_bounded():
    """After many requests without an extra one, 8 are left, and not a share of all."""
    budget = HedgeBudget(0.1)
    budget.add(10_000)
    assert sum(budget.take() for _ in range(100)) == 8
