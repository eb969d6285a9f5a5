"""Scenes of `test_hook.py`: two ranks run them in real processes with DDP, and return the values to compare."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import torch
import torch.distributed as dist
from tests.helpers.devices import DEVICE
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD, DDPCompression, attach
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp import overlap
from bitlane.errors import BitlaneError

RANKS = 2
SEGMENT = 40  # values, in scenes with overlap


class Mixed(nn.Module):
    """Parameters of three types; registered in another order than they are used in."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(17, 3)
        self.low = nn.Linear(9, 17, dtype=torch.bfloat16)
        self.scale = nn.Parameter(torch.ones(9, dtype=torch.float16))
        self.first = nn.Linear(5, 9)
        self.other = nn.Linear(9, 17)

    def forward(self, x, use_low=True):
        hidden = torch.tanh(self.first(x)) * self.scale.float()
        hidden = self.low(hidden.bfloat16()).float() if use_low else self.other(hidden)
        return self.last(torch.tanh(hidden))


class AllUsed(Mixed):
    def forward(self, x):
        return super().forward(x, True) + super().forward(x, False)


def build(kind, seed=0):
    torch.manual_seed(seed)
    return kind().to(DEVICE)


def batch(rank, step, rows=4):
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(100 * rank + step)).to(DEVICE)


def local_gradients(model, inputs, **options):
    """Return the gradients of each rank without DDP, zeros for unused parameters: [rank][parameter]."""
    found = []
    for each in inputs:
        replica = copy.deepcopy(model)
        for x in each:
            replica(x, **options).square().sum().backward()
        found.append([torch.zeros_like(p) if p.grad is None else p.grad for p in replica.parameters()])
    return found


def expected(model, inputs, **options):
    """Return the mean of the gradients of all ranks, computed by hand, in the type of each parameter."""
    columns = zip(*local_gradients(model, inputs, **options), strict=True)
    return [mean(column).to(column[0].dtype) for column in columns]


def wrapped(model, compressor=None, **options):
    compression_options = {name: options.pop(name) for name in ("debug", "nonfinite") if name in options}
    ddp = DistributedDataParallel(model.to(DEVICE), **options)
    if overlap.SEGMENT_VALUES == SEGMENT:
        return ddp, attach(ddp, compressor or Uncompressed(), **compression_options)
    compression = DDPCompression(compressor or Uncompressed(), **compression_options)
    ddp.register_comm_hook(compression, DDPCompression.hook)
    return ddp, compression


def same(found, wanted):
    return all(f.dtype == w.dtype and torch.equal(f, w) for f, w in zip(found, wanted, strict=True))


def mean(vectors):
    """Return the mean: a sum in float32 in the order of ranks, times the reciprocal of their number."""
    total = torch.zeros_like(vectors[0], dtype=torch.float32)
    for vector in vectors:
        total = total + vector.float()
    return total * (1 / len(vectors))


def gradients(model):
    return [p.grad for p in model.parameters()]


def mixed_types(rank):
    """Return, for three steps with several options, whether each gradient is bit-identical to the mean by hand."""
    equal = []
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"bucket_cap_mb": 1e-4}):
        model = build(AllUsed)
        reference = copy.deepcopy(model)
        ddp, _ = wrapped(model, debug=True, **options)
        for step in range(3):
            ddp.zero_grad()
            ddp(batch(rank, step)).square().sum().backward()
            equal.append(same(gradients(model), expected(reference, [[batch(r, step)] for r in range(RANKS)])))
    return equal


def accumulation(rank):
    """Run two passes without synchronization and one with it, twice."""
    model = build(AllUsed)
    reference = copy.deepcopy(model)
    ddp, compression = wrapped(model)
    equal = []
    for step in range(2):
        ddp.zero_grad()
        for part in range(3):
            with ddp.no_sync() if part < 2 else nullcontext():
                ddp(batch(rank, 3 * step + part)).square().sum().backward()
        inputs = [[batch(r, 3 * step + part) for part in range(3)] for r in range(RANKS)]
        equal.append(same(gradients(model), expected(reference, inputs)))
    return equal, compression.stats.steps


def unused(rank):
    """Use a layer on one rank only, then on the other only, then on none."""
    model = build(Mixed)
    reference = copy.deepcopy(model)
    ddp, _ = wrapped(model, find_unused_parameters=True)
    equal = []
    for uses in ((True, False), (False, True), (False, False)):
        ddp.zero_grad()
        ddp(batch(rank, 0), use_low=uses[rank]).square().sum().backward()
        local = [local_gradients(reference, [[batch(r, 0)]], use_low=uses[r])[0] for r in range(RANKS)]
        wanted = [mean(column).to(column[0].dtype) for column in zip(*local, strict=True)]
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        equal.append(same(found, wanted))
    return equal


def uneven(rank):
    """Train with one batch on rank 0 and three on rank 1: missing batches count as zeros."""
    model = build(AllUsed)
    reference = copy.deepcopy(model)
    ddp, compression = wrapped(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    counts = (1, 3)
    with ddp.join():
        for step in range(counts[rank]):
            optimizer.zero_grad()
            ddp(batch(rank, step)).square().sum().backward()
            optimizer.step()
    by_hand = torch.optim.SGD(reference.parameters(), 0.01)
    for step in range(max(counts)):
        inputs = [[batch(r, step)] if step < counts[r] else [] for r in range(RANKS)]
        for parameter, gradient in zip(reference.parameters(), expected(reference, inputs), strict=True):
            parameter.grad = gradient
        by_hand.step()
    return same(list(model.parameters()), list(reference.parameters())), compression.stats.steps


def trained(rank, steps, compressor, first_without_sync=False, **options):
    model = build(AllUsed)
    ddp, compression = wrapped(model, compressor, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    if first_without_sync:
        with ddp.no_sync():
            ddp(batch(rank, 77)).square().sum().backward()
    for step in range(steps):
        optimizer.zero_grad()
        ddp(batch(rank, step)).square().sum().backward()
        optimizer.step()
    return torch.cat([p.detach().double().flatten() for p in model.parameters()]), compression


def bucket_sizes(rank):
    """Return whether four bucket sizes give the same parameters; DDP rebuilds its buckets after the first step."""
    compressor = QSGD(bits=3)  # stochastic rounding, so the draw of a value depends on its index
    one, _ = trained(rank, 6, compressor, bucket_cap_mb=25)
    return [
        torch.equal(one, trained(rank, 6, compressor, **options)[0])
        for options in (
            {"bucket_cap_mb": 1e-4},
            {"bucket_cap_mb": 1e-3, "gradient_as_bucket_view": True},
            {"bucket_cap_mb": 1e-4, "first_without_sync": True},
            {"bucket_cap_mb": 1e-4, "find_unused_parameters": True},  # cut from the first step on
        )
    ]


def resumed(rank):
    """Return whether five steps with new objects after the second give the parameters of an uninterrupted run."""
    compressor = QSGD(bits=2, error_feedback=True)
    whole, compression = trained(rank, 5, compressor)
    model = build(AllUsed)
    state = None
    optimizer = None
    for begin, end in ((0, 2), (2, 5)):
        model = copy.deepcopy(model)
        ddp, compression = wrapped(model, compressor, bucket_cap_mb=1e-4 if begin else 25)
        if state is not None:
            compression.load_state_dict(state)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(begin, end):
            optimizer.zero_grad()
            ddp(batch(rank, step)).square().sum().backward()
            optimizer.step()
        state = compression.state_dict()
    return torch.equal(whole, torch.cat([p.detach().double().flatten() for p in model.parameters()]))


def stats(rank):
    _, compression = trained(rank, 3, QSGD(bits=8))
    stats = compression.stats
    return vars(stats), stats.ratio, stats.total.ratio


def error_text(work):
    try:
        work()
    except BitlaneError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def backward(model, x):
    ddp, _ = wrapped(model)
    return error_text(lambda: ddp(x.to(DEVICE)).sum().abs().backward())


def refusals(rank):
    """Return the errors for unsupported gradients, and the result of a supported model after them."""
    complex_values = backward(nn.Linear(5, 2, dtype=torch.complex64), torch.ones(1, 5, dtype=torch.complex64))
    sparse = backward(nn.Embedding(4, 2, sparse=True), torch.tensor([rank]))
    return complex_values, sparse, backward(nn.Linear(5, 2), torch.ones(1, 5))


def fsdp(rank):
    """Return the error for FSDP2, whose hook gets gradients that have already been averaged."""
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(nn.Linear(8, 8).to(DEVICE))
    compression = DDPCompression(Uncompressed())
    model.set_all_reduce_hook(compression.hook)
    return error_text(lambda: model(torch.ones(2, 8, device=DEVICE)).sum().backward())


SCENES = (mixed_types, accumulation, unused, uneven, bucket_sizes, resumed, stats, refusals, fsdp)


def play_with_overlap(report):
    """Run the scenes with averages in small segments beside the backward pass, and return their results by name."""
    overlap.SEGMENT_VALUES = SEGMENT
    scenes = (mixed_types, accumulation, unused, uneven, bucket_sizes, resumed)
    return {scene.__name__: scene(dist.get_rank()) for scene in scenes}


def play(report):
    """Run all scenes, and return their results by name."""
    return {scene.__name__: scene(dist.get_rank()) for scene in SCENES}
