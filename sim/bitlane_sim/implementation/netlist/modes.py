"""The modes of the accelerator that a series of runs has used, and those that it has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bitlane.contract.layout import DIGIT_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.driver.job import Job

PRECISIONS = 3  # minimum
SAMPLING = {True: "double", False: "single"}


def bits(job: Job) -> int:
    """Return the stored bits of a feature."""
    return DIGIT_BITS * job.geometry.digits


def missing_modes(jobs: Iterable[Job]) -> list[str]:
    """Return the modes that no job has: each loss, prox, staleness and sampling, and three precisions."""
    wanted = {
        *(f"loss {loss.name}" for loss in Loss),
        *(f"prox {prox.name}" for prox in Prox),
        *(f"staleness {staleness}" for staleness in (0, 1)),
        *(f"{sampling} sampling" for sampling in SAMPLING.values()),
    }
    precisions = set()
    for job in jobs:
        wanted -= set(_modes(job))
        precisions.add(bits(job))
    few = [f"{PRECISIONS - len(precisions)} more precisions"] if len(precisions) < PRECISIONS else []
    return sorted(wanted) + few


def _modes(job: Job) -> Iterator[str]:
    yield f"loss {Loss(job.state.settings.loss).name}"
    yield f"prox {Prox(job.state.settings.prox).name}"
    yield f"staleness {job.state.settings.staleness}"
    yield f"{SAMPLING[job.geometry.draws]} sampling"
