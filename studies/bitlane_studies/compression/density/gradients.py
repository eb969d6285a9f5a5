"""Synthetic gradients of several distributions and any scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.codecs.select import Values
from bitlane.errors import DataError

LAYERS = 16
DECADE = 1000  # steps in which a falling gradient shrinks to a tenth

_Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def _normal(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.standard_normal(n)


def _laplace(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.laplace(size=n)


def _student(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.standard_normal(n) / np.sqrt(rng.chisquare(3, n) / 3)


_DRAWS: Mapping[str, _Draw] = {"normal": _normal, "laplace": _laplace, "heavy": _student}
KINDS = (*_DRAWS, "layers", "uneven", "falling")


@dataclass(frozen=True)
class SyntheticGradients:
    """Gradients, float32 [n], of each rank and step, drawn from `seed`.

    Attributes
    ----------
    kind : str
        "normal", "laplace" or "heavy" (Student's t with 3 degrees of freedom) name the distribution. "layers" is normal
        with layers whose scales differ by up to a factor of 1,000. "uneven" is normal, and each rank has half the scale
        of the previous one. "falling" is normal and shrinks to a tenth in 1,000 steps.
    scale : float
        Scale of the gradient before these factors.
    n : int
        Values of a gradient.
    seed : int
        Seed of the draws.
    """

    kind: str
    scale: float
    n: int
    seed: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"unknown kind of gradients {self.kind!r}: choose one of {', '.join(KINDS)}")

    def of(self, rank: int, step: int) -> Values:
        """Return the gradient of a rank in a step."""
        drawn = _DRAWS.get(self.kind, _normal)(np.random.default_rng((self.seed, rank, step)), self.n)
        return (drawn * (self.scale * self._factors(rank, step))).astype(np.float32)

    def _factors(self, rank: int, step: int) -> NDArray[np.float64] | float:
        if self.kind == "layers":
            decades = np.random.default_rng(self.seed).uniform(-3, 0, LAYERS)
            layers: NDArray[np.float64] = np.repeat(10**decades, -(-self.n // LAYERS))[: self.n]
            return layers
        if self.kind == "uneven":
            return float(0.5**rank)
        return float(0.1 ** (step / DECADE)) if self.kind == "falling" else 1.0
