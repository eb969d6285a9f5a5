"""Small trainings with `DiLoCo`, for ranks as threads and as processes, and a textbook of them in float64."""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tests.helpers.ddp_scenes import error_text
from tests.helpers.devices import DEVICE
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress import QSGD
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.local.diloco import DiLoCo
from bitlane.compress.training import checkpoints
from bitlane.errors import DataError

PATIENCE = 20.0  # seconds
RATE, MOMENTUM = 0.05, 0.9  # of the inner optimizer
KILLED = {  # settings of the trainings that are killed; a round has two exchanges
    "at once": {"every": 3},
    "delayed": {"every": 4, "fragments": 2, "delay": 1},
}
STEPS, SAVED_EVERY = 13, 5
BETWEEN = {"at once": (2, 6), "delayed": (4, 8)}  # number of the first exchange after steps 5 and 10, from 0


def build(seed=0, dtype=torch.float32):
    """Return a network whose parameters have 35, 7, 21 and 3 values, from a generator of its own: ranks are threads."""
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.rand(each.shape, generator=generator) - 0.5)
    return model.to(DEVICE, dtype)


def loss_of(model, seed, rank, step):
    generator = torch.Generator().manual_seed((1000 * seed + 50 * rank + step) % 2**63)
    x, y = torch.randn(4, 5, generator=generator), torch.randn(4, 3, generator=generator)
    first = next(model.parameters())
    return (model(x.to(first)) - y.to(first)).square().mean()


def inner_optimizer(model):
    return torch.optim.SGD(model.parameters(), RATE, MOMENTUM)


def inner_step(model, optimizer, seed, rank, step):
    optimizer.zero_grad()
    loss_of(model, seed, rank, step).backward()
    optimizer.step()


def flat(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def textbook(model, seed, ranks, steps, settings, outer=(0.7, 0.9)):
    """Return the parameters of each rank, float64 [ranks][values], after training as the papers describe it.

    `settings` has every, fragments as lists of parameters, delay and blend; `outer` the rate and Nesterov momentum.
    """
    replicas = [copy.deepcopy(model).double() for _ in range(ranks)]
    local = [list(each.parameters()) for each in replicas]
    inner = [[torch.zeros_like(p) for p in own] for own in local]
    world = [p.detach().clone() for p in local[0]]
    speed = [torch.zeros_like(p) for p in world]
    every, parts, delay, blend = (settings[name] for name in ("every", "fragments", "delay", "blend"))
    waiting = {}  # step -> parameter -> average of the pseudo-gradients
    for step in range(1, steps + 1):
        for rank in range(ranks):
            gradients = torch.autograd.grad(loss_of(replicas[rank], seed, rank, step), local[rank])
            for p, v, g in zip(local[rank], inner[rank], gradients, strict=True):
                v.mul_(MOMENTUM).add_(g)
                p.data -= RATE * v
        for number, part in enumerate(parts):
            if step % every == number * every // len(parts):
                found = {i: sum(world[i] - own[i].data for own in local) / ranks for i in part}
                waiting[step + delay] = found
        for i, average in waiting.pop(step, {}).items():
            speed[i] = outer[1] * speed[i] + average
            world[i] = world[i] - outer[0] * (average + outer[1] * speed[i])
            for own in local:
                own[i].data = blend * own[i].data + (1 - blend) * world[i]
    return [torch.cat([p.detach().flatten() for p in own]) for own in local]


def running_averages():
    return [each for each in threading.enumerate() if each.name == "bitlane-average"]


def averages_end():
    """Wait for the threads of this process, and return whether they have ended in time."""
    for each in running_averages():
        each.join(PATIENCE / 2)
    return not running_averages()


# --- ranks as processes
def over_gloo(rank):
    """Return the parameters of two ranks with a delay, and whether threads and files are gone after `close`."""
    found, counts = [], []
    for _ in range(3):
        model = build(rank)
        optimizer = inner_optimizer(model)
        with DiLoCo(model, compressor=Uncompressed(), every=6, fragments=2, delay=2, timeout=PATIENCE) as diloco:
            for step in range(1, 15):
                inner_step(model, optimizer, 7, rank, step)
                diloco.step()
            found.append(flat(model).cpu())
            diloco.finish()
            found.append(flat(model).cpu())
        diloco.close()
        counts.append(tuple(len(os.listdir(Path("/proc/self", name))) for name in ("fd", "task")))
    return found, counts, len(running_averages()), error_text(diloco.step)


def refuses_ddp(rank):
    return error_text(lambda: DiLoCo(DistributedDataParallel(build())))


def different_settings(rank):
    return [error_text(lambda: DiLoCo(build(), every=5 + rank, timeout=PATIENCE)) for _ in range(5)]


def own_group(rank):
    """Ranks 0 and 1 alone: each has its own group."""
    groups = [dist.new_group([0]), dist.new_group([1])]
    model = build(rank)
    before = flat(model)
    with DiLoCo(model, every=1, process_group=groups[rank], timeout=PATIENCE) as diloco:
        return diloco.transport.size, torch.equal(flat(model), before)


def left_alone(rank):
    """Rank 0 leaves a training with an error while rank 1 waits for it, in the thread or in a step."""
    found = []
    for settings in KILLED.values():
        model, start = build(), time.monotonic()
        optimizer = inner_optimizer(model)

        def train(model=model, optimizer=optimizer, settings=settings):
            with DiLoCo(model, timeout=PATIENCE, **settings) as diloco:
                for step in range(1, STEPS):
                    inner_step(model, optimizer, 7, rank, step)
                    if rank == 0 and step == 8:
                        raise DataError("no more data")
                    diloco.step()

        found.append((error_text(train), time.monotonic() - start < PATIENCE / 2, averages_end()))
    return found


def leaves_during_an_exchange(rank):
    """Rank 0 has an error while its thread waits for rank 1. Return whether it leaves at once.

    Its thread ends when rank 1 leaves, too.
    """
    start = time.monotonic()

    def train():
        nonlocal start
        with DiLoCo(build(), every=5, delay=4, timeout=PATIENCE) as diloco:
            for _ in range(5):
                diloco.step()
            start = time.monotonic()
            raise DataError("no more data")

    if rank == 0:
        text = error_text(train)
    else:
        diloco, text = DiLoCo(build(), every=5, delay=4, timeout=PATIENCE), "nothing"
        start = time.monotonic()
    in_time = time.monotonic() - start < PATIENCE / 2
    dist.barrier()
    if rank == 1:
        diloco.close()
    return text, in_time, averages_end()


SCENES = (over_gloo, refuses_ddp, different_settings, own_group, left_alone, leaves_during_an_exchange)


def play(report):
    """Run the scenes of two ranks, and return their results by name."""
    return {scene.__name__: scene(dist.get_rank()) for scene in SCENES}


def train_all(report, folder: Path):
    """Train with all settings of `KILLED` without an interruption; return the final parameters by name."""
    return {name: train_and_die(report, folder / name, name, None, 0)[1] for name in KILLED}


def train_and_die(report, folder: Path, name, victim, exchanges):
    """Train from the latest checkpoint; return its step and the final parameters. The victim dies in an exchange."""
    rank = dist.get_rank()
    model = build(rank)
    optimizer = inner_optimizer(model)
    diloco = DiLoCo(model, compressor=QSGD(4, error_feedback=True), timeout=PATIENCE, **KILLED[name])
    stateful = {"model": model, "optimizer": optimizer, "diloco": diloco}
    first_step = resume(folder, stateful, rank)
    if rank == victim:
        die_after(diloco.transport, exchanges)
    for step in range(first_step + 1, STEPS + 1):
        inner_step(model, optimizer, 3, rank, step)
        start = time.monotonic()
        try:
            diloco.step()
        except Exception as error:
            seconds = time.monotonic() - start
            diloco.close()
            (folder / f"error-{rank}.txt").write_text(f"{type(error).__name__} {seconds:.1f} {len(running_averages())}")
            raise
        if step % SAVED_EVERY == 0:
            checkpoints.save(folder, step, {key: each.state_dict() for key, each in stateful.items()}, step)
    parameters = flat(model).cpu()
    diloco.close()
    return first_step, parameters


def resume(folder, stateful, rank):
    try:
        checkpoint = checkpoints.latest_checkpoint(folder)
    except DataError:
        return 0
    saved = checkpoints.load_rank(checkpoint, rank)
    for key, each in stateful.items():
        each.load_state_dict(saved[key])
    return checkpoints.load_shared(checkpoint)


def die_after(transport, exchanges):
    """Let this process be killed in the exchange after so many."""
    real, left = transport.exchange, [exchanges]

    def exchange(parts, lengths):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return real(parts, lengths)

    transport.exchange = exchange
