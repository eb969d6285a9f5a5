"""Ranks as processes: results in order, one line for a failure, and no process left."""

from __future__ import annotations

import os
import time

import pytest
from tests.helpers import rank_work

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch


def test_results_and_reports():
    reports = []
    found = launch(rank_work.numbers, 3, 10, timeout=100, on_report=lambda rank, value: reports.append((rank, value)))
    assert found == [(rank, 3, 30) for rank in range(3)]
    assert sorted(reports) == [(rank, ("at work", 10)) for rank in range(3)]


@pytest.mark.parametrize(
    ("work", "ranks", "message"),
    [
        (rank_work.bad_data, 3, "rank 1 failed: column 3 is empty"),
        (rank_work.bug, 1, "rank 0 failed: KeyError: 'speed'"),
        (rank_work.killed, 2, "rank 1 was ended by signal SIGKILL"),
    ],
)
def test_the_root_cause_is_named(work, ranks, message):
    with pytest.raises(BitlaneError) as caught:
        launch(work, ranks, timeout=100)
    assert str(caught.value) == message


def test_the_time_limit_ends_all_processes(tmp_path):
    start = time.monotonic()
    with pytest.raises(BitlaneError, match=r"time limit of 8 seconds exceeded: ranks (0, )?1 have not finished"):
        launch(rank_work.endless, 2, tmp_path, timeout=8)
    assert time.monotonic() - start < 30
    processes = [int(path.name) for path in tmp_path.iterdir()]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
