"""Scenes of `tests/host/compress/fsdp/test_errors.py`: what fails or is refused under FSDP2, in real processes."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import batch, error_text
from tests.helpers.fsdp_scenes import SECONDS, attached, backward, local_gradients, mesh_of, sharded
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

from bitlane.compress import QSGD, BitAllocation, EFSign, MQGrad, attach_fsdp


class Pair(nn.Module):
    """Two groups of the same shapes, used in this order or the other one."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x, left_first):
        return self.right(self.left(x)) if left_first else self.left(self.right(x))


def not_finite(rank, mesh):
    """A gradient is NaN in the rows of one shard of replica 0: all raise. Then the model goes on; and with "skip"."""
    found = []
    for nonfinite in ("raise", "skip", "pass"):
        model, compression = attached(mesh, QSGD(bits=2, error_feedback=True), nonfinite=nonfinite)
        with compression:
            backward(model, batch(rank, 0))
            before = compression.state_dict()["groups"]["middle"]["reducer"]
            model.zero_grad()
            spoil = _spoil_rows(compression, rank)
            text = error_text(lambda model=model: backward(model, batch(rank, 1)))
            spoil()
            after = compression.state_dict()["groups"]["middle"]["reducer"]
            kept = all(torch.equal(before[k], after[k]) for k in before if isinstance(before[k], torch.Tensor))
            zeros = not any(g.any() for n, g in local_gradients(model).items() if n.startswith("middle"))
            model.zero_grad()
            again = error_text(lambda model=model: backward(model, batch(rank, 2)))
        found.append((text, kept, zeros, again))
    return found


def _spoil_rows(compression, rank):
    """Set NaN in the gradient of the group `middle` on rank 0, until the returned function is called."""
    runner = compression._runners["middle"]
    average = runner.average

    def spoiled(gradient, *arguments, **options):
        def with_nan():
            vector = gradient()
            vector[0] = torch.nan
            return vector

        return average(with_nan if rank == 0 else gradient, *arguments, **options)

    runner.average = spoiled
    return lambda: setattr(runner, "average", average)


def failing(rank, mesh):
    """The codec of one rank fails in a step: all ranks raise. Then a new attachment goes on."""
    model, compression = attached(mesh, QSGD(bits=8))
    backward(model, batch(rank, 0))
    if rank == 1:
        compression._runners["middle"]._reducer.average = lambda *_: 1 / 0
    try:
        backward(model, batch(rank, 1))
        raised = "nothing"
    except Exception as error:
        raised = type(error).__name__
    compression.close()
    model, compression = attached(mesh, QSGD(bits=8))
    with compression:
        backward(model, batch(rank, 0))
    after = error_text(lambda: backward(model, batch(rank, 1)))
    return raised, compression.stats.steps, after


def different_modules(rank, mesh):
    """The replicas use different modules, or the same ones in another order: two errors, on all ranks."""
    first = mesh.get_local_rank("replicate") == 0
    model, compression = attached(mesh)
    with compression:
        backward(model, batch(rank, 0))
        text = error_text(lambda: backward(model, batch(rank, 1), use_middle=first))
    model = Pair()
    for layer in (model.left, model.right):
        fully_shard(layer, mesh=mesh["shard"])
    model = fully_shard(model, mesh=mesh["shard"])
    with attach_fsdp(model, EFSign(), mesh["replicate"], timeout=SECONDS):
        return text, error_text(lambda: backward(model, batch(rank, 0), left_first=first))


def refused(rank, mesh):
    """Return the errors of `attach_fsdp`; all come before anything is exchanged."""
    every = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("all",))
    wide = fully_shard(nn.Linear(5, 3, dtype=torch.complex64), mesh=mesh["shard"])
    frozen = fully_shard(nn.Linear(5, 3).requires_grad_(False), mesh=mesh["shard"])
    tensor_parallel = parallelize_module(nn.Linear(5, 3), mesh["replicate"], RowwiseParallel())
    fully_shard(tensor_parallel, mesh=mesh["shard"])
    mixed = nn.Linear(5, 3)
    mixed.inner = fully_shard(nn.Linear(5, 3), mesh=every)
    fully_shard(mixed, mesh=mesh["shard"])
    model, replicas = sharded(mesh["shard"]), mesh["replicate"]
    cases = (
        lambda: attach_fsdp(nn.Linear(5, 3), QSGD(), replicas),
        lambda: attach_fsdp(sharded(mesh), QSGD(), replicas),
        lambda: attach_fsdp(sharded(every), QSGD(), every),
        lambda: attach_fsdp(model, QSGD(), mesh["replicate"].get_group()),
        lambda: attach_fsdp(model, QSGD(), mesh),
        lambda: attach_fsdp(wide, QSGD(), replicas),
        lambda: attach_fsdp(frozen, QSGD(), replicas),
        lambda: attach_fsdp(model, QSGD(bits=MQGrad()), replicas),
        lambda: attach_fsdp(model, QSGD(bits=BitAllocation()), replicas),
        lambda: attach_fsdp(tensor_parallel, QSGD(), replicas),
        lambda: attach_fsdp(mixed, QSGD(), replicas),
        lambda: attach_fsdp(model, QSGD(), replicas, nonfinite="drop"),
    )
    return [error_text(each) for each in cases]


def frozen_later(rank, mesh):
    """A layer is frozen after attaching; and the state of another mesh or model."""
    model, compression = attached(mesh, QSGD(bits=8))
    with compression:
        before = error_text(compression.state_dict)
        backward(model, batch(rank, 0))
        state = compression.state_dict()
        other = error_text(lambda: compression.load_state_dict({**state, "shard": "5 of 9"}))
        odd = error_text(lambda: compression.load_state_dict({**state, "groups": {"head": {}}}))
        model.first.bias.requires_grad_(False)
        frozen = error_text(lambda: backward(model, batch(rank, 1)))
    return before, other, odd, frozen


SCENES = (not_finite, failing, different_modules, refused, frozen_later)


def play(report):
    """Run all scenes on 2 replicas of 2 shards, and return their results by name."""
    mesh, rank = mesh_of(2, 2), dist.get_rank()
    return {scene.__name__: scene(rank, mesh) for scene in SCENES}


def die(gradient):
    os.kill(os.getpid(), signal.SIGKILL)


def killed(report, folder):
    """Rank 1 is killed in a backward pass: the others write their error and the seconds until then."""
    mesh, rank = mesh_of(2, 2), dist.get_rank()
    model, _ = attached(mesh, QSGD(bits=8))
    backward(model, batch(rank, 0))
    if rank == 1:
        model.middle.register_forward_hook(lambda module, x, y: y.register_hook(die) and None)
    start = time.monotonic()
    try:
        backward(model, batch(rank, 1))
    except Exception as error:
        (folder / f"error-{rank}.txt").write_text(f"{type(error).__name__} {time.monotonic() - start:.1f}")
        raise
