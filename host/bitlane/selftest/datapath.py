"""Checks of the blocks between the read port and the weights, each with as few other blocks as possible.

A run with steps of 0 leaves the weights as they are, so that its losses depend on the dot products and the scalar stage
only. With zero weights they depend on the labels only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import BOUND
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, DIGIT_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.contract.prng import MAX_CUT

from .bench import BlockCheck, CheckContext, expect
from .blocks import (
    CODEBOOKS,
    DIGIT_DOT,
    DIGIT_PASS,
    GRADIENT_ROUNDING,
    MODEL_CORES,
    MODEL_ROUNDING,
    READ_PATH,
    SCALAR,
    SCHEDULE,
    SEQUENCER,
    TABLE_DOT,
    TABLE_PASS,
    TRACE,
    UPDATE,
    SystemBlock,
)
from .cases import LARGE_WEIGHTS, STILL, Case, most_features, plain_precision, random_seed
from .report import Figures

SHRINKS = 0xC000 | 2 << 16  # L2: a shrink in about every fifth batch
THRESHOLD = 0x8000 | 7 << 16  # L1: 2**-8 in each batch, which some weights reach
BOUNDS = (BOUND.minimum >> 6, BOUND.maximum >> 7)  # a box that excludes some weights
PROXES: dict[Prox, dict[str, Any]] = {
    Prox.NONE: {},
    Prox.L2: {"penalty_step": SHRINKS, "phase": 0xF000_0000},
    Prox.L1: {"penalty_step": THRESHOLD},
    Prox.BOX: {"bounds": BOUNDS},
}
SAMPLINGS = ("double", "nearest", "naive")  # full has the bits of nearest
DIGIT_PRECISIONS = tuple(Precision(bits, sampling) for bits in (2, 4, 8, FULL_BITS) for sampling in SAMPLINGS)
TABLE_PRECISIONS = tuple(Precision(DIGIT_BITS + base_bits, codebook=True) for base_bits in CODEBOOK_BITS)
CUTS = (1, 12, MAX_CUT)


def checks(config: AcceleratorConfig) -> list[BlockCheck]:
    """Return the checks of the datapath of a build. Each uses only the blocks of the checks before it, and its own."""
    cases = [*_labels(config), *_dot_products(config), *_training(config), *_shapes(config), *_rounding(config)]
    return [
        BlockCheck(TRACE, "zero labels and weights", trace),
        *(BlockCheck(block, name, case) for block, name, case in cases),
    ]


_Cases = list[tuple[SystemBlock, str, Any]]


def precisions(config: AcceleratorConfig) -> tuple[Precision, ...]:
    """Return the precisions to check on a build: those of which at least one chunk fits."""
    candidates = TABLE_PRECISIONS if config.table_lanes else DIGIT_PRECISIONS
    return tuple(precision for precision in candidates if most_features(config, precision, staleness=1))


def _title(precision: Precision) -> str:
    return f"{precision.bits} bits, {precision.sampling}"


def trace(bench: CheckContext) -> Figures:
    """Check the time stamps and the losses of a run whose losses are all 0. It reads as little as possible."""
    job, _ = Case(rows=1, sets=1, weight_bits=0, epochs=5, active_output=bench.config.outputs, settings=STILL).make(
        bench
    )
    result = bench.driver.run(job)
    expect(not result.loss.any(), f"the losses of zero weights and labels are {result.loss.tolist()} instead of 0")
    stamps = [*map(int, result.epoch_cycles), result.counters.cycles]
    ordered = all(a < b for a, b in zip([0, *stamps], stamps, strict=False))
    expect(ordered, f"the cycles at the ends of the epochs and of the run do not increase: {stamps}")
    epochs = bench.read("epoch")
    expect(epochs == job.epochs, f"the epoch register is {epochs} instead of {job.epochs}")
    return {"epochs": epochs, "cycles": result.counters.cycles}


def _labels(config: AcceleratorConfig) -> _Cases:
    """Runs of zero weights."""
    still = Case(weight_bits=0, settings=STILL)
    rows = config.rows_per_beat
    wide = most_features(config, plain_precision(config))
    cases = {
        "labels of one batch": replace(still, batch=64),
        "labels of batches with a tail": replace(still, rows=5 * rows + 5, batch=rows + 1),
        "labels of many rows": replace(still, rows=300, batch=32),
        "labels of long rows": replace(still, features=wide, rows=2 * rows + 1),
        "labels of several sets": replace(still, epochs=7, sets=3, separate_samples=True),
    }
    return [(READ_PATH, name, case.check) for name, case in cases.items()]


def _dot_products(config: AcceleratorConfig) -> _Cases:
    """Runs of constant weights."""
    cases: _Cases = []
    still = Case(settings=STILL)
    for precision in precisions(config):
        case = replace(still, precision=precision)
        if config.table_lanes:
            cases.append((TABLE_DOT, _title(precision), replace(case, equal_levels=True).check))
        else:
            cases.append((DIGIT_DOT, _title(precision), case.check))
    if config.table_lanes:
        for precision in precisions(config):
            wide = replace(still, precision=precision, features=most_features(config, precision))
            cases.append((CODEBOOKS, f"{_title(precision)}, all slots", wide.check))
    cases.append((READ_PATH, "draws of several sets", replace(still, epochs=7, sets=3).check))
    for loss in Loss:
        case = replace(still, weight_bits=LARGE_WEIGHTS - 3, settings={**STILL, "loss": loss})
        cases.append((SCALAR, f"loss {loss.name.lower()}", case.check))
    cases.append((SCALAR, "saturated residuals", replace(still, weight_bits=LARGE_WEIGHTS).check))
    return cases


def _training(config: AcceleratorConfig) -> _Cases:
    """Runs that change the weights."""
    cases: _Cases = []
    gradient = TABLE_PASS if config.table_lanes else DIGIT_PASS
    for precision in precisions(config):
        cases.append((gradient, _title(precision), Case(precision).check))
    two_steps = {"step_negative": 0xA123 | 10 << 16}
    for loss in Loss:
        case = Case(settings={"loss": loss, "weight_exponent": 2 - 3 * int(loss), **two_steps})
        cases.append((SCALAR, f"two steps and weight exponent, loss {loss.name.lower()}", case.check))
    full = {"step": 0xFFFF, "step_negative": 0xFFFF}
    cases.append((UPDATE, "saturated weights", Case(weight_bits=LARGE_WEIGHTS, settings=full).check))
    for prox, settings in PROXES.items():
        cases.append((UPDATE, f"prox {prox.name.lower()}", Case(settings={"prox": prox, **settings}).check))
    zero_box = {"prox": Prox.BOX, "bounds": (0, 0), "unpenalized_intercept": True}
    cases.append((UPDATE, "prox without the intercept", Case(settings=zero_box).check))
    if config.outputs > 1:
        cases += [
            (MODEL_CORES, f"output {output}", Case(active_output=output).check) for output in range(config.outputs)
        ]
    decay = {"decay": NO_DECAY * 3 // 4, "step_negative": 0xA123 | 9 << 16}
    for prox in (Prox.L2, Prox.L1):
        case = Case(epochs=5, settings={**decay, "prox": prox, **PROXES[prox]})
        cases.append((SCHEDULE, f"decay, prox {prox.name.lower()}", case.check))
    smallest = {"step": 0x9000 | 31 << 16, "step_negative": 0x9000 | 30 << 16, "penalty_step": 0x8000 | 31 << 16}
    cases.append((SCHEDULE, "decay of the smallest steps", Case(epochs=5, settings={**decay, **smallest}).check))
    return cases


def _shapes(config: AcceleratorConfig) -> _Cases:
    """Runs with batches, rows and features of every size."""
    rows = config.rows_per_beat
    cases = {
        "one batch": Case(batch=64),
        "complete batches": Case(rows=6 * rows, batch=2 * rows),
        "batches with a tail": Case(rows=5 * rows + 5, batch=rows + 1),
        "last batch of one row": Case(rows=4 * rows + 1, batch=2 * rows),
        "one row": Case(rows=1),
        "many rows": Case(rows=300, batch=32),
        "several sets": Case(epochs=7, sets=3, separate_samples=True),
        "final snapshot only": Case(snapshots=False),
        **{f"{features} features": Case(features=features) for features in (1, CHUNK, CHUNK + 1)},
        **{f"staleness {age}, batches of 1": Case(batch=1, settings={"staleness": age}) for age in (0, 1)},
        "staleness 1, batches of 16": Case(batch=16, settings={"staleness": 1}),
    }
    small, large = min(precisions(config), key=_bits), max(precisions(config), key=_bits)
    for name, precision, staleness in (
        ("most features", small, 0),
        ("most features, staleness 1", small, 1),
        ("longest rows", large, 0),
    ):
        cases[name] = Case(
            precision,
            features=most_features(config, precision, staleness),
            rows=2 * rows + 1,
            batch=rows,
            settings={"staleness": staleness},
        )
    return [(SEQUENCER, name, case.check) for name, case in cases.items()]


def _bits(precision: Precision) -> int:
    return precision.bits


def _rounding(config: AcceleratorConfig) -> _Cases:
    """Runs with random rounding."""
    if not config.random_rounding:
        return []
    cases: _Cases = []
    for cut in CUTS:
        cases.append((MODEL_ROUNDING, f"{cut} bits removed", _Rounded(Case(settings={**STILL, "model_cut": cut}))))
    for cut in CUTS:
        cases.append((GRADIENT_ROUNDING, f"{cut} bits removed", _Rounded(Case(settings={"scaled_gradient_cut": cut}))))
    both = {"model_cut": 10, "scaled_gradient_cut": 14}
    cases.append((MODEL_ROUNDING, "with rounded gradients", _Rounded(Case(settings=both))))
    cases.append((GRADIENT_ROUNDING, "staleness 1", _Rounded(Case(settings={**both, "staleness": 1}))))
    return cases


class _Rounded:
    """A case with a random seed of random rounding."""

    def __init__(self, case: Case):
        self._case = case

    def __call__(self, bench: CheckContext) -> Figures:
        settings = {**self._case.settings, "seed": random_seed(bench.rng)}
        return replace(self._case, settings=settings).check(bench)
