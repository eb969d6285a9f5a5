"""The logistic slope as a polynomial, and unbiased estimates of a polynomial of a score.

The product of i independent unbiased estimates of a score `a.x` has the expectation `(a.x)**i`. Therefore d draws of a
sample give an unbiased estimate of a polynomial of degree d of its score. One more independent draw, multiplied by this
estimate, gives an unbiased gradient. ZipML sketches the idea in section 6 and leaves the details to its full version;
the details here are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly

from bitlane.quantization.scaling import Floats

_NODES = 512  # nodes of the quadrature, enough for a sigmoid over hundreds of units


def chebyshev_series(function: Callable[[Floats], Floats], degree: int) -> Floats:
    """Return the coefficients of a function on [-1, 1] in Chebyshev polynomials.

    Coefficient k is `2 / pi` times the integral of `function(cos t) cos(k t)` over t from 0 to pi. Coefficient 0 is
    half of this.

    Parameters
    ----------
    function : callable
        Function of a float64 array, elementwise.
    degree : int

    Returns
    -------
    float64 array of shape (degree + 1,)
    """
    angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
    cosines = np.cos(np.outer(np.arange(degree + 1), angles))
    series = np.asarray(2.0 / _NODES * cosines @ function(np.cos(angles)))
    series[0] /= 2
    return series


def sigmoid_polynomial(degree: int, radius: float) -> Floats:
    """Return the coefficients of a polynomial that approximates the sigmoid on [-radius, radius].

    Beyond the radius the polynomial diverges from the sigmoid, the faster the higher its degree.

    Parameters
    ----------
    degree : int
    radius : float

    Returns
    -------
    float64 array of shape (degree + 1,)
        Coefficients of the powers of `score / radius`.
    """
    return np.asarray(cheb2poly(chebyshev_series(lambda t: 1.0 / (1.0 + np.exp(-radius * t)), degree)))


def leave_one_out(scores: Floats, coefficients: Floats) -> Floats:
    """Estimate a polynomial of degree d of the score for each of d + 1 draws, from the d other draws.

    The estimate of the power i is the mean of all products of i different scores, which has the least variance of all
    unbiased estimates from these draws. It is independent of the omitted draw, so their product has no bias.

    Parameters
    ----------
    scores : float64 array of shape (d + 1, rows)
        Independent draws of the score of each row.
    coefficients : float64 array of shape (d + 1,)
        Coefficients of the powers of the score.

    Returns
    -------
    float64 array of shape (d + 1, rows)
        Row k is the estimate without draw k.
    """
    degree = len(coefficients) - 1
    others = scores[[[j for j in range(degree + 1) if j != k] for k in range(degree + 1)]]
    sums = np.zeros((degree + 1, *scores.shape))  # elementary symmetric polynomials of the other draws
    sums[0] = 1.0
    for j in range(degree):
        sums[1 : j + 2] += sums[: j + 1] * others[:, j]
    means = coefficients / [comb(degree, i) for i in range(degree + 1)]
    return np.asarray(np.tensordot(means, sums, axes=1))
