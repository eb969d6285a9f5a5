"""Checks of all blocks together: random runs, and the counters."""

from __future__ import annotations

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import WEIGHT_EXPONENT
from bitlane.contract.layout import DIGIT_BITS, MAX_DIGITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.precision import Precision
from bitlane.contract.prng import MAX_CUT

from .bench import BlockCheck, CheckContext, expect
from .blocks import COMPLETE, COUNTERS
from .cases import (
    LARGE_WEIGHTS,
    STEP,
    Case,
    counter_figures,
    most_features,
    random_seed,
    reference_epochs,
    wrong_counters,
)
from .datapath import PROXES, SAMPLINGS, TABLE_PRECISIONS
from .report import Figures

RANDOM_RUNS = 16


def counters(bench: CheckContext) -> Figures:
    """Check the counters of a run in which values saturate, twice, so that each run starts from 0."""
    case = Case(weight_bits=LARGE_WEIGHTS, batch=2, settings={"step": 0xFFFF, "step_negative": 0xFFFF})
    job, samples = case.make(bench)
    expected = reference_epochs(job, samples)[-1].saturations
    for number in range(2):
        result = bench.driver.run(job)
        counted = result.counters
        problems = wrong_counters(bench, result, job)
        expect(not problems, f"run {number}: {'; '.join(problems)}")
        message = f"run {number}: {counted.saturations:,} saturations counted"
        expect(counted.saturations == expected, f"{message} instead of {expected:,}")
        stalls = counted.stall_memory + counted.stall_model
        expect(
            counted.beats + stalls <= counted.cycles, f"run {number}: beats and stalls exceed {counted.cycles:,} cycles"
        )
        least = job.epochs * (job.geometry.batches - 1)
        model = f"run {number}: {counted.stall_model:,} cycles of stall_model, fewer than the {least:,} batches"
        expect(counted.stall_model >= least, model)
    return {"saturations": expected, "stalls": stalls, **counter_figures(bench, result, job)}


def random_runs(bench: CheckContext) -> Figures:
    """Run jobs with random settings, shapes and precisions."""
    runs = [_random_case(bench).check(bench) for _ in range(RANDOM_RUNS)]
    return {
        "runs": RANDOM_RUNS,
        **{name: sum(int(run[name]) for run in runs) for name in ("losses", "weights", "beats")},
    }


def _random_case(bench: CheckContext) -> Case:
    rng = bench.rng
    prox = Prox(int(rng.choice(list(PROXES))))
    settings = {
        **PROXES[prox],
        "prox": prox,
        "step_negative": STEP + int(rng.integers(3)),
        "decay": NO_DECAY - int(rng.integers(1 << 12)),
        "loss": Loss(int(rng.choice(list(Loss)))),
        "unpenalized_intercept": bool(rng.integers(2)),
        "staleness": int(rng.integers(2)),
        "weight_exponent": int(rng.integers(WEIGHT_EXPONENT.minimum, WEIGHT_EXPONENT.maximum + 1)),
    }
    if bench.config.random_rounding:
        cuts = [int(cut) for cut in rng.integers(MAX_CUT + 1, size=2) * rng.integers(2, size=2)]
        settings |= {"model_cut": cuts[0], "scaled_gradient_cut": cuts[1], "seed": random_seed(rng)}
    return Case(
        _random_precision(bench),
        features=int(rng.integers(1, 65)),
        rows=int(rng.integers(1, 60)),
        batch=int(rng.integers(1, 70)),
        epochs=int(rng.integers(1, 5)),
        sets=int(rng.integers(1, 4)),
        snapshots=bool(rng.integers(2)),
        settings=settings,
    )


def _random_precision(bench: CheckContext) -> Precision:
    """Any precision that fits, not only those of the other checks."""
    if bench.config.table_lanes:
        every = TABLE_PRECISIONS
    else:
        every = tuple(Precision(DIGIT_BITS * digits, name) for digits in range(1, MAX_DIGITS + 1) for name in SAMPLINGS)
    fitting = [precision for precision in every if most_features(bench.config, precision, staleness=1)]
    return fitting[bench.rng.integers(len(fitting))]


COUNTER_CHECKS = (BlockCheck(COUNTERS, "two runs with saturated values", counters),)
CHECKS = (BlockCheck(COMPLETE, "random runs", random_runs),)
