"""Codes of 1 to 8 bits packed side by side, first code in the lowest bits; each group starts at a byte boundary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .groups import GROUP, Groups

Bytes = NDArray[np.uint8]


def pack(codes: Bytes, groups: Groups, bits: int) -> Bytes:
    """Pack codes uint8 [groups.count], each below 2**bits, into uint8 [groups.all_code_bytes(bits)]."""
    rows = np.zeros((len(groups), GROUP), np.uint8)
    rows[_value_mask(groups)] = codes
    spread = np.unpackbits(rows[:, :, None], axis=2, count=bits, bitorder="little").reshape(len(groups), GROUP * bits)
    packed = np.packbits(spread, axis=1, bitorder="little")
    return packed[_byte_mask(groups, bits)]


def unpack(packed: Bytes, groups: Groups, bits: int) -> Bytes:
    """Return the codes that `pack` was given."""
    rows = np.zeros((len(groups), GROUP * bits // 8), np.uint8)
    rows[_byte_mask(groups, bits)] = packed
    spread = np.unpackbits(rows, axis=1, bitorder="little").reshape(len(groups), GROUP, bits)
    return np.packbits(spread, axis=2, bitorder="little")[:, :, 0][_value_mask(groups)]


def _value_mask(groups: Groups) -> NDArray[np.bool_]:
    """Return bool [groups, GROUP]: which of a full group's values each group has."""
    mask: NDArray[np.bool_] = np.arange(GROUP) < groups.lengths[:, None]
    return mask


def _byte_mask(groups: Groups, bits: int) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = np.arange(GROUP * bits // 8) < groups.code_bytes(bits)[:, None]
    return mask
