"""Scenes of `test_integrations.py`: parts of PyTorch around DDP and its hook, in real processes."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
import torch.distributed as dist
from tests.helpers.attach_scenes import PATIENCE, attached
from tests.helpers.ddp_scenes import RANKS, batch, error_text, expected, gradients, same
from tests.helpers.devices import DEVICE
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, PowerSGD, attach
from bitlane.compress.compressors.uncompressed import Uncompressed


def build(*widths):
    torch.manual_seed(0)
    sizes = (5, 40, *widths)
    hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], 3)).to(DEVICE)


def compiled(rank):
    """Compile the model in DDP, then the model inside: whether gradients are those by hand, and the steps."""
    found = []
    for inside in (False, True):
        model = build(600, 600)  # two buckets of 1 MiB, the smallest ones that dynamo takes
        reference = copy.deepcopy(model)
        run = torch.compile(model, backend="aot_eager") if inside else model
        ddp, compression = attached(run, bucket_cap_mb=1)
        forward = ddp if inside else torch.compile(ddp, backend="aot_eager")
        close = []
        with compression:
            for step in range(3):
                ddp.zero_grad()
                forward(batch(rank, step)).square().sum().backward()
                wanted = expected(reference, [[batch(r, step)] for r in range(RANKS)])
                pairs = zip(gradients(model), wanted, strict=True)
                close.append(all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs))
        found.append((close, compression.stats.steps))
    return found


def compiled_autograd(rank):
    """Return the error of a backward pass that is compiled, in which DDP has no buckets."""
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        ddp, compression = attached(build())
        step = torch.compile(ddp, backend="aot_eager")
        with compression, torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
            return error_text(lambda: step(batch(rank, 0)).square().sum().backward())


def sparse_embedding(rank):
    """Return the error for sparse gradients beside dense ones; then train the dense layer alone."""
    model = nn.Sequential(nn.Embedding(4, 5, sparse=True), nn.Linear(5, 3)).to(DEVICE)
    found = []
    for options in ({}, {"bucket_cap_mb": 1e-4}, {"gradient_as_bucket_view": True}):
        ddp, compression = attached(copy.deepcopy(model), **options)
        with compression:
            found.append(error_text(lambda ddp=ddp: ddp(torch.tensor([rank, 3], device=DEVICE)).sum().backward()))
    dense = copy.deepcopy(model)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(dense, ["0.weight"])
    ddp, compression = attached(dense)
    with compression:
        ddp(torch.tensor([rank, 3], device=DEVICE)).sum().backward()
    of_ranks = [model[0](torch.tensor([r, 3], device=DEVICE)).detach().sum(0).expand(3, 5) for r in range(RANKS)]
    weight, bias = gradients(dense[1])
    return found, torch.allclose(weight, torch.stack(of_ranks).mean(0)) and bool((bias == 2).all())


def zero_redundancy(rank):
    """Train with an optimizer whose state is sharded, and with a plain one: whether the parameters are equal."""
    found = []
    for compressor in (QSGD(bits=2, error_feedback=True), PowerSGD(rank=1)):
        results = []
        for kind in (ZeroRedundancyOptimizer, torch.optim.Adam):
            ddp, compression = attached(build(), compressor)
            sharded = {"optimizer_class": torch.optim.Adam} if kind is ZeroRedundancyOptimizer else {}
            optimizer = kind(ddp.parameters(), lr=0.01, **sharded)
            with compression:
                for step in range(4):
                    optimizer.zero_grad()
                    ddp(batch(rank, step)).square().sum().backward()
                    optimizer.step()
            results.append([p.detach().clone() for p in ddp.parameters()])
        found.append(same(*results))
    return found


SCENES = (compiled, compiled_autograd, sparse_embedding, zero_redundancy)


def play(report):
    """Run all scenes, and return their results by name."""
    return {scene.__name__: scene(dist.get_rank()) for scene in SCENES}


def meshes(report):
    """DDP over one dimension of a mesh, given as `device_mesh` or as its group: whether gradients are the pair's."""
    mesh = init_device_mesh(DEVICE.type, (2, 2), mesh_dim_names=("replicate", "other"))["replicate"]
    rank = dist.get_rank()
    pair = dist.get_process_group_ranks(mesh.get_group())
    equal = []
    for options in ({"device_mesh": mesh}, {"process_group": mesh.get_group()}):
        model = build()
        reference = copy.deepcopy(model)
        ddp = DistributedDataParallel(model, **options)
        with attach(ddp, Uncompressed(), timeout=PATIENCE):
            ddp(batch(rank, 0)).square().sum().backward()
        equal.append(same(gradients(model), expected(reference, [[batch(r, 0)] for r in pair])))
    return pair, equal
