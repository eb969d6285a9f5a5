"""A training of several models at once, which `test_resume.py` kills and resumes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tests.helpers.devices import DEVICE
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import attach
from bitlane.compress.ddp import overlap
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.compress.training import checkpoints
from bitlane.errors import DataError

COMPRESSORS = [text.replace("rank=32", "rank=2") for text in EXAMPLES if "mqgrad" not in text]
STEPS, EVERY = 8, 3


class Trained:
    """A model, its compression and its optimizer."""

    def __init__(self, text):
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 3)).to(
            DEVICE
        )
        self.ddp = DistributedDataParallel(self.model, bucket_cap_mb=0.002)
        self.compression = attach(self.ddp, parse_compressor(text))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.02, momentum=0.9)

    def step(self, x):
        self.optimizer.zero_grad()
        self.ddp(x).square().mean().backward()
        self.optimizer.step()


def train(report, folder: Path, victim: int | None, at: int, moment: str, segment: int = 1 << 20):
    """Train from the latest checkpoint; return its step and the final parameters. The victim dies in step `at`."""
    rank = dist.get_rank()
    overlap.SEGMENT_VALUES = segment
    models = [Trained(text) for text in COMPRESSORS]
    first_step = resume(folder, models, rank)
    for step in range(first_step, STEPS):
        dies = rank == victim and step == at
        if dies and moment == "backward":
            models[-1].model[0].weight.register_hook(lambda gradient: die())
        if dies and moment == "between":
            die()
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(100 * step + rank)).to(DEVICE)
        start = time.monotonic()
        try:
            for each in models:
                each.step(x)
        except Exception as error:
            (folder / f"error-{rank}.txt").write_text(f"{type(error).__name__} {time.monotonic() - start:.1f}")
            raise
        if (step + 1) % EVERY == 0:
            if dies and moment == "saving":
                checkpoints._write = lambda value, path: die()
            shared = {"step": step + 1, "models": [each.model.state_dict() for each in models]}
            shared["optimizers"] = [each.optimizer.state_dict() for each in models]
            checkpoints.save(folder, step + 1, [each.compression.state_dict() for each in models], shared)
    return first_step, torch.cat([p.detach().flatten() for each in models for p in each.model.parameters()]).cpu()


def resume(folder, models, rank):
    try:
        checkpoint = checkpoints.latest_checkpoint(folder)
    except DataError:
        return 0
    shared = checkpoints.load_shared(checkpoint)
    states = checkpoints.load_rank(checkpoint, rank)
    for each, model, optimizer, state in zip(models, shared["models"], shared["optimizers"], states, strict=True):
        each.model.load_state_dict(model)
        each.optimizer.load_state_dict(optimizer)
        each.compression.load_state_dict(state)
    return shared["step"]


def die():
    os.kill(os.getpid(), signal.SIGKILL)
