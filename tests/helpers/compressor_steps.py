"""Run steps of a compressor with each rank a thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tests.helpers.devices import DEVICE

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan


@dataclass(frozen=True)
class StepResults:
    """averages: float32 [steps, ranks, n]. states: of each rank after the last step. sent: bytes of each rank."""

    averages: np.ndarray
    states: list[dict]
    kept: np.ndarray  # float32 [steps, ranks, n], NaN where a reducer has none
    sent: list[int]


def make(compressor, count, transport):
    return compressor.reducer([ParameterSpan(0, (count,))], Link(transport, ""), AlphaBetaModel(), DEVICE)


def steps(compressor, inputs, begin=0, states=None):
    """`inputs` float32 [steps, ranks, n], from step `begin` on, and from `states` if there are any."""

    def work(transport):
        reducer = make(compressor, inputs.shape[2], transport)
        if states is not None:
            reducer.load_state_dict(states[transport.rank])
        averages, kept = [], []
        for step, vector in enumerate(inputs[:, transport.rank], start=begin):
            average = torch.from_numpy(vector.copy()).to(DEVICE)
            reducer.average(average, step)
            averages.append(average.cpu().numpy())
            now = reducer.residual()
            kept.append(np.full(len(vector), np.nan, np.float32) if now is None else now.cpu().numpy())
        return np.array(averages), np.array(kept), on_cpu(reducer.state_dict()), transport.sent

    averages, kept, last, sent = zip(*run_ranks_in_threads(inputs.shape[1], work), strict=True)
    return StepResults(np.stack(averages, 1), list(last), np.stack(kept, 1), list(sent))


def on_cpu(state):
    """Return a state of a reducer with its tensors on the CPU, to look at them."""
    return {name: each.cpu() if isinstance(each, torch.Tensor) else each for name, each in state.items()}


def alike(averages):
    """Return whether all ranks have identical bytes."""
    return all(averages[:, 0].tobytes() == averages[:, rank].tobytes() for rank in range(averages.shape[1]))


def integers(seed, steps, ranks, n, most=1000):
    """Return integer gradients, float32 [steps, ranks, n], whose sums float32 represents exactly."""
    return np.random.default_rng(seed).integers(-most, most + 1, (steps, ranks, n)).astype(np.float32)


def top_mask(values, count):
    """Return a mask, bool [n], of the `count` largest nonzero magnitudes; of ties the first, by a stable sort."""
    order = np.argsort(-np.abs(values.astype(np.float64)), kind="stable")[:count]
    mask = np.zeros(len(values), bool)
    mask[order] = values[order] != 0
    return mask


def summed(vectors):
    """Return the mean: a float32 sum in the order of ranks, then divided."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total * np.float32(1 / len(vectors))
