"""Which values a run clips on which side, and what its prox does, seen in the reference while it computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from bitlane.contract.fixed_point import saturate
from bitlane.contract.formats import RESIDUAL, SCALED_GRADIENT, Fixed
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.settings import Settings
from bitlane.reference import machine as reference
from bitlane.reference.blocks import Int64s

SIDES = ("low", "high")
CLIPPED = ("z", "r", "s", "d", "master")
EFFECTS = (
    "L2 shrinks", "L1 moves down", "L1 moves up", "L1 makes zero", "BOX low", "BOX high", "BOX inside",
)  # fmt: skip


@contextmanager
def watched(settings: Settings) -> Iterator[Counter[tuple[str, str]]]:
    """Counts (value, side) of what the reference clips in a run with these settings, and ("prox", effect).

    The reference clips z and, for squares, r of each copy in turn, then s and d.
    """
    seen: Counter[tuple[str, str]] = Counter()
    residuals = ("z", "r") if settings.loss == Loss.SQUARES else ("z",)
    calls: Counter[Fixed] = Counter()
    apply = reference._Prox.apply

    def watch(x: Int64s, fmt: Fixed) -> tuple[Int64s, reference.Bools]:
        names = {RESIDUAL: residuals, SCALED_GRADIENT: ("s", "d")}.get(fmt, ("master",))
        name = names[calls[fmt] % len(names)]
        calls[fmt] += 1
        seen[name, "low"] += int(np.count_nonzero(x < fmt.minimum))
        seen[name, "high"] += int(np.count_nonzero(x > fmt.maximum))
        return saturate(x, fmt)

    def watch_prox(self: reference._Prox, master: Int64s) -> Int64s:
        after = apply(self, master)
        if self.settings.prox == Prox.L2:
            _count(seen, "L2 shrinks", after != master)
        elif self.settings.prox == Prox.L1:
            _count(seen, "L1 moves down", (after < master) & (after != 0))
            _count(seen, "L1 moves up", (after > master) & (after != 0))
            _count(seen, "L1 makes zero", (after == 0) & (master != 0))
        else:
            _count(seen, "BOX low", after > master)
            _count(seen, "BOX high", after < master)
            _count(seen, "BOX inside", after == master)
        return after

    with patch.object(reference, "saturate", watch), patch.object(reference._Prox, "apply", watch_prox):
        yield seen


def _count(seen: Counter[tuple[str, str]], effect: str, where: reference.Bools) -> None:
    seen["prox", effect] += int(np.count_nonzero(where))
