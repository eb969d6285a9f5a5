"""Random encodings of a netlist that has an encoder."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bitlane.contract.config import AcceleratorConfig
from bitlane_verify.equivalence.encoder_soak import EncoderRig, EncodingRun

from .modes import SAMPLING, missing_encoder_modes

HEADINGS = ("seed", "values", "sampling", "bits", "features", "rows", "base", "draw sets", "stalls", "result")


def run_encodings(rig: EncoderRig, runs: int, first: int, most: int) -> list[EncodingRun]:
    """Run at least `runs` random encodings, and more, at most `most` times as many, until they have all modes.

    Each has a separate seed, counted from `first`.
    """
    done: list[EncodingRun] = []
    while len(done) < runs or (missing(done, rig.config) and len(done) < most * runs):
        done.append(rig.run(first + len(done)))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return done


def missing(done: Sequence[EncodingRun], config: AcceleratorConfig) -> list[str]:
    """Return the modes of the encoder that no run has."""
    return missing_encoder_modes((run.case.encoding for run in done), config)


def row(run: EncodingRun) -> list[str]:
    """Return the cells of a run in the table."""
    encoding = run.case.encoding
    geometry = encoding.geometry
    return [
        str(run.seed),
        encoding.value_type.name.lower(),
        SAMPLING[geometry.draws],
        *map(str, (geometry.stored_bits, geometry.features, geometry.rows)),
        "yes" if encoding.writes_base else "no",
        str(len(encoding.sets)),
        "random" if run.disturbed else "none",
        run.wrong or "equal",
    ]
