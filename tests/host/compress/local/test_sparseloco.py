"""SparseLoCo, a recipe of `DiLoCo`: parameters and bytes of the paper's rule (arXiv 2508.15706, algorithm 1)."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.helpers import sparse_values
from tests.helpers.devices import DEVICE
from tests.helpers.diloco_scenes import flat
from torch import nn

from bitlane.compress import DiLoCo, TopK
from bitlane.compress.codecs import rice

pytestmark = pytest.mark.torch

F, EVERY = np.float32, 3


def build():
    generator, model = torch.Generator().manual_seed(1), nn.Linear(90, 60)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.randn(each.shape, generator=generator))
    return model.to(DEVICE)


def move(model, seed, rank, step):
    """Make an inner step of a rank, which does not depend on the parameters."""
    generator = torch.Generator().manual_seed(seed % 2**40 + 1000 * rank + step)
    with torch.no_grad():
        for each in model.parameters():
            each -= 0.01 * torch.randn(each.shape, generator=generator).to(each)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("density", "decay", "rate"), [(0.01, 0.95, 1.0), (0.03, 0.8, 0.5)])
def test_parameters_and_bytes_are_those_of_the_paper(bits, density, decay, rate, seed, threads):
    ranks, rounds = 2, 4

    def work(transport):
        model, compressor = build(), TopK(density, value_bits=bits, chunked=True, decay=decay)
        outer = lambda tensors: torch.optim.SGD(tensors, rate)  # noqa: E731
        with DiLoCo(model, outer, compressor, EVERY, process_group=transport, debug=False) as diloco:
            before = transport.sent
            for step in range(EVERY * rounds):
                move(model, seed, transport.rank, step)
                diloco.step()
            return flat(model).cpu().numpy(), transport.sent - before

    world, total = flat(build()).cpu().numpy(), np.zeros(ranks, int)
    memory = np.zeros((ranks, len(world)), F)
    for number in range(rounds):
        sent = np.zeros_like(memory)
        for rank in range(ranks):
            model = copy.deepcopy(build())
            nn.utils.vector_to_parameters(torch.from_numpy(world.copy()).to(DEVICE), model.parameters())
            for step in range(EVERY * number, EVERY * (number + 1)):
                move(model, seed, rank, step)
            memory[rank] = F(decay) * memory[rank] + (world - flat(model).cpu().numpy())
            indices = np.flatnonzero(sparse_values.chunk_mask(memory[rank], density))
            codes, sent[rank, indices] = sparse_values.encode(indices, memory[rank][indices], bits)
            memory[rank] -= sent[rank]
            total[rank] += 32 + 8 + 1 + len(rice.encode(indices, len(world))) + len(codes)  # header, length, chunks
        world = world - F(rate) * ((sent[0] + sent[1]) * F(0.5))
    for (parameters, own), expected in zip(threads(ranks, work), total, strict=True):
        assert parameters == pytest.approx(world, rel=1e-5, abs=1e-6)
        assert own == expected
