"""The area of a build, estimated from builds that were synthesised.

`synthesis.json` has the cells of synthesised builds: `make synth` measures them. Each resource is fitted to them by
least squares, as a sum of a constant and of parts that grow with rows, shards, ports, outputs and options of a build.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from bitlane.contract.config import AcceleratorConfig

RECORD = Path(__file__).with_name("synthesis.json")


@dataclass(frozen=True)
class Area:
    """Cells of an FPGA: LUTs, flip-flops, block RAMs of 36 kbit and DSP blocks."""

    lut: float
    ff: float
    bram36: float
    dsp: float


@dataclass(frozen=True)
class AreaEstimate:
    """The area of a build.

    Attributes
    ----------
    area : Area
    largest_errors : mapping of str to float
        Of each resource: the largest error, relative to the measured area, among the builds when each is estimated from
        the others.
    builds : int
        Synthesised builds.
    """

    area: Area
    largest_errors: Mapping[str, float]
    builds: int

    def fits(self, chip: Area) -> str:
        """Return "yes", "no", or "perhaps" if the error decides."""
        answers = []
        for name, count in asdict(self.area).items():
            share, error = count / getattr(chip, name), self.largest_errors[name]
            answers.append("yes" if share * (1 + error) <= 1 else "no" if share * (1 - error) > 1 else "perhaps")
        return next((answer for answer in ("no", "perhaps") if answer in answers), "yes")


@dataclass(frozen=True)
class SynthesisedBuild:
    """A build that was synthesised."""

    name: str
    config: AcceleratorConfig
    area: Area


@cache
def synthesised_builds() -> tuple[SynthesisedBuild, ...]:
    """Return the builds of `synthesis.json`."""
    builds = []
    for name, record in json.loads(RECORD.read_text()).items():
        area = Area(**{field: record[field] for field in Area.__dataclass_fields__})
        builds.append(SynthesisedBuild(name, AcceleratorConfig(**record["configuration"]), area))
    return tuple(builds)


def estimate_area(config: AcceleratorConfig, builds: Sequence[SynthesisedBuild] | None = None) -> AreaEstimate | None:
    """Return the area of a build; None if no synthesised build has an option of it.

    Parameters
    ----------
    config : AcceleratorConfig
        The build. Its memories are taken to be those of the default configuration.
    builds : sequence of SynthesisedBuild, optional
        Builds to estimate from; those of `synthesis.json` by default.
    """
    builds = synthesised_builds() if builds is None else builds
    estimate = _estimate(config, builds)
    if estimate is None:
        return None
    errors = leave_one_out(builds)
    largest = {field: max(each[field] for each in errors.values()) for field in Area.__dataclass_fields__}
    return AreaEstimate(estimate, largest, len(builds))


def luts_of_parts(builds: Sequence[SynthesisedBuild] | None = None) -> dict[str, float]:
    """Return the LUTs that a further "row" of a beat, "shard" and "port" add to the smallest build.

    A part is left out if the builds say nothing about it. By default they are those of `synthesis.json`.
    """
    builds = synthesised_builds() if builds is None else builds
    one, row = AcceleratorConfig(64), AcceleratorConfig(128)
    pairs = {"row": (row, one), "shard": (replace(row, shards=2), one), "port": (replace(row, ports=2), row)}
    parts = {}
    for name, (more, less) in pairs.items():
        with_it, without = _estimate(more, builds), _estimate(less, builds)
        if with_it is not None and without is not None:
            parts[name] = with_it.lut - without.lut
    return parts


def leave_one_out(builds: Sequence[SynthesisedBuild]) -> dict[str, dict[str, float]]:
    """Return the relative errors of each build's area when it is estimated from the others, by its name and resource.

    A build that alone has an option is left out: the others say nothing about that option.
    """
    errors = {}
    for number, build in enumerate(builds):
        estimate = _estimate(build.config, [*builds[:number], *builds[number + 1 :]])
        if estimate is not None:
            actual = asdict(build.area)
            errors[build.name] = {
                field: abs(value - actual[field]) / actual[field] for field, value in asdict(estimate).items()
            }
    return errors


def _estimate(config: AcceleratorConfig, builds: Sequence[SynthesisedBuild]) -> Area | None:
    """Return the area by least squares; None if the builds leave it open."""
    counts = {}
    for resource in Area.__dataclass_fields__:
        terms = np.array([_terms(build.config, resource) for build in builds])
        wanted = np.array(_terms(config, resource))
        inverse = np.linalg.pinv(terms)
        if not np.allclose(wanted @ inverse @ terms, wanted, atol=1e-6):
            return None
        measured = np.array([getattr(build.area, resource) for build in builds])
        counts[resource] = max(0.0, float(wanted @ inverse @ measured))
    return Area(**counts)


def _terms(config: AcceleratorConfig, resource: str) -> list[float]:
    """Return what a resource of a build grows with.

    Memories are buffers of a word of a beat, and weights of an output in a shard. Logic is the scalar stages of an
    output and a row, the update lanes of an output and a shard, and the dot and gradient lanes of an output and a word.
    An encoder has lanes for each word of a beat, and the rest counts as often.
    """
    words, rows, outputs = config.words_per_beat, config.rows_per_beat, config.outputs
    return [
        1.0,
        outputs,
        words if resource == "bram36" else words * outputs,
        (rows - 1) * (config.shards - 1) * outputs,
        words * config.table_lanes,
        config.shards * outputs * config.random_rounding,
        float(words * (config.encoder > 0)),
        words * config.encoder,
        (config.shards - 1) * outputs,
        config.ports - 1,
    ]
