"""Scaled signs: each group of values as its mean magnitude, and a bit a value (Karimireddy et al., 2019, EF-signSGD).

The mean is summed as a tree, each half of 512 onto the other, so that every implementation makes the same bytes.
"""

from __future__ import annotations

import numpy as np

from . import compiled
from .arrays import Values, added, check_body, check_input, check_values, not_finite, put
from .compiled import kernels
from .groups import GROUP, Groups
from .packing import Bytes, pack, unpack


def body_bytes(groups: Groups) -> int:
    """Bytes of a body: a float32 magnitude for each group, then the signs."""
    return 4 * len(groups) + groups.all_code_bytes(1)


def encode(values: Values, groups: Groups, residual: Values | None = None) -> Bytes:
    """The body of `values` float32 [groups.count]; `residual` and errors as in `linear.encode`. A zero is positive."""
    check_input(values, residual, groups.count)
    if kernels() is None:
        return _encode(values, groups, residual)
    return compiled.encode(values, groups, 1, residual, None)


def decode(body: Bytes, groups: Groups, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    check_body(body, body_bytes(groups))
    check_values(out, groups.count)
    means, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, means, groups, out, add)
    else:
        compiled.decode(codes, means, groups, 1, out, add)


def _encode(values: Values, groups: Groups, residual: Values | None) -> Bytes:
    whole = added(values, residual)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _sums(np.abs(whole), groups) / groups.lengths.astype(np.float32)
    if not np.isfinite(mean).all():
        raise not_finite(int(np.argmin(np.isfinite(mean))))
    positive = whole >= 0
    if residual is not None:
        each = np.repeat(mean, groups.lengths)
        residual[...] = whole - np.where(positive, each, -each)
    return np.concatenate([mean.astype("<f4").view(np.uint8), pack(positive.astype(np.uint8), groups, 1)])


def _decode(codes: Bytes, mean: Values, groups: Groups, out: Values, add: bool) -> None:
    each = np.repeat(mean, groups.lengths)
    put(np.where(unpack(codes, groups, 1) == 1, each, -each), out, add)


def _sums(magnitudes: Values, groups: Groups) -> Values:
    rows = np.zeros((len(groups), GROUP), np.float32)
    rows[np.arange(GROUP) < groups.lengths[:, None]] = magnitudes
    width = GROUP
    while width > 1:
        width //= 2
        rows = rows[:, :width] + rows[:, width : 2 * width]
    sums: Values = rows[:, 0]
    return sums
