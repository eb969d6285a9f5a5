"""Ranks as processes: results in order, and an error where one raises, dies or hangs."""

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist

from bitlane.compress.processes import spawned
from bitlane.errors import BitlaneError


def summed(number):
    total = torch.tensor([number + dist.get_rank()])
    dist.all_reduce(total)
    return dist.get_rank(), int(total)


def raises():
    if dist.get_rank() == 1:
        raise ValueError("not today")
    dist.barrier()


def dies():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def test_results_come_in_order_of_rank():
    assert spawned(2, summed, (10,)) == [(0, 21), (1, 21)]


@pytest.mark.parametrize(("work", "says"), [(raises, "rank 1 failed: not today"), (dies, "rank 1 failed: it ended")])
def test_the_others_do_not_wait_for_a_rank_that_is_gone(work, says):
    began = time.monotonic()
    with pytest.raises(BitlaneError, match=says):
        spawned(2, work)
    assert time.monotonic() - began < 40


def test_a_rank_that_does_not_end():
    with pytest.raises(BitlaneError, match="after 5 seconds"):
        spawned(1, time.sleep, (60,), patience=5)
