"""The start of DiLoCo: all ranks have the tensors of rank 0, which sends them only where they differ."""

from __future__ import annotations

import pytest
import torch
from tests.helpers.diloco_scenes import build, flat
from torch import nn

from bitlane.compress.local.diloco import DiLoCo

pytestmark = pytest.mark.torch


def test_all_begin_with_rank_0(threads):
    def work(transport):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4, dtype=torch.bfloat16))
        rank = transport.rank
        model[1].register_buffer("mask", torch.tensor([True, False]) ^ (rank > 0))
        model[1].num_batches_tracked += rank
        model[0].bias.requires_grad_(False)
        before = {name: each.clone() for name, each in model.state_dict().items()}
        DiLoCo(model, process_group=transport)
        return before, {name: each.clone() for name, each in model.state_dict().items()}

    found = threads(3, work)
    for _, after in found:
        assert len(after) == 10
        for name, value in found[0][0].items():
            assert torch.equal(after[name], value), name


def test_only_ranks_with_other_values_receive_those_of_rank_0(threads):
    """Beside digests and settings rank 0 sends 4 bytes of each of 66 values to each of them."""

    def work(transport, others):
        model, start = build(int(transport.rank in others)), transport.sent
        DiLoCo(model, process_group=transport)
        return transport.sent - start, flat(model)

    for others in ((), (1,), (0,), (1, 2, 3)):
        found = threads(4, lambda transport, others=others: work(transport, others))
        small = found[3][0]
        assert small < 600 and [sent for sent, _ in found[1:]] == [small] * 3
        assert found[0][0] == small + 4 * 66 * (3 if 0 in others else len(others))
        assert all(torch.equal(values, flat(build(int(0 in others)))) for _, values in found)
