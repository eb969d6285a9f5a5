"""Scenes of `test_ranks.py`: two ranks run them in real processes with gloo, and return the values to compare."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import error_text
from tests.helpers.devices import DEVICE
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import Dion
from bitlane.compress.collectives.sockets import bytes_at_rest
from bitlane.errors import DataError

PATIENCE = 20.0  # seconds
SETTINGS = {"float32": None, "eight bits": 8, "three bits": 3}


def model_of(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 30)).to(DEVICE)


def optimizer_of(model, **settings):
    matrices = [each for each in model.parameters() if each.dim() == 2]
    others = torch.optim.AdamW([each for each in model.parameters() if each.dim() < 2], 0.01)
    return Dion(matrices, other_optimizer=others, timeout=PATIENCE, **settings)


def backward(model, rank, step):
    generator = torch.Generator().manual_seed(100 * rank + step)
    model(torch.randn(8, 40, generator=generator).to(DEVICE)).square().mean().backward()


def over_gloo(rank):
    """Return the parameters, the bytes declared and at the socket, and what `close` leaves, for each number of bits."""
    found = {}
    for name, bits in SETTINGS.items():
        model = model_of(rank)
        with optimizer_of(model, bits=bits, debug=False) as dion:
            dist.barrier()
            before, sent = bytes_at_rest(), dion.transport.sent
            for step in range(6):
                dion.zero_grad()
                backward(model, rank, step)
                dion.step()
            at_socket, sent = bytes_at_rest() - before, dion.transport.sent - sent
            dist.barrier()
        parameters = torch.cat([each.detach().flatten() for each in model.parameters()]).cpu()
        found[name] = parameters, sent, dion.stats.total.bytes_sent, at_socket
    return found


def in_no_sync(rank):
    """Return whether DDP in `no_sync()` gives the parameters of the plain module."""
    plain, wrapped = model_of(), model_of()
    ddp, found = DistributedDataParallel(wrapped), []
    for model, called in ((plain, plain), (wrapped, ddp)):
        with optimizer_of(model) as dion:
            for step in range(3):
                dion.zero_grad()
                with ddp.no_sync():
                    backward(called, rank, step)
                dion.step()
        found.append(torch.cat([each.detach().flatten() for each in model.parameters()]))
    return torch.equal(*found)


def left_alone(rank):
    """Rank 0 leaves with an error, and rank 1 gets one at once."""
    began = time.monotonic()

    def train():
        model = model_of()
        with optimizer_of(model) as dion:
            for step in range(4):
                dion.zero_grad()
                backward(model, rank, step)
                if rank == 0 and step == 2:
                    raise DataError("no more data")
                dion.step()

    return error_text(train), time.monotonic() - began < PATIENCE / 2


SCENES = (over_gloo, in_no_sync, left_alone)


def play(report):
    """Run the scenes of two ranks, and return their results by name."""
    return {scene.__name__: scene(dist.get_rank()) for scene in SCENES}
