"""Scenes of `test_frameworks.py`: Lightning and Accelerate save the states of all ranks, in real processes.

The calls are those of Lightning 2.6 and Accelerate 1.15. A trainer and an accelerator of a few lines make them, so that
neither has to be installed; `test_compress_examples.py` runs the real ones.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import AllUsed, batch, build, error_text, same
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import EFSign
from bitlane.compress.for_accelerate import attach_accelerate

STEPS, SAVED_AT = 5, 3
COMPRESSOR = EFSign()


def callback_class():
    """Return `CompressGradients`, with a base class of three lines where Lightning is not installed."""
    if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
        names = ("lightning", "lightning.pytorch")
        sys.modules.update({name: ModuleType(name) for name in names})
        sys.modules["lightning.pytorch"].Callback = type("Callback", (), {})
    from bitlane.compress.for_lightning import CompressGradients

    return CompressGradients


def train(ddp, rank, begin, end):
    optimizer = torch.optim.SGD(ddp.parameters(), 0.01)
    for step in range(begin, end):
        optimizer.zero_grad()
        ddp(batch(rank, step)).square().sum().backward()
        optimizer.step()


def fitted(rank, callback, begin, end, weights=None, late=None):
    """Fit as Lightning does; `late` is a state that it loads after the model is wrapped, as some strategies do."""
    ddp = DistributedDataParallel(build(AllUsed))
    if weights is not None:
        ddp.module.load_state_dict(weights)
    trainer = SimpleNamespace(strategy=SimpleNamespace(model=ddp), precision_plugin=SimpleNamespace())
    callback.on_fit_start(trainer, None)
    if late is not None:
        callback.load_state_dict(late)
    train(ddp, rank, begin, end)
    saved = {"callback": callback.state_dict(), "weights": ddp.module.state_dict()}
    callback.on_fit_end(trainer, None)
    return ddp, saved


def lightning(report, folder):
    """Interrupt a training, and resume it in three ways: whether it ends as the whole one, and the steps counted."""
    rank, made = dist.get_rank(), callback_class()
    whole, _ = fitted(rank, made(COMPRESSOR), 0, STEPS)
    found = []
    for way in ("before", "after", "saved after the fit"):
        callback = made(COMPRESSOR)
        ddp, saved = fitted(rank, callback, 0, SAVED_AT)
        if way == "saved after the fit":
            saved = {"callback": callback.state_dict(), "weights": ddp.module.state_dict()}
        if rank == 0:  # which alone writes
            torch.save(saved, folder / "lightning.ckpt")
        dist.barrier()
        loaded = torch.load(folder / "lightning.ckpt", weights_only=True)
        dist.barrier()
        again = made(COMPRESSOR)
        if way != "after":
            again.load_state_dict(loaded["callback"])
        late = loaded["callback"] if way == "after" else None
        ddp, _ = fitted(rank, again, SAVED_AT, STEPS, loaded["weights"], late)
        found.append((same(list(ddp.parameters()), list(whole.parameters())), bool(saved["callback"]) == (rank == 0)))
    empty = made(COMPRESSOR)
    return found, empty.state_dict()


class Accelerator:
    """What `attach_accelerate` uses of `accelerate.Accelerator`."""

    scaler = None

    def __init__(self):
        self.saves, self.loads = [], []
        self.register_save_state_pre_hook, self.register_load_state_pre_hook = self.saves.append, self.loads.append


def accelerate(report, folder):
    """Interrupt a training, and resume it: whether it ends as the whole one; and the errors of two other folders."""
    rank, found, whole = dist.get_rank(), [], None
    for resumes in (False, True):
        accelerator = Accelerator()
        ddp = DistributedDataParallel(build(AllUsed))
        with attach_accelerate(accelerator, ddp, COMPRESSOR):
            [save], [load] = accelerator.saves, accelerator.loads
            if resumes:
                ddp.module.load_state_dict(torch.load(folder / f"weights-{rank}.pt"))
                load([ddp], str(folder))
            else:
                (folder / "new").mkdir(exist_ok=True)
                save([ddp], [], str(folder / "new"))
                load([ddp], str(folder / "new"))
                found.append(error_text(lambda load=load, ddp=ddp: load([ddp], str(folder / "nowhere"))))
                train(ddp, rank, 0, SAVED_AT)
                save([ddp], [], str(folder))
                torch.save(ddp.module.state_dict(), folder / f"weights-{rank}.pt")
            train(ddp, rank, SAVED_AT, STEPS)
        whole = whole or ddp
    return same(list(ddp.parameters()), list(whole.parameters())), found


def of_other_ranks(report, folder: Path):
    """Load on three ranks what two have saved; return the steps and the sum of the residuals by framework."""
    accelerator, rank = Accelerator(), dist.get_rank()
    with attach_accelerate(accelerator, DistributedDataParallel(build(AllUsed)), COMPRESSOR) as compression:
        accelerator.loads[0]([], str(folder))
        states = [compression.state_dict()]
    callback = callback_class()(COMPRESSOR)
    callback.load_state_dict(torch.load(folder / "lightning.ckpt", weights_only=True)["callback"])
    ddp = DistributedDataParallel(build(AllUsed))
    trainer = SimpleNamespace(strategy=SimpleNamespace(model=ddp), precision_plugin=SimpleNamespace())
    callback.on_fit_start(trainer, None)
    states.append(callback.compression.state_dict())
    train(ddp, rank, 0, 1)
    callback.on_exception(trainer, None, RuntimeError())
    return [(each["step"], each["rank"], each["ranks"]) for each in states], error_text(lambda: train(ddp, rank, 1, 2))
