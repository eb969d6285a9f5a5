"""A training with as many members in each round as a disturbed one had, where nobody dies and nothing is sent.

It shows how much of a loss comes from fewer members, and how much from deaths and joins themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from bitlane.compress.elastic.settings import Place
from bitlane.compress.elastic.shares import DataShare

from ..outer.inner import adamw
from .crew import CrewResult
from .member import RATES, SIZE, ElasticJob, outer_optimizer, schedule_of, text_task


def members_of(result: CrewResult) -> list[int]:
    """Return the number of members in each round of a run."""
    return [len(result.rounds[step][0].members) for step in sorted(result.rounds)]


def control_loss(job: ElasticJob, members: Sequence[int]) -> float:
    """Train in this process and return the held-out loss of the global parameters.

    The model, the batches, the inner steps and the outer optimizer are those of the members of the study; pseudo-
    gradients are averaged without rounding. A member that joins begins with the inner state of the first one.

    Parameters
    ----------
    job : ElasticJob
        The rounds, their inner steps and the seed.
    members : sequence of int, at least 1
        Members in each round.
    """
    task = text_task()
    start = task.build_model(job.seed)
    replicas: list[tuple[nn.Module, torch.optim.Optimizer]] = []
    copies = [each.detach().clone() for each in start.parameters()]
    outer = outer_optimizer(copies)
    share, schedule = DataShare(len(task.inputs), SIZE.batch, job.every, job.seed), schedule_of(job)
    for number, count in enumerate(members):
        _resize(replicas, count, start)
        for rank, (model, optimizer) in enumerate(replicas):
            _assign(model, copies)
            for step in range(number * job.every, (number + 1) * job.every):
                for group in optimizer.param_groups:
                    group["lr"] = RATES.inner * schedule.factor(step)
                model.zero_grad()
                task.loss(model, share.batch_rows(Place(step, rank, count))).backward()
                optimizer.step()
        for copy, *trained in zip(copies, *(model.parameters() for model, _ in replicas), strict=True):
            copy.grad = copy - torch.stack([each.detach() for each in trained]).mean(0)
        outer.step()
    _assign(start, copies)
    return task.held_out_loss(start)


def _resize(replicas: list[tuple[nn.Module, torch.optim.Optimizer]], count: int, start: nn.Module) -> None:
    """Let the last members leave, or others join."""
    del replicas[count:]
    while len(replicas) < count:
        model = deepcopy(start)
        optimizer = adamw(model, RATES.inner)[0]
        if replicas:
            optimizer.load_state_dict(deepcopy(replicas[0][1].state_dict()))
        replicas.append((model, optimizer))


def _assign(model: nn.Module, values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value)
