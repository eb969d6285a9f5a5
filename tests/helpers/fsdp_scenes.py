"""Scenes of `tests/host/compress/fsdp/test_hook.py`: ranks run them in real processes with FSDP2."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import batch, mean
from tests.helpers.devices import DEVICE
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from bitlane.compress import LQSGD, QSGD, EFSign, MiCRO, PowerSGD, TernGrad, TopK, attach_fsdp
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.support.hashing import derive_seed

SECONDS = 20.0  # that a rank waits
GROUPS = {"": ("scale", "shift"), "first": ("weight", "bias"), "middle": ("weight", "bias"), "last": ("weight", "bias")}


class Net(nn.Module):
    """Four groups; two shards divide 10 rows evenly, 7 with padding, and 1 so that the second shard has none."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 10))
        self.shift = nn.Parameter(torch.ones(3))
        self.first = nn.Linear(5, 10)
        self.middle = nn.Linear(10, 7)
        self.last = nn.Linear(7, 1)

    def forward(self, x, use_shift=True, use_middle=True):
        hidden = torch.tanh(self.first(x)) * self.scale
        found = self.last(torch.tanh(self.middle(hidden)) if use_middle else hidden[:, :7])
        return found + self.shift.sum() if use_shift else found


def build(seed=0):
    torch.manual_seed(seed)
    return Net().to(DEVICE)


def mesh_of(replicas, shards):
    return init_device_mesh(DEVICE.type, (replicas, shards), mesh_dim_names=("replicate", "shard"))


def sharded(mesh, seed=0, **options):
    model = build(seed)
    for layer in (model.first, model.middle, model.last):
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def attached(mesh, compressor=None, seed=0, options=None, **settings):
    model = sharded(mesh["shard"], seed, **(options or {}))
    return model, attach_fsdp(model, compressor or Uncompressed(), mesh["replicate"], timeout=SECONDS, **settings)


def backward(model, x, **options):
    model(x, **options).square().mean().backward()


def local_gradients(model):
    return {name: p.grad.to_local() for name, p in model.named_parameters()}


def by_hand(mesh, batches, uses=None):
    """Return the gradients of each replica: its shards' mean, the rows of this rank's shard; by name."""
    replicas, shards = mesh.shape
    shard = mesh.get_local_rank("shard")
    found = []
    for replica in range(replicas):
        of_ranks = []
        for rank in range(replica * shards, (replica + 1) * shards):
            model = build()
            backward(model, batches[rank], use_shift=uses[rank] if uses else True)
            of_ranks.append([torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()])
        means = [mean(column) for column in zip(*of_ranks, strict=True)]
        found.append(
            {name: rows(each, shard, shards) for (name, _), each in zip(model.named_parameters(), means, strict=True)}
        )
    return found


def rows(tensor, shard, shards):
    """Return the rows of a shard: ceil(rows / shards) of them, or what is left."""
    size = -(-len(tensor) // shards)
    return tensor[shard * size : (shard + 1) * size]


def averaged(replicas):
    return {name: mean([each[name] for each in replicas]) for name in replicas[0]}


def same(found, wanted):
    return set(found) == set(wanted) and all(torch.equal(found[name], wanted[name]) for name in wanted)


def batches_of(step):
    return [batch(rank, step) for rank in range(dist.get_world_size())]


def uncompressed(rank, mesh):
    """Return, for three steps, whether the gradients are those by hand, and the error relative to FSDP's own."""
    model, compression = attached(mesh, debug=True)
    native = sharded(mesh)
    equal, errors = [], []
    with compression:
        for step in range(3):
            for each in (model, native):
                each.zero_grad()
                backward(each, batch(rank, step))
            found, other = local_gradients(model), local_gradients(native)
            equal.append(same(found, averaged(by_hand(mesh, batches_of(step)))))
            errors += [
                float((found[n] - other[n]).norm() / (found[n].norm() + 1e-30)) for n in found if found[n].numel()
            ]
    return equal, max(errors), compression.stats.steps


def reduced(compressor, shapes, gradients):
    """Return the averages of the steps of a reducer by hand: gradients [replica][step][parameter]."""

    def work(transport):
        link = Link(transport, "")
        reducer = compressor.reducer(layout_of_shapes(shapes), link, AlphaBetaModel(), DEVICE)
        found = []
        for step, parameters in enumerate(gradients[transport.rank]):
            vector = torch.cat([each.flatten() for each in parameters])
            reducer.average(vector, step)
            found.append(
                [part.view(s) for part, s in zip(vector.split([s.numel() for s in shapes]), shapes, strict=True)]
            )
        return found

    return run_ranks_in_threads(len(gradients), work)[0]


def by_reducers(rank, mesh, seed):
    """Return, for compressors and four steps, whether the gradients are those of a reducer for each group by hand."""
    equal = []
    for compressor in (
        QSGD(bits=3, seed=seed),
        QSGD(bits=2, error_feedback=True),
        TernGrad(seed=seed),
        EFSign(),
        TopK(),
    ):
        model, compression = attached(mesh, compressor, debug=True)
        found, replicas = [], []
        with compression:
            for step in range(4):
                model.zero_grad()
                backward(model, batch(rank, step))
                found.append({name: each.clone() for name, each in local_gradients(model).items()})
                replicas.append(by_hand(mesh, batches_of(step)))
        for index, (group, parameters) in enumerate(GROUPS.items()):
            names = [f"{group}.{each}".lstrip(".") for each in parameters]
            shapes = [found[0][name].shape for name in names if found[0][name].numel()]
            names = [name for name in names if found[0][name].numel()]
            own = compressor
            if index and hasattr(compressor, "seed"):
                own = type(compressor)(**{**vars(compressor), "seed": derive_seed(compressor.seed, index)})
            gradients = [[[of_step[r][name] for name in names] for of_step in replicas] for r in range(mesh.shape[0])]
            if names:
                wanted = reduced(own, shapes, gradients)
                equal += [torch.equal(found[s][n], w) for s in range(4) for n, w in zip(names, wanted[s], strict=True)]
    return equal


def trained(mesh, compressor, steps, parts=1, seed=0):
    """Train, with new objects after each part; return the parameters of this rank, and the compression."""
    state, model_state, optimizer_state = None, None, None
    for part in range(parts):
        model, compression = attached(mesh, compressor, seed, debug=parts == 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.5)
        if state is not None:
            model.load_state_dict(model_state)
            optimizer.load_state_dict(optimizer_state)
            compression.load_state_dict(state)
        with compression:
            for step in range(steps * part // parts, steps * (part + 1) // parts):
                optimizer.zero_grad()
                backward(model, batch(dist.get_rank(), step))
                optimizer.step()
            state, model_state, optimizer_state = compression.state_dict(), model.state_dict(), optimizer.state_dict()
            state, optimizer_state = copy.deepcopy(state), copy.deepcopy(optimizer_state)
    return [p.to_local().detach().clone() for p in model.parameters()], compression


COMPRESSORS = (
    *(Uncompressed(), QSGD(bits=4), QSGD(bits=2, error_feedback=True), EFSign(), TopK(density=0.2)),
    *(MiCRO(density=0.2), PowerSGD(rank=1), LQSGD(rank=1)),
)


def resumed(rank, mesh):
    """Return, for each compressor, the bytes of parameters, and whether an interrupted training gives the same ones."""
    found = []
    for compressor in COMPRESSORS:
        whole, _ = trained(mesh, compressor, 5)
        again, _ = trained(mesh, compressor, 5, parts=2)
        equal = all(torch.equal(a, b) for a, b in zip(whole, again, strict=True))
        found.append((b"".join(each.cpu().numpy().tobytes() for each in whole), equal))
    return found


def counted(rank, mesh):
    """Return the statistics of two steps of 8-bit codes."""
    model, compression = attached(mesh, QSGD(bits=8))
    with compression:
        for step in range(2):
            backward(model, batch(rank, step))
    stats = compression.stats
    return stats.steps, stats.bytes_sent, stats.total.bytes_sent, stats.values, stats.bits, stats.ring_bytes


def accumulated(rank, mesh):
    """Two passes without synchronization and one with it are one step."""
    model, compression = attached(mesh)
    equal, parts = [], []
    with compression:
        for part in range(3):
            model.set_requires_gradient_sync(part == 2)
            backward(model, batch(rank, part))
            parts.append(averaged(by_hand(mesh, batches_of(part))))
    found = local_gradients(model)
    wanted = {name: sum(each[name] for each in parts) for name in found}
    equal = [torch.allclose(found[name], wanted[name], rtol=1e-5, atol=1e-7) for name in found]
    return all(equal), compression.stats.steps


def unused(rank, mesh):
    """Replica 0 does not use a parameter, then no rank: its gradient counts as 0."""
    model, compression = attached(mesh)
    equal = []
    half = dist.get_world_size() // 2
    with compression:
        for step, uses in enumerate(([False] * half + [True] * half, [False] * 2 * half)):
            model.zero_grad()
            backward(model, batch(rank, step), use_shift=uses[rank])
            equal.append(same(local_gradients(model), averaged(by_hand(mesh, batches_of(step), uses))))
    return equal


def with_a_scaler(rank, mesh):
    """Train with a GradScaler, and without one: whether parameters are equal. Step 3 overflows on rank 1 only."""
    found = []
    for compressor in (TopK(density=0.2), QSGD(bits=2, error_feedback=True)):
        scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10, growth_interval=2)
        models = [attached(mesh, compressor, grad_scaler=scaler), attached(mesh, compressor)]
        (model, compression), (plain, without) = models
        optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each, _ in models]
        equal, scales = [], []
        for step in range(6):
            optimizers[0].zero_grad()
            loss = model(batch(rank, step)).square().mean()
            scaler.scale(loss * (torch.inf if step == 3 and rank == 1 else 1.0)).backward()
            scaler.step(optimizers[0])
            scaler.update()
            scales.append(scaler.get_scale())
            if step != 3:
                optimizers[1].zero_grad()
                backward(plain, batch(rank, step))
                optimizers[1].step()
            pairs = zip(model.parameters(), plain.parameters(), strict=True)
            equal.append(all(torch.equal(a.to_local(), b.to_local()) for a, b in pairs))
        compression.close()
        without.close()
        found.append((equal, scales))
    return found


def low_precision(rank, mesh):
    """Gradients are reduced as bfloat16 and float16: return the largest error relative to those by hand."""
    errors = []
    for dtype in (torch.bfloat16, torch.float16):
        policy = MixedPrecisionPolicy(reduce_dtype=dtype)
        model, compression = attached(mesh, options={"mp_policy": policy}, debug=True)
        with compression:
            backward(model, batch(rank, 0))
        found, wanted = local_gradients(model), averaged(by_hand(mesh, batches_of(0)))
        errors.append(max(float((found[n] - w).norm() / (w.norm() + 1e-9)) for n, w in wanted.items() if w.numel()))
    return errors


SCENES = (uncompressed, resumed, counted, accumulated, unused, with_a_scaler, low_precision)


def play(report, seed):
    """Run all scenes on 2 replicas of 2 shards, and return their results by name."""
    mesh, rank = mesh_of(2, 2), dist.get_rank()
    found = {}
    for scene in SCENES:
        found[scene.__name__] = scene(rank, mesh)
    return found | {"by_reducers": by_reducers(rank, mesh, seed)}


def unsharded(report, seed):
    """Run some of the scenes on 2 replicas of a single shard."""
    mesh, rank = mesh_of(2, 1), dist.get_rank()
    return uncompressed(rank, mesh), by_reducers(rank, mesh, seed)
