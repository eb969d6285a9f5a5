"""The logistic slope as a polynomial, and estimates of a polynomial of a score without bias.

A product of independent estimates of a score `a.x` has the expectation `(a.x)**i`; so d draws of a sample give a
polynomial of degree d of its score without bias, and one draw more, times that, a gradient. ZipML names the idea in
section 6 and leaves the details to its full version; those here are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly

from bitlane.quantization.scaling import Floats

_NODES = 512  # of the sums that stand for integrals; far more than a sigmoid over hundreds of units needs


def chebyshev_series(function: Callable[[Floats], Floats], degree: int) -> Floats:
    """The first coefficients float64 [degree + 1] of a function on [-1, 1] by Chebyshev polynomials.

    `2 / pi` times the integral of `function(cos t) cos(k t)` over t from 0 to pi, half of that for k = 0.
    """
    angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
    cosines = np.cos(np.outer(np.arange(degree + 1), angles))
    series = np.asarray(2.0 / _NODES * cosines @ function(np.cos(angles)))
    series[0] /= 2
    return series


def sigmoid_polynomial(degree: int, radius: float) -> Floats:
    """Coefficients float64 [degree + 1] by powers of `score / radius`: a sigmoid on [-radius, radius].

    Beyond the radius the polynomial runs away from the sigmoid as fast as its degree allows.
    """
    return np.asarray(cheb2poly(chebyshev_series(lambda t: 1.0 / (1.0 + np.exp(-radius * t)), degree)))


def leave_one_out(scores: Floats, coefficients: Floats) -> Floats:
    """For each of d + 1 draws an estimate of a polynomial of degree d from the d others, float64 [d + 1, rows].

    The power i is estimated by the mean of all products of i different scores: of the same draws that is the
    estimate of least variance. Independent of the draw that was left out, which may be multiplied with it.

    scores: float64 [d + 1, rows], independent draws of each row's score. coefficients: [d + 1], by powers.
    """
    degree = len(coefficients) - 1
    others = scores[[[j for j in range(degree + 1) if j != k] for k in range(degree + 1)]]
    sums = np.zeros((degree + 1, *scores.shape))  # elementary symmetric polynomials of the others
    sums[0] = 1.0
    for j in range(degree):
        sums[1 : j + 2] += sums[: j + 1] * others[:, j]
    means = coefficients / [comb(degree, i) for i in range(degree + 1)]
    return np.asarray(np.tensordot(means, sums, axes=1))
