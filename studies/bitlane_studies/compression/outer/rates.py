"""The tuned rates, and their grid: three inner rates for each way, three outer pairs for rounds, two beside Dion."""

from __future__ import annotations

from collections.abc import Sequence

from .trial import OuterJob
from .ways import AHEAD, COSINES, DDP, FACTORS, ROUNDS, SIGNS, SPARSE, TUNED_BY, Rates, Way

SEED = 100  # of the tuning
INNER_RATES = {
    "adamw": (0.006, 0.012, 0.024),
    "muon": (0.006, 0.012, 0.024),
    "sgd": (0.15, 0.3, 0.6),
    "dion": (0.01, 0.02, 0.04),
    "demo": (0.008, 0.016, 0.032),
}
_ROUNDS = [(0.7, 0.9), (0.8, 0.4), (1.0, 0.0)]
OUTER = {
    DDP: [(1.0, 0.0)],
    COSINES: [(1.0, 0.0)],
    FACTORS: [(0.012, 0.0), (0.024, 0.0)],  # of AdamW beside Dion
    ROUNDS: _ROUNDS,
    SIGNS: _ROUNDS,
    AHEAD: _ROUNDS,
    SPARSE: [(0.7, 0.0), (1.0, 0.0), (1.4, 0.0)],
}


def candidates(inner: str, ways: Sequence[Way]) -> list[OuterJob]:
    """Return the trainings that find the rates of an inner optimizer in these ways, one family after the other."""
    return [
        OuterJob(inner, way, Rates(rate, *pair), SEED)
        for way in ways
        if way.name in TUNED_BY
        for rate in INNER_RATES[inner]
        for pair in OUTER[way.family]
    ]


def best(jobs: Sequence[OuterJob], losses: Sequence[float]) -> dict[tuple[str, str], Rates]:
    """Return the rates with the least loss of each inner optimizer and family."""
    pairs = sorted(zip(losses, range(len(jobs)), strict=True), reverse=True)
    return {(jobs[number].inner, jobs[number].way.family): jobs[number].rates for _, number in pairs}


TUNED: dict[tuple[str, str], Rates] = {  # with 600 steps
    ("adamw", DDP): Rates(0.012, 1.0, 0.0),
    ("adamw", ROUNDS): Rates(0.012, 1.0, 0.0),
    ("adamw", SIGNS): Rates(0.012, 1.0, 0.0),
    ("adamw", AHEAD): Rates(0.012, 0.8, 0.4),
    ("adamw", SPARSE): Rates(0.012, 1.4, 0.0),
    ("muon", DDP): Rates(0.024, 1.0, 0.0),
    ("muon", ROUNDS): Rates(0.024, 0.8, 0.4),
    ("muon", SIGNS): Rates(0.024, 1.0, 0.0),
    ("muon", AHEAD): Rates(0.024, 0.8, 0.4),
    ("muon", SPARSE): Rates(0.024, 0.7, 0.0),
    ("dion", FACTORS): Rates(0.02, 0.024),
    ("demo", COSINES): Rates(0.016),
}
LONG_TUNED: dict[tuple[str, str], Rates] = {  # with 12,000 steps
    ("muon", DDP): Rates(0.012, 1.0, 0.0),
    ("muon", AHEAD): Rates(0.012, 0.8, 0.4),
}
