"""Dion as the paper describes it, in float64 on one rank with the mean gradient, and parameters to try it on.

Ahn et al., 2025 (arXiv 2504.05295), algorithm 1, with the scale sqrt(m / n) and decoupled weight decay.
"""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from tests.helpers.devices import DEVICE

from bitlane.compress.compressors.lowrank import random_column

MATRICES = [(4, 11), (11, 4), (6, 6), (5, 2, 3, 1), (1, 7), (7, 1)]  # wide, tall, square, a kernel, a row, a column
OTHERS = [(9,), (), (8, 3)]  # a vector, a scalar, and an embedding
ADAM = {"lr": 0.02, "betas": (0.9, 0.95), "weight_decay": 0.1}


def start(seed, shapes, dtype=torch.float32):
    """Return parameters with these shapes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(DEVICE, dtype)) for shape in shapes]


def gradient(seed, rank, step, shapes):
    """Return the gradients of a rank in a step: a part that all ranks share, and a part of its own."""
    shared, own = (np.random.default_rng([seed, step, each]) for each in (1_000, rank))
    drawn = [shared.standard_normal(shape) + own.standard_normal(shape) for shape in shapes]
    return [torch.as_tensor(each, dtype=torch.float32, device=DEVICE) for each in drawn]


def set_gradients(parameters, gradients):
    for parameter, each in zip(parameters, gradients, strict=True):
        parameter.grad = each.to(parameter.dtype)


def flat(parameters):
    return torch.cat([each.detach().flatten() for each in parameters])


class TextbookDion:
    """The textbook. `momenta` are the buffers of the matrices, and `values` all parameters, in float64."""

    def __init__(self, parameters, matrices, lr, fraction, mu, decay):
        self.values = [each.detach().double().cpu().contiguous().clone() for each in parameters]
        self.settings = lr, mu, decay
        self.matrices = [each.view(each.shape[0], -1) for each in self.values[:matrices]]
        self.momenta = [torch.zeros_like(each) for each in self.matrices]
        self.right = []
        for number, (_, n) in enumerate(each.shape for each in self.matrices):
            r = max(1, round(fraction * min(self.matrices[number].shape)))
            self.right.append(torch.stack([random_column(0, 0, number, k, n).double() for k in range(r)], 1))
        self.others = self.values[matrices:]
        for each in self.others:
            each.requires_grad_()
        self.adamw = torch.optim.AdamW(self.others, **ADAM) if self.others else None

    def step(self, gradients):
        """Update for the mean gradients, float64."""
        lr, mu, decay = self.settings
        for number, x in enumerate(self.matrices):
            m, n = x.shape
            b = self.momenta[number] + gradients[number].reshape(m, n)
            p, _ = torch.linalg.qr(b @ self.right[number])
            r = b.T @ p
            self.momenta[number] = b - (1 - mu) * p @ r.T
            self.right[number] = r / r.norm(dim=0)
            x.copy_((1 - lr * decay) * x - lr * (m / n) ** 0.5 * p @ self.right[number].T)
        for each, own in zip(self.others, gradients[len(self.matrices) :], strict=True):
            each.grad = own.clone()
        if self.adamw is not None:
            self.adamw.step()


def mean_gradient(seed, ranks, step, shapes):
    """Return the mean of `gradient` over ranks, float64."""
    by_rank = [gradient(seed, rank, step, shapes) for rank in range(ranks)]
    return [torch.stack([each.double().cpu() for each in same]).mean(0) for same in zip(*by_rank, strict=True)]


def same_state(found, expected):
    """Return whether nested states are equal, tensors to the bit."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same_state(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same_state, found, expected))
    return torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected


def values_in(shapes):
    return sum(prod(shape) for shape in shapes)
