"""Scenes of `test_memory_formats.py`: parameters of any strides under DDP, in real processes."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import torch
import torch.distributed as dist
from tests.helpers.attach_scenes import attached
from tests.helpers.ddp_scenes import RANKS, error_text, mean, same
from torch import nn

from bitlane.compress import DGC, LQSGD, QSGD, TopK
from bitlane.compress.ddp import overlap

KINDS = ("contiguous", "permuted", "gaps")


class Tensors(nn.Module):
    """Parameters of random shapes, with dimensions of size 1 too; their gradients are functions of a seed."""

    def __init__(self, shapes, kinds, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        tensors = [strided(shape, kind, rng) for shape, kind in zip(shapes, kinds, strict=True)]
        self.tensors = nn.ParameterList([nn.Parameter(each) for each in tensors])

    def forward(self, weights):
        return sum((tensor * weight).sum() for tensor, weight in zip(self.tensors, weights, strict=True))


def strided(shape, kind, rng):
    """Return zeros of this shape: contiguous, with the dimensions in another order in memory, or with gaps."""
    if kind == "permuted":
        order = rng.permutation(len(shape))
        return torch.zeros([shape[i] for i in order]).permute(*np.argsort(order).tolist())
    if kind == "gaps":
        return torch.zeros(*shape[:-1], 2 * shape[-1])[..., ::2]
    return torch.zeros(shape)


def weights_of(shapes, seed, rank, step):
    generator = torch.Generator().manual_seed((1000 * seed + 10 * rank + step) % 2**63)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def steps(ddp, shapes, seed, rank, numbers):
    found = []
    for number in numbers:
        ddp.zero_grad()
        ddp(weights_of(shapes, seed, rank, number)).backward()
        found.append([each.grad.clone(memory_format=torch.contiguous_format) for each in ddp.parameters()])
    return found


def any_strides(report, seed, segment):
    """Average with a compressor in one memory format, and go on in another from the saved state.

    Return, for each of some models, whether all averages and states equal those of the contiguous model, element by
    element, and whether uncompressed averages are those by hand.
    """
    overlap.SEGMENT_VALUES = segment or overlap.SEGMENT_VALUES
    rank, rng, found = dist.get_rank(), np.random.default_rng(seed), []
    options = ({}, {"bucket_cap_mb": 1e-4}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 100})
    plain = {"init_sync": False}  # DDP cannot send some parameters with gaps
    compressors = (QSGD(bits=2, error_feedback=True), TopK(density=0.2), DGC(density=0.2), LQSGD(rank=1), None)
    for number, compressor in enumerate(compressors):
        shapes = [tuple(rng.choice([1, 2, 3, 5], size=rng.integers(1, 6)).tolist()) for _ in range(rng.integers(1, 5))]
        formats = [["contiguous"] * len(shapes), *(rng.choice(KINDS, len(shapes)).tolist() for _ in range(2))]
        results, states = [], []
        for kinds in formats:
            chosen = options[rng.integers(len(options))]
            ddp, compression = attached(Tensors(shapes, kinds, seed), compressor, **chosen, **plain)
            with compression:
                if states:
                    compression.load_state_dict(states[0])
                    averages = steps(ddp, shapes, seed, rank, range(2, 4))
                else:
                    averages = steps(ddp, shapes, seed, rank, range(2))
                    states.append(compression.state_dict())
                    averages = steps(ddp, shapes, seed, rank, range(2, 4))
                results.append([*averages[0], *averages[1], *vectors(compression.state_dict())])
        equal = all(same(results[0], each) for each in results[1:])
        if number == len(compressors) - 1:  # uncompressed
            by_rank = [weights_of(shapes, seed, r, 2) for r in range(RANKS)]
            equal = equal and same(results[1][: len(shapes)], [mean(each) for each in zip(*by_rank, strict=True)])
        found.append((equal, formats))
    return found


def vectors(state):
    return [each for each in state["reducer"].values() if isinstance(each, torch.Tensor)]


def earlier_state(report):
    """Return the errors and warnings of a state of an earlier version, for models in two memory formats."""
    model = nn.Conv2d(2, 3, 2)
    texts = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        ddp, compression = attached(copy.deepcopy(model).to(memory_format=memory_format), QSGD(2, error_feedback=True))
        with compression, warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            ddp(torch.ones(1, 2, 4, 4)).sum().backward()
            state = compression.state_dict()
            compression.load_state_dict(state)
            del state["order"]
            texts.append(
                (error_text(lambda c=compression, s=state: c.load_state_dict(s)), [str(w.message) for w in shown])
            )
    return texts
