"""Ways to get the gradient of a loss that is not squared from samples of few bits.

Each reads copies of a batch's rows [copies, rows, n], and gives each copy a slope: the gradient is the sum over copies
and rows of slope times copy. The loss decides on scores, the copies times the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import RESIDUAL
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.evaluation.baseline import SLOPES
from bitlane.quantization.quantize import base_codes
from bitlane.quantization.scaling import Floats

from .chebyshev import leave_one_out, sigmoid_polynomial
from .lattice import Lattice

RADIUS = 2.0 ** (RESIDUAL.bits - 1 - RESIDUAL.fraction)  # where the accelerator's scores saturate
Kind = Literal["plain", "double", "unbiased"]
_NAMES = {"nearest": "nearest", "naive": "stochastic, one draw", "full": "full precision"}
FAILURE = 0.01  # chance that the l2 bound misses an error


class Method(Protocol):
    """A name, the stored bits a feature that one pass reads of every row, and how they become a gradient."""

    @property
    def name(self) -> str: ...

    @property
    def bits(self) -> int: ...

    @property
    def kind(self) -> Kind: ...

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Copies float64 [copies, rows, n] of values [rows, n] in [-1, 1]."""

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        """Slopes float64 [copies, rows] for scores [copies, rows], and how many rows were fetched at full precision.

        labels: [rows], -1 and 1. weights: [n], those of the features that are stored.
        """


@dataclass(frozen=True)
class Plain:
    """One copy: nearest, naive (one stochastic rounding) or full precision, with all its bits as levels."""

    loss: str
    precision: Precision
    kind: Kind = "plain"

    @property
    def name(self) -> str:
        return _NAMES[self.precision.sampling]

    @property
    def bits(self) -> int:
        return self.precision.bits

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        codes = base_codes(values * self.precision.limit, self.precision, rng)
        middles = (2.0 * codes.astype(np.float64) + 1.0) * 2.0**-self.bits - 1.0
        return (middles / self.precision.limit)[None]

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        return SLOPES[self.loss](scores, labels), 0


@dataclass(frozen=True)
class Double:
    """Two draws, each with the slope of the other's score: what the accelerator does, and biased where slopes bend."""

    loss: str
    bits: int
    kind: Kind = "double"

    @property
    def name(self) -> str:
        return "double sampling"

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        return Lattice(self.bits - 2).draws(values, 2, rng)

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        return 0.5 * SLOPES[self.loss](scores, labels)[::-1], 0


@dataclass(frozen=True)
class Polynomial:
    """d + 1 draws for a logistic slope of degree d: without bias for the polynomial, which is not quite the sigmoid.

    Each score saturates at `RADIUS`, as the accelerator's do: beyond it the polynomial of degree 3 or 7 would push a
    score further out the larger it is, and training would diverge. A draw that saturates has a bias of its own.
    """

    degree: int
    bits: int
    kind: Kind = "unbiased"

    @property
    def name(self) -> str:
        return f"polynomial, degree {self.degree}"

    @cached_property
    def coefficients(self) -> Floats:
        return sigmoid_polynomial(self.degree, RADIUS)

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        return Lattice(self.bits - self.degree - 1).draws(values, self.degree + 1, rng)

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        return (leave_one_out(np.clip(scores / RADIUS, -1.0, 1.0), self.coefficients) - (labels > 0)) / len(scores), 0


@dataclass(frozen=True)
class Refetching:
    """The hinge's slope from a margin of few bits where that decides, from the row at full precision elsewhere.

    "l1": the margin is that of the intervals' middles, its error at most `width / 2 * |w|_1`; the gradient's row is a
    draw. No slope is decided wrongly, so the gradient has no bias.
    "l2": the margin is that of a draw, the gradient's row a second one. The margin's error is a sum of independent ones
    of mean 0 and ranges `width * |w_j|`: by Hoeffding's inequality it exceeds
    `width * |w|_2 * sqrt(log(2 / FAILURE) / 2)` with a chance of at most FAILURE.
    ZipML names the idea in section 4; bounds and formats are ours.
    """

    bound: str
    bits: int
    kind: Kind = "unbiased"

    @property
    def name(self) -> str:
        return f"refetching, {self.bound}"

    @property
    def lattice(self) -> Lattice:
        return Lattice(self.bits - (1 if self.bound == "l1" else 2))

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        """For the margin, for the gradient, and the rows themselves."""
        if self.bound == "l1":
            return np.stack([self.lattice.middles(values), *self.lattice.draws(values, 1, rng), values])
        return np.stack([*self.lattice.draws(values, 2, rng), values])

    def undecided(self, scores: Floats, labels: Floats, weights: Floats) -> NDArray[np.bool_]:
        """Rows [rows] whose margin, by scores [rows], is as close to the hinge as its error may be large."""
        if self.bound == "l1":
            error = float(np.abs(weights).sum()) / 2
        else:
            error = float(np.linalg.norm(weights)) * math.sqrt(math.log(2 / FAILURE) / 2)
        return np.asarray(np.abs(1.0 - labels * scores) <= self.lattice.width * error)

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        fetched = self.undecided(scores[0], labels, weights)
        few, _, full = SLOPES["hinge"](scores, labels)
        nothing = np.zeros(len(labels))
        return np.stack([nothing, np.where(fetched, 0.0, few), np.where(fetched, full, 0.0)]), int(fetched.sum())


FULL = Precision(FULL_BITS, "full")
DEGREES = (1, 3, 5, 7)  # a sigmoid less 1/2 is odd
LEAST_BASE = 2  # bits, below which no polynomial is tried


def methods(loss: str, bits: int) -> list[Method]:
    """All that there is for "hinge" or "log_loss" at so many stored bits: even, 4 or more."""
    plain: list[Method] = [Plain(loss, Precision(bits, sampling)) for sampling in ("nearest", "naive")]
    if loss == "hinge":
        return [*plain, Double(loss, bits), Refetching("l1", bits), Refetching("l2", bits)]
    polynomials = [Polynomial(degree, bits) for degree in DEGREES if bits - degree - 1 >= LEAST_BASE]
    return [*plain, Double(loss, bits), *polynomials]
