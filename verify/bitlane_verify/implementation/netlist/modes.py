"""The modes of the accelerator, and of its encoder, that a series of runs has used, and those that it has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ValueType
from bitlane.contract.modes import Loss, Prox
from bitlane.driver.encoding import Encoding
from bitlane.driver.job import Job

PRECISIONS = 3  # minimum
SAMPLING = {True: "double", False: "single"}


def missing_modes(jobs: Iterable[Job], config: AcceleratorConfig) -> list[str]:
    """Return the modes that no job has: each loss, prox and staleness, each sampling of a build, three precisions.

    A build with table lanes has double sampling only.
    """
    wanted = {
        *(f"loss {loss.name}" for loss in Loss),
        *(f"prox {prox.name}" for prox in Prox),
        *(f"staleness {staleness}" for staleness in (0, 1)),
        *(f"{name} sampling" for draws, name in SAMPLING.items() if draws or not config.table_lanes),
        *(("random rounding",) if config.random_rounding else ()),
    }
    precisions = set()
    for job in jobs:
        wanted -= set(_modes(job))
        precisions.add(job.geometry.stored_bits)
    few = [f"{PRECISIONS - len(precisions)} more precisions"] if len(precisions) < PRECISIONS else []
    return sorted(wanted) + few


def _modes(job: Job) -> Iterator[str]:
    yield f"loss {Loss(job.state.settings.loss).name}"
    yield f"prox {Prox(job.state.settings.prox).name}"
    yield f"staleness {job.state.settings.staleness}"
    yield f"{SAMPLING[job.geometry.draws]} sampling"
    if job.state.settings.model_cut or job.state.settings.scaled_gradient_cut:
        yield "random rounding"


def missing_encoder_modes(encodings: Iterable[Encoding], config: AcceleratorConfig) -> list[str]:
    """Return the modes that no encoding has: each type of values, each sampling, no base region, and all draw sets."""
    wanted = {*(f"values {each.name}" for each in ValueType), *(f"{name} sampling" for name in SAMPLING.values())}
    wanted |= {"draws without base", f"{config.encoder} draw sets at a time"}
    for encoding in encodings:
        wanted -= {f"values {encoding.value_type.name}", f"{SAMPLING[encoding.geometry.draws]} sampling"}
        if not encoding.writes_base:
            wanted -= {"draws without base"}
        if any(len(start.sets) == config.encoder for _, start in encoding.starts(config.encoder)):
            wanted -= {f"{config.encoder} draw sets at a time"}
    return sorted(wanted)
