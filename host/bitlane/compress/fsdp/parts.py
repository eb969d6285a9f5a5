"""Compressors for the parts of a model that are averaged separately."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from bitlane.support.hashing import derive_seed

from ..compressor import Compressor


def part_compressor(compressor: Compressor, index: int) -> Compressor:
    """Return the compressor of a part: with a seed of its own, so that no two parts draw the same random words.

    Parameters
    ----------
    compressor : Compressor
        The settings of the whole model.
    index : int
        Number of the part, from 0. Part 0 has the seed of `compressor`.

    Returns
    -------
    Compressor
        `compressor` itself for part 0, and if it has no seed.
    """
    settings: Any = compressor
    if index == 0 or "seed" not in {each.name for each in fields(settings)}:
        return compressor
    made: Compressor = replace(settings, seed=derive_seed(settings.seed, index))
    return made
