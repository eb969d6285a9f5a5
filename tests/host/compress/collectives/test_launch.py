"""Processes as ranks: results in order, one line for a failure, nobody left behind."""

from __future__ import annotations

import os
import time

import pytest
from tests.helpers import rank_work

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch


def test_results_and_reports():
    heard = []
    found = launch(rank_work.numbers, 3, 10, timeout=100, on_report=lambda rank, what: heard.append((rank, what)))
    assert found == [(rank, 3, 30) for rank in range(3)]
    assert sorted(heard) == [(rank, ("at work", 10)) for rank in range(3)]


@pytest.mark.parametrize(
    ("work", "ranks", "says"),
    [
        (rank_work.bad_data, 3, "rank 1 failed: column 3 is empty"),
        (rank_work.bug, 1, "rank 0 failed: KeyError: 'speed'"),
        (rank_work.killed, 2, "rank 1 was ended by signal SIGKILL"),
    ],
)
def test_the_rank_that_failed_by_itself_is_named(work, ranks, says):
    with pytest.raises(BitlaneError) as caught:
        launch(work, ranks, timeout=100)
    assert str(caught.value) == says


def test_what_takes_too_long_is_ended(tmp_path):
    began = time.monotonic()
    with pytest.raises(BitlaneError, match=r"no end after 8 seconds: ranks (0, )?1 were still at work"):
        launch(rank_work.endless, 2, tmp_path, timeout=8)
    assert time.monotonic() - began < 30
    processes = [int(path.name) for path in tmp_path.iterdir()]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
