"""The comparison with PyTorch's hook: all compress the same gradient, and no process group remains."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from bitlane_studies.compression import stock

pytestmark = pytest.mark.torch


def test_times_and_no_remaining_group():
    found = stock.step_seconds(64, 48, 2, steps=3)
    assert list(found) == ["PowerSGD", "LQSGD"] and all(seconds > 0 for seconds in found.values())
    added = stock.added_seconds(2000, 1500, 2, steps=5)
    assert list(added) == ["stock", "PowerSGD", "LQSGD"] and all(seconds > 0 for seconds in added.values())
    assert not dist.is_initialized()


@pytest.mark.parametrize("rank", [1, 3])
def test_the_stock_hook_compresses(rank, seed):
    """Its first steps are uncompressed by default, and must not be measured."""
    gradient = torch.randn(60, 50, generator=torch.Generator().manual_seed(seed))
    with stock.single_process_group():
        model = DistributedDataParallel(stock._OneMatrix(gradient))
        model.register_comm_hook(stock._stock_state(rank), powerSGD_hook)
        model().backward()
    assert torch.linalg.matrix_rank(model.module.weight.grad, rtol=1e-4) == rank
