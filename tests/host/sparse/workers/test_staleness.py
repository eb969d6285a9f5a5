"""The rule of bounded staleness over random schedules: a read at clock c has all steps stamped c - s - 1 or older."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_schedules import Schedule, Servers

from bitlane.sparse.servers.rounds import TrainingRounds
from bitlane.sparse.workers.cache import RowCache
from bitlane.sparse.workers.view import View


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("schedules", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_read_misses_a_step_that_it_must_have(seed: int, servers: Servers, schedules: int) -> None:
    """Cache, reads ahead, steps that come late or twice, servers that restart; own steps exactly once."""
    reads = 0
    for number in range(schedules):
        schedule = Schedule(servers, seed + number)
        schedule.run()
        reads += schedule.reads
    assert reads > 5 * schedules
    assert servers.restarts > schedules // 50


def misses(servers: Servers, seed: int, match: str) -> None:
    """Some of a hundred schedules must break the rule."""
    with pytest.raises(AssertionError, match=match):
        for number in range(100):
            Schedule(servers, seed + number).run()


def test_servers_that_let_a_worker_read_too_early_are_found(
    seed: int, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = TrainingRounds.may_read
    monkeypatch.setattr(TrainingRounds, "may_read", lambda self, clock: rule(self, clock - 1))
    misses(servers, seed, r"misses a step|matrix steps|twice")


def test_a_cache_that_keeps_rows_too_long_is_found(
    seed: int, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = RowCache.find
    monkeypatch.setattr(RowCache, "find", lambda self, keys, oldest=0: rule(self, keys, oldest - 1))
    misses(servers, seed, r"misses a step")


def test_a_worker_that_does_not_read_its_own_steps_is_found(
    seed: int, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(View, "_step", lambda *_: None)
    misses(servers, seed, r"misses a step")


def test_own_steps_that_a_read_has_are_not_taken_again(
    seed: int, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = View._step
    monkeypatch.setattr(
        View, "_step", lambda self, keys, rows, own, step: rule(self, keys, rows, np.zeros_like(own), step)
    )
    misses(servers, seed, r"twice|has .* matrix steps")
