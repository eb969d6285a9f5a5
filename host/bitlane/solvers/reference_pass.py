"""A pass over a block of rows in numpy, with the bits of `passes.c`, for machines without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Codes, Floats

from .losses import SmoothLoss

LANES = TILE = 16
GROUP = 64  # rows whose gradients are added in float32; the groups are added in float64
SUMS = 3  # of slopes, losses, and conjugates or sizes of slopes
Singles = NDArray[np.float32]

_f = np.float32


def block_scores(codes: Codes, weights: Singles) -> Singles:
    """Return the scores float32 [rows] of codes by one model [padded columns]: sums of 16 lanes, which are folded."""
    padded = np.zeros((len(codes), len(weights)), np.float32)
    padded[:, : codes.shape[1]] = codes
    lanes = np.zeros((len(codes), LANES), np.float32)
    for first in range(0, len(weights), LANES):
        lanes += padded[:, first : first + LANES] * weights[first : first + LANES]
    return _folded(lanes)


def block_gradients(codes: Codes, slopes: Singles, padded: int) -> Singles:
    """Return the sums of codes times slopes of each group, float32 [groups, padded]: row after row."""
    groups = -(-len(codes) // GROUP)
    rows = np.zeros((groups * GROUP, padded), np.float32)
    rows[: len(codes), : codes.shape[1]] = codes
    of_rows = np.zeros(groups * GROUP, np.float32)
    of_rows[: len(slopes)] = slopes
    found = np.zeros((groups, padded), np.float32)
    for i in range(GROUP):
        found += rows[i::GROUP] * of_rows[i::GROUP, None]
    return found


def group_sums(of_rows: Singles) -> Floats:
    """Return the sums of each group, float64 [groups]: of 16 lanes, tile after tile."""
    groups = -(-len(of_rows) // GROUP)
    padded = np.zeros(groups * GROUP)
    padded[: len(of_rows)] = of_rows
    tiles = padded.reshape(groups, GROUP // TILE, TILE)
    lanes: Floats = np.zeros((groups, TILE))
    for t in range(GROUP // TILE):
        lanes += tiles[:, t]
    return _folded(lanes)


def of_loss(smooth_loss: SmoothLoss, z: Singles, y: Singles, certify: bool, reach: np.float32) -> tuple[Any, Any, Any]:
    """Return slope, loss and second derivative at scores; with `certify`, the loss of hinge has no smooth part."""
    one = np.ones_like(z)
    if smooth_loss.name == "squared_error":
        r = z - y
        return r, _f(0.5) * (r * r), one
    margin = y * z
    if smooth_loss.name == "log_loss":
        size = np.where(margin > 0, margin, -margin)
        e = _exponential(-np.where(size > 87, _f(87), size))
        share = np.where(margin > 0, e, one) / (one + e)
        value = _twice_atanh(e / (e + _f(2))) - np.where(margin > 0, _f(0), margin)
        return -y * share, value, e / ((one + e) * (one + e))
    if smooth_loss.name == "squared_hinge":
        lacking = _largest(one - margin, _f(0))
        return _f(-2) * y * lacking, lacking * lacking, np.where(lacking > 0, _f(2), _f(0))
    width = _f(smooth_loss.width)
    lacking = one - margin
    inside = lacking / width + _f(0.5)
    share = _largest(inside, _f(0))
    share = np.where(share > 1, _f(1), share)
    near = np.where(lacking > 0, lacking, -lacking)
    curvature = np.where(near < _f(0.5) * reach, one / reach, _f(0))
    if certify:
        return -y * share, _largest(lacking, _f(0)), curvature
    return -y * share, np.where(inside < 1, _f(0.5) * width * (share * share), lacking), curvature


def conjugate(smooth_loss: SmoothLoss, slope: Singles, y: Singles) -> Singles:
    """Return the conjugate of the loss at slopes."""
    if smooth_loss.name == "squared_error":
        return np.asarray(slope * (_f(0.5) * slope + y))
    a = -y * slope
    if smooth_loss.name == "log_loss":
        return np.asarray(_entropy(a) + _entropy(_f(1) - a))
    return np.asarray(-a if smooth_loss.name == "hinge" else _f(0.25) * (a * a) - a)


def _twice_atanh(t: Singles) -> Singles:
    s = t * t
    total = _f(1) / _f(15) * np.ones_like(t)
    for term in (_f(1) / _f(13), _f(1) / _f(11), _f(1) / _f(9), _f(1) / _f(7), _f(0.2), _f(1) / _f(3)):
        total = total * s + term
    return np.asarray(t * (total * s + _f(1)) * _f(2))


def _exponential(x: Singles) -> Singles:
    shifted = x * _f(1.44269504) + _f(12582912)
    whole = shifted - _f(12582912)
    r = (x - whole * _f(0.693359375)) - whole * _f(-2.12194440e-4)
    total = _f(1) / _f(5040) * np.ones_like(x)
    for term in (_f(1) / _f(720), _f(1) / _f(120), _f(1) / _f(24), _f(1) / _f(6), _f(0.5), _f(1), _f(1)):
        total = total * r + term
    return np.asarray((total.view(np.uint32) + (shifted.view(np.uint32) << np.uint32(23))).view(np.float32))


def _logarithm(x: Singles) -> Singles:
    exponent = (x.view(np.int32) - np.int32(0x3F3504F3)) >> np.int32(23)
    m = (x.view(np.int32) - (exponent << np.int32(23))).view(np.float32)
    return np.asarray(exponent.astype(np.float32) * _f(0.693147181) + _twice_atanh((m - _f(1)) / (m + _f(1))))


def _entropy(x: Singles) -> Singles:
    return np.asarray(x * _logarithm(_largest(x, _f(1e-30))))


def _largest(a: Singles, b: np.float32) -> Singles:
    return np.asarray(np.where(a > b, a, b))


def _folded(lanes: NDArray[Any]) -> NDArray[Any]:
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
