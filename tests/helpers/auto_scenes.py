"""Scenes of `test_attach.py` of `Auto`: ranks run them in real processes with DDP, and return what to compare."""

from __future__ import annotations

import copy
import hashlib
import pickle

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import batch, build, gradients
from tests.helpers.overlap_scenes import Layers
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import attach
from bitlane.compress.auto.chooser import FIRST
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.emulated_links import ThrottledTransport
from bitlane.compress.ddp import overlap

RANKS, STEPS = 2, FIRST + 4
LINK = AlphaBetaModel(1e-4, 1e5)  # bytes a second: a step of 4,000 values takes 80 ms in bfloat16


class Training:
    """A model on a slow link, its compression, and what its steps gave."""

    def __init__(self, **settings):
        self.model = build(Layers)
        self.ddp = DistributedDataParallel(self.model, bucket_cap_mb=1e-4)
        self.compression = attach(self.ddp, "auto", timeout=20.0, **settings)
        self.compression.transport = ThrottledTransport(self.compression.transport, LINK)
        self.bits, self.digests = [], []

    def step(self, x, factor=1.0):
        self.ddp.zero_grad()
        (self.ddp(x).square().sum() * factor).backward()
        self.bits.append(self.compression.stats.bits)
        data = b"".join(each.cpu().numpy().tobytes() for each in gradients(self.model))
        self.digests.append(hashlib.sha256(data).hexdigest())


def chosen(rank, **settings):
    """Return the bits and digests of all steps, and the choice as text."""
    training = Training(**settings)
    with training.compression as compression:
        for step in range(STEPS):
            training.step(batch(rank, step, rows=1))
        return training.bits, training.digests, str(compression.choice), compression.overlaps


def resumed(rank):
    """Return whether a new compression goes on as the old one does, with the state of its copy from a pickle."""
    old = Training()
    for step in range(STEPS):
        old.step(batch(rank, step, rows=1))
    detached = pickle.loads(pickle.dumps(old.compression))
    new = Training()
    new.model.load_state_dict(copy.deepcopy(old.model.state_dict()))
    new.compression.load_state_dict(detached.state_dict())
    for each in (old, new):
        with each.compression:
            each.step(batch(rank, STEPS, rows=1))
    return new.bits, new.digests == old.digests[-1:]


def infinite(rank):
    """One rank has an infinite gradient in the step that should be measured: a GradScaler skips it, the next counts."""
    training = Training(grad_scaler=torch.amp.GradScaler("cpu"))
    with training.compression as compression:
        for step in range(STEPS):
            training.step(batch(rank, step, rows=1), float("inf") if (rank, step) == (1, FIRST - 1) else 65536.0)
        return training.bits, training.digests, compression.stats.uncompressed, compression.choice.step


def play(report, segment):
    """Run all scenes; `segment` values are a segment of those with overlap."""
    rank = dist.get_rank()
    overlap.SEGMENT_VALUES = segment
    return {
        "at once": chosen(rank, overlap=False),
        "overlap": chosen(rank, overlap=True),
        "resumed": resumed(rank),
        "infinite": infinite(rank),
    }
