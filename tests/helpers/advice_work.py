"""The work of the processes of `test_bytes.py`: steps under DDP, and rounds of DiLoCo, counted at the socket."""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, DiLoCo, attach
from bitlane.compress.advice.advise import ChosenBits
from bitlane.compress.advice.layouts import module_layout
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.echo import EchoTransport
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.sockets import bytes_at_rest, connection_bytes
from bitlane.compress.collectives.transport import FRAME
from bitlane.compress.ddp.overlap import in_segments
from bitlane.compress.registry import EXAMPLES, parse_compressor

STEPS = 2
SMALL, LARGE = 100, 1200  # widths; the second with more than 2**20 values, so in segments
WARMUP = {SMALL: 2, LARGE: 11}  # steps; `overlap="auto"` decides in the first ten


def random_module(seed: int, width: int) -> nn.Module:
    """Return layers of random shapes: dense, convolutional and normalizing, for inputs [n, 3, 8, 8]."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    channels, layers = 3, []
    for _ in range(rng.randint(1, 2)):
        inside, channels = channels, 4 * rng.randint(1, width // 16)
        side = rng.choice([1, 3, 5])
        layers += [nn.Conv2d(inside, channels, side, padding=side // 2), nn.GroupNorm(2, channels), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten()]
    inside = 16 * channels
    for _ in range(rng.randint(1, 3)):
        outside = rng.randint(width // 2, width)
        layers += [nn.Linear(inside, outside, bias=rng.random() < 0.7), nn.LayerNorm(outside), nn.Tanh()]
        inside = outside
    return nn.Sequential(*layers, nn.Linear(inside, 7))


def loss_of(module: nn.Module, seed: int) -> torch.Tensor:
    """Return the loss of a random batch."""
    generator = torch.Generator().manual_seed(seed)
    pixels, classes = torch.randn(16, 3, 8, 8, generator=generator), torch.randint(7, (16,), generator=generator)
    return nn.functional.cross_entropy(module(pixels), classes)


def compressors_of(module, seed: int) -> list:
    """Return every compressor whose bits do not follow from measured times, and one with bits of each group.

    For large modules only one of each kind.
    """
    segmented = in_segments(QSGD(), "auto", 2)
    link, cpu = Link(EchoTransport(2), ""), torch.device("cpu")
    groups = segmented.reducer(module_layout(module), link, AlphaBetaModel(), cpu).group_count
    widths = np.random.default_rng(seed).integers(2, 9, groups).astype(np.uint8)
    texts = [text for text in (*EXAMPLES, "lqsgd", "qsgd:bits=3", "topk:density=0.3") if "mqgrad" not in text]
    if groups > 2**20 / 512:
        texts = ["qsgd:bits=4,error_feedback=True", "topk:density=0.05", "lqsgd"]
    return [*map(parse_compressor, texts), QSGD(bits=ChosenBits(2, widths))]


def step_bytes(report, modules):
    """Return the bytes of a step of this rank for each module, given by seed and width, and each compressor."""
    found = []
    for seed, width in modules:
        for compressor in compressors_of(random_module(seed, width), seed):
            ddp = DistributedDataParallel(random_module(seed, width))
            optimizer = torch.optim.SGD(ddp.parameters(), 0.01)
            with attach(ddp, compressor):
                _train(ddp, optimizer, WARMUP[width])
                found.append(_counted(lambda ddp=ddp, optimizer=optimizer: _train(ddp, optimizer, STEPS)) / STEPS)
    return found


def round_bytes(report, seed, width, compressor):
    """Return the bytes of a round of DiLoCo on this rank."""
    module = random_module(seed, width)
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    with DiLoCo(module, compressor=compressor, every=2) as diloco:
        return _counted(lambda: _train(module, optimizer, 4, diloco.step)) / 2


def _train(module, optimizer, steps, after_step=lambda: None):
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(module, 2 * step + dist.get_rank()).backward()
        optimizer.step()
        after_step()


def _counted(work) -> int:
    """Return the bytes that this rank sends in `work`, without the empty message of the barrier at its end.

    Connections of earlier compressions close at any time, and do not count.
    """
    begin = _bytes_at_barrier()
    work()
    end = _bytes_at_barrier()
    dist.barrier()  # a rank that is done closes the connection of both
    return sum(count - begin.get(name, 0) for name, count in end.items()) - FRAME


def _bytes_at_barrier() -> dict[str, int]:
    dist.barrier()
    bytes_at_rest()
    return connection_bytes()
