"""Scaled signs: each group of values as its mean magnitude, and a bit a value (Karimireddy et al., 2019, EF-signSGD).

The mean is summed as a tree, each half of 512 onto the other, so that every implementation makes the same bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .groups import GROUP, Groups
from .packing import Bytes, pack, unpack

Values = NDArray[np.float32]


def body_bytes(groups: Groups) -> int:
    """Bytes of a body: a float32 magnitude for each group, then the signs."""
    return 4 * len(groups) + int(groups.code_bytes(1).sum())


def encode(values: Values, groups: Groups, residual: Values | None = None) -> Bytes:
    """The body of `values` float32 [groups.count]; `residual` as in `linear.encode`. A zero counts as positive."""
    whole = values if residual is None else values + residual
    mean = _sums(np.abs(whole), groups) / groups.lengths.astype(np.float32)
    positive = whole >= 0
    if residual is not None:
        each = np.repeat(mean, groups.lengths)
        residual[...] = whole - np.where(positive, each, -each)
    return np.concatenate([mean.astype("<f4").view(np.uint8), pack(positive.astype(np.uint8), groups, 1)])


def decode(body: Bytes, groups: Groups, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]."""
    each = np.repeat(body[: 4 * len(groups)].view("<f4"), groups.lengths)
    values = np.where(unpack(body[4 * len(groups) :], groups, 1) == 1, each, -each)
    if add:
        out += values
    else:
        out[...] = values


def _sums(magnitudes: Values, groups: Groups) -> Values:
    rows = np.zeros((len(groups), GROUP), np.float32)
    rows[np.arange(GROUP) < groups.lengths[:, None]] = magnitudes
    width = GROUP
    while width > 1:
        width //= 2
        rows = rows[:, :width] + rows[:, width : 2 * width]
    sums: Values = rows[:, 0]
    return sums
