"""Scenes of `test_overlap.py`: ranks run them in real processes with DDP, and return the values to compare."""

from __future__ import annotations

import copy
import time
from contextlib import suppress

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import RANKS, batch, build, error_text, gradients, same
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, attach
from bitlane.compress.ddp import overlap

__all__ = ["RANKS"]
PATIENCE = 20.0  # seconds


class Layers(nn.Module):
    """Three layers; `before_first` is called when only the gradient of the first layer is missing."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 60), nn.Linear(60, 60), nn.Linear(60, 3)
        self.before_first = None

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if self.before_first is not None:
            hidden.register_hook(self.before_first)
        return self.last(torch.tanh(self.second(hidden)))


def attached(model, **settings):
    ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
    return ddp, attach(ddp, QSGD(bits=2, error_feedback=True), timeout=PATIENCE, overlap=True, **settings)


def backward(ddp, x):
    ddp.zero_grad()
    ddp(x).square().sum().backward()


def sent_in_backward(rank):
    """Return the bytes that were sent when the first layer's gradient was still missing, and those of the step."""
    model = build(Layers)
    ddp, compression = attached(model)
    with compression:
        backward(ddp, batch(rank, 0))  # DDP cuts its buckets anew after it
        begun, found = compression.transport.sent, []

        def pause(gradient):
            time.sleep(1.0)
            found.append(compression.transport.sent - begun)

        model.before_first = pause
        backward(ddp, batch(rank, 1))
    return found[0], compression.transport.sent - begun


def failed_backward(rank):
    """Rank 1 fails in the backward pass of step 1. Return the error, and whether the steps equal those of a twin.

    DDP does not go on after it, and all ranks wrap the model again; the state is that of before the step.
    """
    model = build(Layers)
    twin, text = copy.deepcopy(model), "nothing"
    ddp, compression = attached(model)
    other, without = attached(twin)
    backward(ddp, batch(rank, 0))
    backward(other, batch(rank, 0))
    model.before_first = (lambda gradient: 1 / 0) if rank == 1 else None
    try:
        backward(ddp, batch(rank, 7))
    except Exception as error:
        text = type(error).__name__
    model.before_first = None
    if rank == 1:
        with suppress(RuntimeError):
            ddp(batch(rank, 1))  # the other ranks learn of it
    state = compression.state_dict()
    compression.close()
    model = copy.deepcopy(model)  # without the hooks of the old DDP
    ddp, compression = attached(model)
    compression.load_state_dict(state)
    equal = True
    with compression, without:
        for step in (1, 2):
            backward(ddp, batch(rank, step))
            backward(other, batch(rank, step))
            equal = equal and same(gradients(model), gradients(twin))
    return text, equal


def automatic(rank):
    """Return whether each of 13 steps has the bits of overlap=True, and which overlapped."""
    model = build(Layers)
    twin = copy.deepcopy(model)
    ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
    other, always = attached(twin)
    equal, kinds = [], []
    with attach(ddp, QSGD(bits=2, error_feedback=True), timeout=PATIENCE) as compression, always:
        for step in range(13):
            backward(ddp, batch(rank, step))
            backward(other, batch(rank, step))
            equal.append(same(gradients(model), gradients(twin)))
            kinds.append(compression.overlaps)  # of the next step
            assert always.overlaps
    return equal, kinds


def refused(rank):
    """Return the error of a setting that is neither True nor False nor "auto"."""
    return error_text(lambda: attach(DistributedDataParallel(nn.Linear(5, 3)), QSGD(), overlap="yes"))


SCENES = (sent_in_backward, failed_backward, automatic, refused)


def play(report):
    """Run all scenes, and return their results by name."""
    overlap.SEGMENT_VALUES = 100
    return {scene.__name__: scene(dist.get_rank()) for scene in SCENES}


def many_steps(report):
    """Run 200 steps with a bucket a parameter; return the parameters."""
    overlap.SEGMENT_VALUES = 100
    model = build(Layers)
    ddp, compression = attached(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with compression:
        for step in range(200):
            backward(ddp, batch(dist.get_rank(), step))
            optimizer.step()
    return torch.cat([each.detach().flatten() for each in model.parameters()]).cpu()
