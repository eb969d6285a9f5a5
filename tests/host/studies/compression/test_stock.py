"""The stock hook beside ours: both at work on the same gradient, and no process group left."""

import pytest
import torch
import torch.distributed as dist

from bitlane.studies.compression import stock

pytestmark = pytest.mark.torch


def test_three_times_and_no_group_left():
    found = stock.step_seconds(64, 48, 2, steps=3)
    assert list(found) == ["stock", "PowerSGD", "LQSGD"] and all(seconds > 0 for seconds in found.values())
    assert not dist.is_initialized()


@pytest.mark.parametrize("rank", [1, 3])
def test_the_stock_hook_compresses(rank, seed):
    """It averages without compression in its first steps, which would be no measure of it."""
    gradient = torch.randn(60, 50, generator=torch.Generator().manual_seed(seed))
    values = gradient.clone()
    with stock.single_process_group():
        stock._stock(rank)(values, 0)
    assert torch.linalg.matrix_rank(values, rtol=1e-4) == rank
