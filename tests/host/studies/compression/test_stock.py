"""The comparison with PyTorch's hook: both compress the same gradient, and no process group remains."""

import pytest
import torch
import torch.distributed as dist

from bitlane.studies.compression import stock

pytestmark = pytest.mark.torch


def test_three_times_and_no_remaining_group():
    found = stock.step_seconds(64, 48, 2, steps=3)
    assert list(found) == ["stock", "PowerSGD", "LQSGD"] and all(seconds > 0 for seconds in found.values())
    assert not dist.is_initialized()


@pytest.mark.parametrize("rank", [1, 3])
def test_the_stock_hook_compresses(rank, seed):
    """Its first steps are uncompressed by default, and must not be measured."""
    gradient = torch.randn(60, 50, generator=torch.Generator().manual_seed(seed))
    values = gradient.clone()
    with stock.single_process_group():
        stock._stock(rank)(values, 0)
    assert torch.linalg.matrix_rank(values, rtol=1e-4) == rank
