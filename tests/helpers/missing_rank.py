"""Rank 0 attaches, and rank 1 does not: for `test_acquisition.py`."""

from __future__ import annotations

import os
from pathlib import Path

import torch.distributed as dist
from tests.helpers.ddp_scenes import error_text
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, DiLoCo, attach

SECONDS = 2.0


def attach_alone(report):
    """Return the errors of rank 0 by kind, and the descriptors and threads after each."""
    ddp = DistributedDataParallel(nn.Linear(5, 3))
    kinds = {
        "first": lambda: attach(ddp, QSGD(), timeout=SECONDS),
        "again": lambda: attach(ddp, QSGD(), timeout=SECONDS),
        "diloco": lambda: DiLoCo(nn.Linear(5, 3), timeout=SECONDS),
    }
    texts, counts = {}, []
    if dist.get_rank() == 0:
        for kind, work in kinds.items():
            texts[kind] = error_text(work)
            counts.append(tuple(len(os.listdir(Path("/proc/self", name))) for name in ("fd", "task")))
    dist.barrier()
    return texts, counts
