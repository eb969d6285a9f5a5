"""Codes of 1 to 8 bits side by side, the first in the lowest bits; each group begins with a byte of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .groups import GROUP, Groups

Bytes = NDArray[np.uint8]


def pack(codes: Bytes, groups: Groups, bits: int) -> Bytes:
    """uint8 [sum of groups.code_bytes(bits)] from codes uint8 [groups.count] below 2**bits."""
    rows = np.zeros((len(groups), GROUP), np.uint8)
    rows[_there(groups)] = codes
    spread = np.unpackbits(rows[:, :, None], axis=2, count=bits, bitorder="little").reshape(len(groups), GROUP * bits)
    packed = np.packbits(spread, axis=1, bitorder="little")
    return packed[_bytes_there(groups, bits)]


def unpack(packed: Bytes, groups: Groups, bits: int) -> Bytes:
    """The codes that `pack` was given."""
    rows = np.zeros((len(groups), GROUP * bits // 8), np.uint8)
    rows[_bytes_there(groups, bits)] = packed
    spread = np.unpackbits(rows, axis=1, bitorder="little").reshape(len(groups), GROUP, bits)
    return np.packbits(spread, axis=2, bitorder="little")[:, :, 0][_there(groups)]


def _there(groups: Groups) -> NDArray[np.bool_]:
    """bool [groups, GROUP]: the places of a full group that a group has."""
    there: NDArray[np.bool_] = np.arange(GROUP) < groups.lengths[:, None]
    return there


def _bytes_there(groups: Groups, bits: int) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = np.arange(GROUP * bits // 8) < groups.code_bytes(bits)[:, None]
    return there
