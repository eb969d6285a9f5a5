"""Methods that compute gradients of the hinge and logistic losses from samples with few bits.

A method reads copies of the rows of a batch [copies, rows, n] and computes a slope for each copy of each row from the
scores, the products of the copies with the weights. The gradient is the sum of slope times copy over copies and rows.
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
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes
from bitlane.quantization.scaling import Floats

from .chebyshev import leave_one_out, sigmoid_polynomial
from .lattice import Lattice

RADIUS = 2.0 ** (RESIDUAL.bits - 1 - RESIDUAL.fraction)  # the accelerator's scores saturate here
Kind = Literal["plain", "double", "unbiased"]
_NAMES = {"nearest": "nearest", "naive": "stochastic, one draw", "full": "full precision"}
FAILURE = 0.01  # probability that an error exceeds the l2 bound


class Method(Protocol):
    """A method to compute gradients from stored bits.

    Attributes
    ----------
    name : str
    bits : int
        Stored bits per feature that one pass reads of every row.
    kind : {"plain", "double", "unbiased"}
    """

    @property
    def name(self) -> str: ...

    @property
    def bits(self) -> int: ...

    @property
    def kind(self) -> Kind: ...

    def read(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return the copies that the method reads.

        Parameters
        ----------
        values : float64 array of shape (rows, n)
            Values in [-1, 1].
        rng : numpy.random.Generator

        Returns
        -------
        float64 array of shape (copies, rows, n)
        """

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        """Return the slopes and the number of rows that the method fetches at full precision.

        Parameters
        ----------
        scores : float64 array of shape (copies, rows)
        labels : float64 array of shape (rows,)
            -1 and 1.
        weights : float64 array of shape (n,)
            Weights of the stored features.

        Returns
        -------
        slopes : float64 array of shape (copies, rows)
        fetched : int
        """


@dataclass(frozen=True)
class Plain:
    """One copy that uses all bits for levels: nearest or naive (one stochastic) rounding, or full precision."""

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
        positions = value_positions(values * self.precision.limit, self.precision)
        words = rng.integers(1 << 32, size=values.shape, dtype=np.uint32)
        codes = base_codes(positions, self.precision, words)
        middles = (2.0 * codes.astype(np.float64) + 1.0) * 2.0**-self.bits - 1.0
        return (middles / self.precision.limit)[None]

    def slopes(self, scores: Floats, labels: Floats, weights: Floats) -> tuple[Floats, int]:
        return SLOPES[self.loss](scores, labels), 0


@dataclass(frozen=True)
class Double:
    """Two draws, each with the slope of the other draw's score, as in the accelerator; biased for nonlinear slopes."""

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
    """d + 1 draws for a polynomial slope of degree d: unbiased for the polynomial, which approximates the sigmoid.

    Scores saturate at `RADIUS`, as in the accelerator. Without saturation a polynomial of degree 3 or 7 would increase
    scores beyond the radius further, and the training would diverge. Saturated draws are biased.
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
    """The slope of the hinge from the quantized margin where that is certain, otherwise from the fetched row.

    "l1": the margin comes from the middles of the intervals, and its error is at most `width / 2 * |w|_1`. The gradient
    uses a draw. Every slope is correct, so the gradient has no bias.

    "l2": the margin comes from one draw, and the gradient uses a second one. The error of the margin is a sum of
    independent errors with mean 0 and ranges `width * |w_j|`. By Hoeffding's inequality it exceeds
    `width * |w|_2 * sqrt(log(2 / FAILURE) / 2)` with a probability of at most FAILURE.

    ZipML sketches the idea in section 4; the bounds and the formats are our own.
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
        """Return three copies: for the margin, for the gradient, and the unquantized rows."""
        if self.bound == "l1":
            return np.stack([self.lattice.middles(values), *self.lattice.draws(values, 1, rng), values])
        return np.stack([*self.lattice.draws(values, 2, rng), values])

    def undecided(self, scores: Floats, labels: Floats, weights: Floats) -> NDArray[np.bool_]:
        """Return which rows must be fetched: their margin is closer to the hinge than the bound on its error.

        Parameters
        ----------
        scores : float64 array of shape (rows,)
            Scores of the copy for the margin.
        labels : float64 array of shape (rows,)
        weights : float64 array of shape (n,)

        Returns
        -------
        bool array of shape (rows,)
        """
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
DEGREES = (1, 3, 5, 7)  # the sigmoid minus 1/2 is an odd function
LEAST_BASE = 2  # minimum base bits of a polynomial's samples


def methods(loss: str, bits: int) -> list[Method]:
    """Return all methods for a loss.

    Parameters
    ----------
    loss : {"hinge", "log_loss"}
    bits : int
        Stored bits per feature, even and at least 4.

    Returns
    -------
    list of Method
    """
    plain: list[Method] = [Plain(loss, Precision(bits, sampling)) for sampling in ("nearest", "naive")]
    if loss == "hinge":
        return [*plain, Double(loss, bits), Refetching("l1", bits), Refetching("l2", bits)]
    polynomials = [Polynomial(degree, bits) for degree in DEGREES if bits - degree - 1 >= LEAST_BASE]
    return [*plain, Double(loss, bits), *polynomials]
