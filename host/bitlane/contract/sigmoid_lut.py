"""The lookup table of the logistic loss and its slope."""

from __future__ import annotations

import math

from .formats import RESIDUAL, Fixed

LUT_ADDRESS_BITS = 10  # cells of 2**-7 from 0 to 8, each with the values at its middle
LUT = Fixed(18, 18)  # unsigned


def sigmoid_lut() -> list[tuple[int, int]]:
    """Return the lookup table of the logistic loss.

    Returns
    -------
    list of tuple
        For each cell u: ``sigmoid(-u)`` and ``log(1 + exp(-u))`` at its middle, in units of ``2**-18``. The error is at
        most ``2**-10`` and ``2**-9`` inside a cell, and ``sigmoid(-8) = 3.4e-4`` where a dot product is clipped at 8.
    """
    cell = (RESIDUAL.maximum + 1) / (1 << RESIDUAL.fraction) / (1 << LUT_ADDRESS_BITS)
    middles = [(i + 0.5) * cell for i in range(1 << LUT_ADDRESS_BITS)]
    unit = 1 << LUT.fraction
    return [(round(unit / (1 + math.exp(u))), round(unit * math.log1p(math.exp(-u)))) for u in middles]
