"""How long a replica is left out after failures, and what a request to it costs."""

from __future__ import annotations

import pytest

from bitlane.sparse.serving.shards import health as module
from bitlane.sparse.serving.shards.health import Health


@pytest.fixture
def clock(monkeypatch):
    """The time, which only the test moves."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_pauses_double_up_to_5_seconds_until_an_answer_with_weights(clock):
    health, pauses = Health(), []
    for _ in range(8):
        health.fail("no power", running=False)
        pauses.append(health.pause)
        health.pong()
        assert not health.is_well and health.problem == "no power"
        clock[0] += health.pause
        health.pong()
        assert health.is_well and health.problem is None
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    health.begin()
    health.answer(0.01)
    health.fail("no power", running=False)
    assert health.pause == pytest.approx(0.1)


def test_a_failure_in_a_pause_does_not_make_it_longer(clock):
    """Requests that run when a server dies fail together: that is one failure."""
    health = Health()
    for _ in range(10):
        health.begin()
    for _ in range(10):
        health.fail("lost", running=True)
    assert health.pause == pytest.approx(0.1)
    idle = health.cost
    health.begin()
    assert health.cost == pytest.approx(2 * idle)


def test_three_requests_without_an_answer_in_a_row_are_a_failure(clock):
    health = Health()
    health.pong()
    for answers in (True, False, False, True, False, False):
        health.begin()
        if answers:
            health.answer(0.01)
        else:
            health.silence(0.1)
        assert health.is_well
    health.begin()
    health.silence(0.1)
    assert not health.is_well and health.problem == "it does not answer in time"


def test_costs_follow_latency_requests_and_time(clock):
    slow, quick, busy = Health(), Health(), Health()
    for health, seconds in ((slow, 0.1), (quick, 0.001), (busy, 0.001)):
        for _ in range(50):
            health.begin()
            health.answer(seconds)
    assert slow.cost == pytest.approx(0.1, rel=0.01) and quick.cost == pytest.approx(0.001)
    for _ in range(3):
        busy.begin()
        busy.refuse()
    assert busy.cost > 1.5 * quick.cost
    quick.begin()
    assert quick.cost == pytest.approx(0.002)
    quick.drop()
    clock[0] += 5
    assert slow.cost == pytest.approx(0.05, rel=0.01)
    assert quick.asked == 51
