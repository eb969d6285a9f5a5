"""Scaled signs: the mean magnitude of each group, and one bit a value (EF-signSGD: Karimireddy et al., 2019).

The mean is summed as a binary tree over 512 values, so that every implementation writes the same bytes.
"""

from __future__ import annotations

import numpy as np

from . import compiled
from .arrays import Values, add_residual, check_body, check_input, check_values, nonfinite_error, write_or_add
from .compiled import kernels
from .groups import GROUP, Groups
from .packing import Bytes, pack, unpack


def body_bytes(groups: Groups) -> int:
    """Return the bytes of a body: a float32 magnitude for each group, then the signs."""
    return 4 * len(groups) + groups.all_code_bytes(1)


def encode(values: Values, groups: Groups, residual: Values | None = None) -> Bytes:
    """Encode values float32 [groups.count] as mean magnitudes and signs; a zero is positive.

    `residual` and errors are those of `linear.encode`.
    """
    check_input(values, residual, groups.count)
    if kernels() is None:
        return _encode(values, groups, residual)
    return compiled.encode(values, groups, 1, residual, None)


def decode(body: Bytes, groups: Groups, out: Values, add: bool = False) -> None:
    """Write the decoded values to `out` float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    check_body(body, body_bytes(groups))
    check_values(out, groups.count)
    means, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, means, groups, out, add)
    else:
        compiled.decode(codes, means, groups, 1, out, add)


def _encode(values: Values, groups: Groups, residual: Values | None) -> Bytes:
    total = add_residual(values, residual)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _tree_sums(np.abs(total), groups) / groups.lengths.astype(np.float32)
    if not np.isfinite(mean).all():
        raise nonfinite_error(int(np.argmin(np.isfinite(mean))))
    positive = total >= 0
    if residual is not None:
        mean_of_value = np.repeat(mean, groups.lengths)
        residual[...] = total - np.where(positive, mean_of_value, -mean_of_value)
    return np.concatenate([mean.astype("<f4").view(np.uint8), pack(positive.astype(np.uint8), groups, 1)])


def _decode(codes: Bytes, mean: Values, groups: Groups, out: Values, add: bool) -> None:
    mean_of_value = np.repeat(mean, groups.lengths)
    write_or_add(np.where(unpack(codes, groups, 1) == 1, mean_of_value, -mean_of_value), out, add)


def _tree_sums(magnitudes: Values, groups: Groups) -> Values:
    rows = np.zeros((len(groups), GROUP), np.float32)
    rows[np.arange(GROUP) < groups.lengths[:, None]] = magnitudes
    width = GROUP
    while width > 1:
        width //= 2
        rows = rows[:, :width] + rows[:, width : 2 * width]
    sums: Values = rows[:, 0]
    return sums
