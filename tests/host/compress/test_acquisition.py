"""What fails while it connects to other ranks leaves no descriptor, no thread and no process group."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from tests.helpers import missing_rank
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, DiLoCo, TopK, attach, attach_fsdp
from bitlane.compress.collectives.launch import launch
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

PLACES = 12  # of failure, in a test
PACKAGE = os.sep + "bitlane" + os.sep


class Injected(Exception):
    pass


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    """A process group of this process alone, and its mesh of one replica and one shard."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOO_SOCKET_IFNAME", "lo")
        store = f"file://{tmp_path_factory.mktemp('group')}/store"
        dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
        dist.destroy_process_group()


def held():
    """Return what this process holds: descriptors, threads, process groups."""
    folders = (len(os.listdir(Path("/proc/self", name))) for name in ("fd", "task"))
    return (*folders, len(dist.distributed_c10d._world.pg_map))


@contextmanager
def calls(fails_at=None):
    """Count the calls of functions of the package, in an item of the list that this gives; raise in one of them."""
    count = [0]

    def trace(frame, event, _):
        if PACKAGE in frame.f_code.co_filename:
            count[0] += 1
            if count[0] - 1 == fails_at:
                raise Injected(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(previous)


def of_ddp(mesh):
    ddp = DistributedDataParallel(nn.Linear(5, 3))
    return lambda: attach(ddp, QSGD(bits=4, error_feedback=True))


def of_fsdp(mesh):
    model = fully_shard(nn.Linear(5, 3), mesh=mesh["shard"])
    return lambda: attach_fsdp(model, TopK(density=0.1), mesh["replicate"])


def of_diloco(mesh):
    model = nn.Linear(5, 3)
    return lambda: DiLoCo(model)


@pytest.mark.parametrize("kind", [of_ddp, of_fsdp, of_diloco])
def test_a_failure_at_any_place_leaves_nothing(kind, one_rank, seed):
    kind(one_rank)().close()  # compiles, and imports
    connects = kind(one_rank)
    with calls() as count:
        compression = connects()
    compression.close()
    gc.collect()
    before = held()
    for place in np.random.default_rng(seed).integers(count[0], size=PLACES):
        connects = kind(one_rank)
        with pytest.raises(Injected) as raised, calls(fails_at=place):
            connects()
        assert held() == before, raised.value  # while the error, and so all frames, are still there


@pytest.mark.parametrize("refusal", ["attached", "built in", "overlap", "timeout"])
def test_what_attach_refuses_leaves_nothing(refusal, one_rank):
    ddp = DistributedDataParallel(nn.Linear(5, 3))
    settings, error, text = {}, DataError, "the model has the hook "
    if refusal == "attached":
        with attach(ddp, QSGD()):
            pass
    elif refusal == "built in":
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
        error, text = RuntimeError, "only be called once"
    else:
        settings, text = {refusal: "much"}, f"{refusal}.* must be "
    before = held()
    with pytest.raises(error, match=text) as raised:
        attach(ddp, QSGD(), **settings)
    assert held() == before, raised.value
    if refusal != "attached":  # plain DDP still works
        ddp(torch.ones(1, 5)).sum().backward()


def test_a_missing_rank_is_named_and_leaves_nothing():
    [(texts, counts), _] = launch(missing_rank.attach_alone, 2, timeout=120)
    assert len(set(counts)) == 1
    for kind, text in texts.items():
        assert text.startswith("RankFailed: rank 0 could not connect to all of ranks 0, 1 within 2 seconds"), kind
