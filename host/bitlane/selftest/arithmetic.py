"""Checks of the datapath: every mode, precision and shape, bit for bit against the numpy reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import BOUND, MASTER
from bitlane.contract.layout import CHUNK, DIGIT_BITS, MAX_DIGITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.driver.driver import Driver

from .bench import Check, CheckContext
from .cases import STEP, Case
from .report import Figures

RATE = 0xC000 | 2 << 16  # L2: shrinks in every fifth batch or so
THRESHOLD = 0x8000 | 7 << 16  # L1: 2**-8 a batch, which some weights reach
BOUNDS = (BOUND.minimum >> 6, BOUND.maximum >> 7)  # a box that some weights are outside of
PROXES: dict[Prox, dict[str, Any]] = {
    Prox.NONE: {},
    Prox.L2: {"penalty_step": RATE, "phase": 0xF000_0000},
    Prox.L1: {"penalty_step": THRESHOLD},
    Prox.BOX: {"bounds": BOUNDS},
}
BITS = (2, 4, 8, FULL_BITS)
SAMPLINGS = ("double", "nearest", "naive")
RANDOM_RUNS = 16


def checks(driver: Driver) -> list[Check]:
    """All of them, of the sizes that this build has."""
    named = {
        **_modes(),
        **_shapes(driver.config.rows_per_beat),
        **dict(_sizes(driver)),
    }
    return [*(Check(name, case.check) for name, case in named.items()), Check("random runs", random_runs)]


def _modes() -> dict[str, Case]:
    """Everything that is chosen at run time."""
    cases = {f"loss: {loss.name.lower()}": Case(settings={"loss": loss}) for loss in Loss}
    cases |= {
        f"prox: {prox.name.lower()}": Case(settings={"prox": prox, **settings}) for prox, settings in PROXES.items()
    }
    cases |= {
        f"precision: {bits} bits, {sampling}": Case(Precision(bits, sampling))
        for bits in BITS
        for sampling in SAMPLINGS
    }
    return cases | {
        "intercept: spared by the prox": Case(
            settings={"prox": Prox.BOX, "bounds": (0, 0), "unpenalized_intercept": True}
        ),
        "class weights: two steps": Case(settings={"step_negative": 0xA123 | 10 << 16, "loss": Loss.HINGE}),
        "decay: of steps and rate": Case(
            epochs=5, settings={"decay": NO_DECAY * 3 // 4, "prox": Prox.L2, **PROXES[Prox.L2]}
        ),
        "staleness: 0, batch by batch": Case(batch=1, settings={"staleness": 0}),
        "staleness: 1, batch by batch": Case(batch=1, settings={"staleness": 1}),
        "staleness: 1, larger batches": Case(batch=16, settings={"staleness": 1}),
        "epochs: draws in turn": Case(epochs=7, sets=3),
        "epochs: samples in turn": Case(Precision(4, "naive"), epochs=7, sets=3),
        "snapshots: none but the last": Case(snapshots=False),
        "saturation: weights, slopes, residuals": Case(
            weight_bits=MASTER.bits - 1, settings={"step": 0xFFFF, "step_negative": 0xFFFF}
        ),
    }


def _shapes(columns: int) -> dict[str, Case]:
    """Batches that fill the beats of a port, or do not."""
    return {
        "batches: one for all rows": Case(batch=64),
        "batches: whole": Case(rows=6 * columns, batch=2 * columns),
        "batches: with a tail": Case(rows=5 * columns + 5, batch=columns + 1),
        "batches: the last one of one row": Case(rows=4 * columns + 1, batch=2 * columns),
        "rows: one alone": Case(rows=1),
        "rows: many": Case(rows=300, batch=32),
    }


def _sizes(driver: Driver) -> Iterator[tuple[str, Case]]:
    """The smallest and the largest that this build holds."""
    few = 2 * driver.config.rows_per_beat + 1  # rows
    for features in (1, CHUNK, CHUNK + 1):
        yield f"features: {features}", Case(features=features)
    for staleness in (0, 1):  # with which there are two models in the memory of one
        yield (
            f"features: all that fit, staleness {staleness}",
            Case(
                Precision(DIGIT_BITS),
                features=min(driver.config.max_features >> staleness, driver.config.max_row_words * CHUNK),
                rows=few,
                batch=driver.config.rows_per_beat,
                settings={"staleness": staleness},
            ),
        )
    longest = min(driver.config.max_row_words // MAX_DIGITS * CHUNK, driver.config.max_features)
    yield (
        "rows: as long as they may be",
        Case(Precision(FULL_BITS), features=longest, rows=few, batch=driver.config.rows_per_beat),
    )


def random_runs(bench: CheckContext) -> Figures:
    """Runs in which all of these are mixed."""
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
    }
    return Case(
        Precision(2 * int(rng.integers(1, MAX_DIGITS + 1)), str(rng.choice(SAMPLINGS))),
        features=int(rng.integers(1, 65)) if settings["staleness"] == 0 else int(rng.integers(1, 33)),
        rows=int(rng.integers(1, 60)),
        batch=int(rng.integers(1, 70)),
        epochs=int(rng.integers(1, 5)),
        sets=int(rng.integers(1, 4)),
        snapshots=bool(rng.integers(2)),
        settings=settings,
    )
