"""Scenes of `test_attach.py`: ranks run them in real processes with DDP, and return the values to compare."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import (
    RANKS,
    AllUsed,
    batch,
    build,
    error_text,
    expected,
    gradients,
    local_gradients,
    same,
)
from tests.helpers.devices import DEVICE
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import LQSGD, QSGD, DDPCompression, EFSign, MiCRO, MQGrad, PowerSGD, TopK, attach
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp import overlap

PATIENCE = 20.0  # seconds
OPTIONS = (
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"bucket_cap_mb": 1e-4},
    {"static_graph": True, "bucket_cap_mb": 1e-4},
)


class Skipping(nn.Module):
    """A layer that is registered first, and used in some steps alone: its buckets are the last ones."""

    def __init__(self):
        super().__init__()
        self.side = nn.Linear(40, 40)
        self.first = nn.Linear(5, 40)
        self.last = nn.Linear(40, 3)

    def forward(self, x, use_side):
        hidden = torch.tanh(self.first(x))
        return self.last(self.side(hidden) if use_side else hidden)


class Wide(AllUsed):
    """One more layer, with parameters of float64."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(3, 4, dtype=torch.float64)

    def forward(self, x):
        return self.wide(super().forward(x).double())


def attached(model, compressor=None, settings=None, **options):
    ddp = DistributedDataParallel(model.to(DEVICE), **options)
    return ddp, attach(ddp, compressor or Uncompressed(), timeout=PATIENCE, **(settings or {}))


def are_means(ddp, reference, rank, steps):
    """Return, for each step, whether the gradient is bit-identical to the mean by hand, in the types of a reference."""
    equal = []
    for step in steps:
        ddp.zero_grad()
        ddp(batch(rank, step)).square().sum().backward()
        equal.append(same(gradients(ddp.module), expected(reference, [[batch(r, step)] for r in range(RANKS)])))
    return equal


def every_option(rank):
    """Return, for three steps with several options, whether each gradient is bit-identical to the mean by hand."""
    equal = []
    for options in OPTIONS:
        model = build(AllUsed)
        reference = copy.deepcopy(model)
        ddp, compression = attached(model, settings={"debug": True}, **options)
        with compression:
            equal += are_means(ddp, reference, rank, range(3))
            equal.append(compression.stats.steps == 3)
    return equal


def double_precision(rank):
    """Return, as `every_option`, whether gradients of four types are those by hand: float64 ones rounded to float32."""
    equal = []
    for options in OPTIONS:
        model = build(Wide)
        reference = copy.deepcopy(model)
        ddp, compression = attached(model, settings={"debug": True}, **options)
        with compression:
            equal += are_means(ddp, reference, rank, range(3))
    return equal


def skipped_buckets(rank):
    """DDP leaves out the buckets of a layer that no rank uses: in the first step, in a later one, and again."""
    equal = []
    for by_hand in (True, False):
        model = build(Skipping)
        reference = copy.deepcopy(model)
        options = {"find_unused_parameters": True, "skip_all_reduce_unused_params": True, "bucket_cap_mb": 1e-3}
        ddp = DistributedDataParallel(model, **options)
        if by_hand:
            compression = DDPCompression(Uncompressed(), timeout=PATIENCE)
            ddp.register_comm_hook(compression, DDPCompression.hook)
        else:
            compression = attach(ddp, Uncompressed(), timeout=PATIENCE)
        for use_side in (False, False) if by_hand else (False, True, False):
            ddp.zero_grad()
            ddp(batch(rank, 0), use_side).square().sum().backward()
            wanted = expected(reference, [[batch(r, 0)] for r in range(RANKS)], use_side=use_side)
            found = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
            equal.append(same(found, wanted))
        compression.close()
    return equal


def a_parameter_that_comes_later(rank):
    """Without attach, the layout of the first step is that of all."""
    model = build(Skipping)
    options = {"find_unused_parameters": True, "skip_all_reduce_unused_params": True, "bucket_cap_mb": 1e-3}
    ddp = DistributedDataParallel(model, **options)
    with DDPCompression(Uncompressed(), timeout=PATIENCE) as compression:
        ddp.register_comm_hook(compression, DDPCompression.hook)
        ddp(batch(rank, 0), False).sum().backward()
        return error_text(lambda: ddp(batch(rank, 0), True).sum().backward())


def after_a_failure(rank):
    """Rank 0 fails within a step. Both ranks raise, and go on in the same process with a new model."""
    ddp, compression = attached(build(AllUsed), QSGD(bits=8))
    ddp(batch(rank, 0)).sum().backward()
    if rank == 0:
        reducer = compression._steps._reducer
        for each in getattr(reducer, "reducers", [reducer]):
            each.average = lambda *_: 1 / 0
    try:
        ddp(batch(rank, 1)).sum().backward()
        raised = "nothing"
    except Exception as error:
        raised = type(error).__name__
    after = error_text(lambda: compression.transport.exchange([torch.zeros(1, dtype=torch.uint8)] * RANKS, [1] * RANKS))
    ddp, compression = attached(build(AllUsed), QSGD(bits=8))
    with compression:
        ddp(batch(rank, 0)).sum().backward()
    return raised, after, compression.stats.steps


def closed(rank):
    """Return the files and threads of this process after each of some models, and the error of a step after that."""
    counts = []
    for _ in range(4):
        ddp, compression = attached(nn.Linear(5, 3), QSGD(bits=8))
        ddp(batch(rank, 0)).sum().backward()
        compression.close()
        compression.close()
        counts.append(tuple(len(os.listdir(Path("/proc/self", name))) for name in ("fd", "task")))
    return counts, error_text(lambda: ddp(batch(rank, 1)).sum().backward())


def refused(rank):
    """Return the errors of attach; all come before anything is exchanged."""
    module = nn.Linear(5, 3)
    module.wide = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return (
        error_text(lambda: attach(nn.Linear(5, 3), Uncompressed())),
        error_text(lambda: attach(DistributedDataParallel(module), Uncompressed())),
        error_text(lambda: attach(DistributedDataParallel(nn.Linear(5, 3)), Uncompressed(), nonfinite="drop")),
    )


def raised_then_goes_on(rank):
    """A gradient is not finite on rank 1. Both ranks raise; the next step of the same DDP is as if nothing happened."""
    found = []
    for options in OPTIONS:
        model = build(AllUsed)
        reference = copy.deepcopy(model)
        ddp, compression = attached(model, settings={"debug": True}, **options)
        with compression:
            bad = batch(rank, 0) * (torch.inf if rank == 1 else 1)
            text = error_text(lambda ddp=ddp, bad=bad: ddp(bad).square().sum().backward())
            equal = are_means(ddp, reference, rank, (1, 2))
            found.append((text, *equal))
    return found


def with_a_scaler(rank, seed):
    """Train with a GradScaler whose scale grows every second step, and without one: whether gradients are equal.

    Step 3 overflows on rank 1 only: the scaler skips it on both ranks, as the training without a scaler does.
    """
    found = []
    for compressor in (TopK(density=0.2), QSGD(bits=2, error_feedback=True), PowerSGD(rank=1)):
        model = build(lambda: nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 3)), seed)
        plain = copy.deepcopy(model)
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10, growth_interval=2)
        ddp, compression = attached(model, compressor, {"grad_scaler": scaler})
        other, without = attached(plain, compressor)
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, plain)]
        equal, scales = [], []
        for step in range(8):
            optimizers[0].zero_grad()
            loss = ddp(batch(rank, step)).square().mean()
            overflow = torch.inf if step == 3 and rank == 1 else 1.0
            scaler.scale(loss * overflow).backward()
            scaler.unscale_(optimizers[0])
            scaler.step(optimizers[0])
            scaler.update()
            scales.append(scaler.get_scale())
            if step != 3:
                optimizers[1].zero_grad()
                other(batch(rank, step)).square().mean().backward()
                optimizers[1].step()
            equal.append(same(list(model.parameters()), list(plain.parameters())))
        compression.close()
        without.close()
        found.append((equal, scales, compression.stats.uncompressed))
    return found


def one_bucket(rank):
    """Return, for models of one bucket, whether gradients are the mean by hand, and whether a vector was allocated."""
    found = []
    for kind in (lambda: nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 3)), AllUsed):
        model = build(kind)
        reference = copy.deepcopy(model)
        ddp, compression = attached(model, settings={"overlap": False}, bucket_cap_mb=100)
        with compression:
            equal = are_means(ddp, reference, rank, range(3))
        found.append((equal, compression._buckets._vector is not None))
    return found


def unfrozen(rank, seed):
    """Freeze a layer, then unfreeze it: the residuals of the other layer stay.

    Return, for each compressor, the largest part of a gradient of the other layer that is neither applied nor in a
    residual after all steps, relative to the sum of its magnitudes.
    """
    lost = []
    for compressor in (TopK(density=0.1), MiCRO(density=0.1), EFSign(), QSGD(bits=2, error_feedback=True), LQSGD()):
        model = build(lambda: nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 30)), seed)
        model[0].requires_grad_(False)
        given, applied, size, state = 0.0, 0.0, 0.0, None
        for first_step in (0, 3):
            ddp, compression = attached(model, compressor)
            if state is not None:
                compression.load_state_dict(state)
            for step in range(first_step, first_step + 3):
                ddp.zero_grad()
                of_ranks = [found[2] for found in local_gradients(model, [[batch(r, step)] for r in range(RANKS)])]
                ddp(batch(rank, step)).square().sum().backward()
                given = given + sum(of_ranks).double()
                applied = applied + RANKS * model[2].weight.grad.double()
                size = size + sum(each.abs() for each in of_ranks)
            state = compression.state_dict()
            residual, span = compression._steps._reducer.residual(), compression._steps.layout[1]
            compression.close()
            model[0].requires_grad_(True)
        kept = residual[span.begin : span.end].view(30, 40).double()
        dist.all_reduce(kept)
        lost.append(float(((given - applied - kept).abs() / size.max()).max()))
    return lost


def first_steps_uncompressed(rank):
    """Return, for 4 steps, whether each gradient is the mean by hand."""
    model = build(AllUsed)
    reference = copy.deepcopy(model)
    ddp, compression = attached(model, QSGD(bits=2), {"start": 2})
    with compression:
        equal = are_means(ddp, reference, rank, range(4))
    return equal, compression.stats.uncompressed


def joined(rank):
    """Rank 0 has 3 batches and rank 1 has 8: MQGrad goes on with the losses of rank 1."""
    ddp, compression = attached(build(AllUsed), QSGD(bits=MQGrad(period=2)))
    with compression, Join([ddp]):
        for step in range(3 if rank == 0 else 8):
            ddp.zero_grad()
            loss = ddp(batch(rank, step)).square().sum()
            compression.observe(loss)
            loss.backward()
    return compression.stats.steps, float(compression._steps._chooser.state_dict()["periods"])


SCENES = (
    raised_then_goes_on,
    one_bucket,
    first_steps_uncompressed,
    joined,
    every_option,
    double_precision,
    skipped_buckets,
    a_parameter_that_comes_later,
    after_a_failure,
    closed,
    refused,
)


def play(report, seed, segment=None):
    """Run all scenes, and return their results by name; with `segment`, the least values of a segment, with overlap."""
    overlap.SEGMENT_VALUES = segment or overlap.SEGMENT_VALUES
    rank = dist.get_rank()
    seeded = {"with_a_scaler": with_a_scaler(rank, seed), "unfrozen": unfrozen(rank, seed)}
    return seeded | {scene.__name__: scene(rank) for scene in SCENES}


def subgroups(report):
    """Two models on two ranks each: attach takes the group of DDP. Return whether the gradient is that of the pair."""
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    model = build(AllUsed)
    reference = copy.deepcopy(model)
    first = 2 * (rank // 2)
    ddp = DistributedDataParallel(model, process_group=groups[rank // 2])
    equal = []
    for _ in range(2):  # a second group of the same ranks
        ddp = DistributedDataParallel(copy.deepcopy(reference), process_group=groups[rank // 2])
        with attach(ddp, Uncompressed(), timeout=PATIENCE):
            ddp(batch(rank, 0)).square().sum().backward()
        wanted = expected(reference, [[batch(r, 0)] for r in (first, first + 1)])
        equal.append(same(gradients(ddp.module), wanted))
    return equal
