"""Scaled signs: each group of values as its mean magnitude, and a bit a value (Karimireddy et al., 2019, EF-signSGD).

The mean is summed as a tree, each half of 512 onto the other, so that every implementation makes the same bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import check_body, check_values, not_finite
from .compiled import kernels
from .groups import GROUP, Groups
from .packing import Bytes, pack, unpack

Values = NDArray[np.float32]
_NONE = np.empty(0, np.float32)


def body_bytes(groups: Groups) -> int:
    """Bytes of a body: a float32 magnitude for each group, then the signs."""
    return 4 * len(groups) + groups.all_code_bytes(1)


def encode(values: Values, groups: Groups, residual: Values | None = None) -> Bytes:
    """The body of `values` float32 [groups.count]; `residual` and errors as in `linear.encode`. A zero is positive."""
    check_values(values, groups.count)
    if residual is not None:
        check_values(residual, groups.count, "residuals")
    if kernels() is None:
        return _encode(values, groups, residual)
    body = np.empty(body_bytes(groups), np.uint8)
    means, codes = body[: 4 * len(groups)].view(np.float32), body[4 * len(groups) :]
    kept, source = (_NONE, values) if residual is None else (residual, residual)
    feedback = residual is not None
    bad = kernels().encode(values, source, kept, feedback, groups.lengths, 1, False, 0, means, codes)
    if bad >= 0:
        raise not_finite(bad)
    return body


def decode(body: Bytes, groups: Groups, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    check_body(body, body_bytes(groups))
    check_values(out, groups.count)
    means, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, means, groups, out, add)
    else:
        kernels().decode(codes, np.array(means, np.float32), groups.lengths, 1, out, add)


def _encode(values: Values, groups: Groups, residual: Values | None) -> Bytes:
    with np.errstate(over="ignore", invalid="ignore"):
        whole = values if residual is None else values + residual
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
    values = np.where(unpack(codes, groups, 1) == 1, each, -each)
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
