"""Scenes of `test_copies.py`: models and compressions are copied, pickled, averaged and saved, in real processes."""

from __future__ import annotations

import copy
import io
import os
import pickle
import warnings
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.helpers import diloco_scenes, fsdp_scenes
from tests.helpers.attach_scenes import attached
from tests.helpers.ddp_scenes import RANKS, AllUsed, batch, build, expected, gradients, same
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from bitlane.compress import LQSGD, QSGD, DiLoCo, EFSign, LocalSGD, TopK, attach
from bitlane.compress.rank_state import RankState

FEEDBACK = QSGD(bits=2, error_feedback=True)


def through_file(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def spawned(value):
    """Return a value as a process that is spawned gets its arguments: its tensors share their memory."""
    return pickle.loads(bytes(ForkingPickler.dumps(value)))


COPIES = {
    "save": through_file,
    "deepcopy": copy.deepcopy,
    "averaged": lambda ddp: AveragedModel(ddp).module,
    "pickle": pickled,
    "spawn": spawned,
    "twice": lambda ddp: copy.deepcopy(through_file(ddp)),
}


def step(ddp, rank, number):
    ddp.zero_grad()
    ddp(batch(rank, number)).square().sum().backward()


def train(ddp, rank, numbers):
    optimizer = torch.optim.SGD(ddp.parameters(), 0.01)
    for number in numbers:
        step(ddp, rank, number)
        optimizer.step()


def opened():
    """Return the number of sockets and of threads of this process."""
    names = [path.name for path in Path("/proc/self/fd").iterdir()]
    links = [os.readlink(f"/proc/self/fd/{name}") for name in names if os.path.lexists(f"/proc/self/fd/{name}")]
    return sum(each.startswith("socket:") for each in links), len(os.listdir("/proc/self/task"))


def copied_model(rank):
    """Copy a model after a step: what the copy has and does, by the way of copying."""
    found = {}
    spawned(torch.zeros(1))  # starts torch's thread that shares memory
    for way, made in COPIES.items():
        ddp, compression = attached(build(AllUsed), FEEDBACK)
        with compression:
            step(ddp, rank, 0)
            before = opened()
            other = made(ddp)
            found[way] = {"same parameters": same(list(other.parameters()), list(ddp.parameters()))}
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("always")
                with torch.no_grad():
                    other(batch(rank, 1))
                quiet = len(shown)
                step(other, rank, 1)
            found[way]["warnings"] = (quiet, [str(each.message) for each in shown])
            wanted = expected(ddp.module, [[batch(r, 1)] for r in range(RANKS)])
            pairs = zip(gradients(other), wanted, strict=True)
            found[way]["plain gradients"] = all(torch.allclose(a, b, rtol=0.02, atol=1e-3) for a, b in pairs)
            found[way]["opened"] = opened() == before
            step(ddp, rank, 1)  # the model goes on, and its copy can be attached
            found[way]["steps"] = compression.stats.steps
    return found


def copy_is_attached(rank):
    """Attach to a copy: it trains as the model does, without a warning."""
    ddp, compression = attached(build(AllUsed), FEEDBACK)
    train(ddp, rank, range(2))
    other = through_file(ddp)
    with compression, attach(other, FEEDBACK) as of_other, warnings.catch_warnings():
        warnings.simplefilter("error")
        of_other.load_state_dict(compression.state_dict())
        train(ddp, rank, range(2, 5))
        train(other, rank, range(2, 5))
    return same(list(ddp.parameters()), list(other.parameters())), of_other.stats.steps


def size_of_copies(rank):
    """Return the bytes of a saved model, with and without a compression that has a residual."""
    sizes = []
    for is_attached in (False, True):
        ddp = DistributedDataParallel(torch.nn.Linear(300, 300))
        if is_attached:
            ddp, _ = attached(torch.nn.Linear(300, 300), FEEDBACK)
        ddp(torch.ones(1, 300)).sum().backward()
        sizes.append(len(pickle.dumps(ddp)))
    return sizes


def copied_compression(rank):
    """Copy a compression after three steps, and give its state to another: whether they go on alike."""
    found = []
    for compressor in (FEEDBACK, EFSign(), TopK(density=0.1), LQSGD()):
        for way in (through_file, copy.deepcopy, spawned):
            ddp, compression = attached(build(AllUsed), compressor)
            empty = way(compression)
            train(ddp, rank, range(3))
            other, of_other = attached(copy.deepcopy(ddp.module), compressor)
            of_other.load_state_dict(way(compression).state_dict())
            for each in (ddp, other):
                train(each, rank, range(3, 5))
            errors = (error(empty.state_dict), error(lambda empty=empty: empty.hook))
            found.append((same(list(ddp.parameters()), list(other.parameters())), way(compression).stats.steps, errors))
            compression.close()
            of_other.close()
    return found


def error(work):
    try:
        return f"nothing: {work()}"
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"


def checkpointed(rank, folder):
    """Save with `torch.distributed.checkpoint`, and resume with new objects: whether both go on alike."""
    found = []
    for name, compressor in {"qsgd": FEEDBACK, "efsign": EFSign()}.items():
        results = []
        for resumes in (False, True):
            ddp, compression = attached(build(AllUsed), compressor)
            stored = {"model": ddp.module, "compression": RankState(compression)}
            with compression:
                if resumes:
                    dcp.load(stored, checkpoint_id=folder / name)
                else:
                    dcp.save(stored, checkpoint_id=folder / f"{name} before the first step")
                    train(ddp, rank, range(3))
                    dcp.save(stored, checkpoint_id=folder / name)
                train(ddp, rank, range(3, 5))
                results.append(list(ddp.parameters()))
        found.append(same(*results))
    return found


def diloco(rank):
    """Copy a `DiLoCo` and its model, and go on with the state of the copy: whether it trains as the original does."""
    found = []
    for kind in (DiLoCo, LocalSGD):
        for settings in ({"every": 3}, {"every": 4, "delay": 3}):
            results = []
            model = diloco_scenes.build(rank)
            trainer = kind(model, **settings)
            optimizer = diloco_scenes.inner_optimizer(model)
            for number in range(1, 14):
                if number == 6:
                    copied = [way((trainer, model)) for way in (through_file, copy.deepcopy, pickled)]
                diloco_scenes.inner_step(model, optimizer, 7, rank, number)
                trainer.step()
            results.append(diloco_scenes.flat(model))
            trainer.close()
            for detached, other in copied:
                weights = copy.deepcopy(other.state_dict())
                momenta = _momenta_until(rank, 6, kind, settings)
                again = kind(other, **settings)
                other.load_state_dict(weights)
                again.load_state_dict(detached.state_dict())
                optimizer = diloco_scenes.inner_optimizer(other)
                optimizer.load_state_dict(momenta)
                for number in range(6, 14):
                    diloco_scenes.inner_step(other, optimizer, 7, rank, number)
                    again.step()
                again.close()
                results.append(diloco_scenes.flat(other))
            equal = all(torch.equal(results[0], each) for each in results)
            found.append((equal, error(lambda detached=detached: detached.step)))
    return found


def _momenta_until(rank, end, kind, settings):
    """Return the state of the inner optimizer after the steps before `end`."""
    model = diloco_scenes.build(rank)
    optimizer = diloco_scenes.inner_optimizer(model)
    with kind(model, **settings) as trainer:
        for number in range(1, end):
            diloco_scenes.inner_step(model, optimizer, 7, rank, number)
            trainer.step()
    return optimizer.state_dict()


def fsdp(rank):
    """A sharded model cannot be copied, says FSDP; its compression can, and so can the checkpoint of both."""
    mesh = fsdp_scenes.mesh_of(2, 1)
    model, compression = fsdp_scenes.attached(mesh, FEEDBACK)
    with compression:
        fsdp_scenes.backward(model, batch(rank, 0))
        copied = through_file(compression)
        other, of_other = fsdp_scenes.attached(mesh, FEEDBACK)
        with of_other:
            of_other.load_state_dict(copied.state_dict())
            for each in (model, other):
                each.zero_grad()
                fsdp_scenes.backward(each, batch(rank, 1))
        found, wanted = fsdp_scenes.local_gradients(other), fsdp_scenes.local_gradients(model)
    return fsdp_scenes.same(found, wanted), copied.stats.steps, error(lambda: copied.close)


SCENES = (copied_model, copy_is_attached, size_of_copies, copied_compression, diloco, fsdp)


def play(report, folder):
    """Run all scenes, and return their results by name."""
    rank = dist.get_rank()
    return {"checkpointed": checkpointed(rank, folder)} | {scene.__name__: scene(rank) for scene in SCENES}
