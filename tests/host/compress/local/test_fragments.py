"""Fragments of a module: adjacent, about equal, each parameter once; copies in every type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bitlane.compress.local.fragments import split_parameters
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


def module_of(sizes):
    module = nn.Module()
    for number, size in enumerate(sizes):
        module.register_parameter(f"p{number}", nn.Parameter(torch.randn(size)))
    return module


@pytest.mark.parametrize("trial", range(20))
def test_fragments_are_adjacent_and_about_equal(trial, seed):
    rng = np.random.default_rng([seed, trial])
    sizes = [int(size) for size in rng.integers(0, 10 ** int(rng.integers(1, 4)), int(rng.integers(1, 12)))]
    fragments = int(rng.integers(1, len(sizes) + 1))
    module = module_of(sizes)
    found = split_parameters(module, fragments)
    assert len(found) == fragments and all(each.parameters for each in found)
    joined = [parameter for each in found for parameter in each.parameters]
    assert all(a is b for a, b in zip(joined, module.parameters(), strict=True))
    assert [each.count for each in found] == [sum(p.numel() for p in each.parameters) for each in found]
    assert max(each.count for each in found) <= sum(sizes) / fragments + max(sizes)


def test_equal_layers_make_equal_fragments():
    module = nn.Sequential(*(nn.Linear(10, 10, bias=False) for _ in range(12)))
    assert [each.count for each in split_parameters(module, 4)] == [300] * 4


def test_a_tied_parameter_counts_once_and_a_frozen_one_not():
    module = nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 11, bias=False), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    module[2].bias.requires_grad_(False)
    (found,) = split_parameters(module, 1)
    assert [tuple(each.shape) for each in found.parameters] == [(11, 4), (3, 3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_copies_keep_every_value(dtype):
    module = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Linear(5, 3)).to(dtype)
    module[0].to(memory_format=torch.channels_last)  # not contiguous in memory
    assert not module[0].weight.is_contiguous()
    (fragment,) = split_parameters(module, 1)
    before = [each.detach().clone() for each in module.parameters()]
    vector = fragment.vector()
    assert vector.dtype == torch.float32
    assert torch.equal(vector, torch.cat([each.float().reshape(-1) for each in before]))
    fragment.assign(-vector)
    assert all(torch.equal(now, -then) for now, then in zip(module.parameters(), before, strict=True))
    finer = vector * (1 + 2**-20)
    wanted = torch.cat([part.to(dtype).float() for part in finer.split([each.numel() for each in before])])
    assert torch.equal(fragment.rounded(finer), wanted)


def test_spans_describe_the_vector():
    (fragment,) = split_parameters(nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2)), 1)
    spans = [(span.begin, span.end, span.shape) for span in fragment.layout]
    assert spans == [(0, 15, (3, 5)), (15, 18, (3,)), (18, 24, (2, 3)), (24, 26, (2,))]


@pytest.mark.parametrize(
    ("module", "fragments", "message"),
    [
        (
            nn.Linear(2, 2, dtype=torch.complex64),
            1,
            "weight has the type torch.complex64: convert it to float64, ",
        ),
        (nn.Linear(2, 2), 3, "fragments must be from 1 to 2, the number of parameters; got 3"),
        (nn.ReLU(), 1, r"ReLU has no parameter with requires_grad=True"),
    ],
)
def test_what_is_refused(module, fragments, message):
    with pytest.raises(DataError, match=message):
        split_parameters(module, fragments)


def test_parameters_on_two_devices_are_refused():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(DataError, match=r"1\.weight is on meta, others are on cpu: move the model to one device"):
        split_parameters(module, 1)
