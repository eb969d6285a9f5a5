"""Codes of 1 to 8 bits packed side by side, first code in the lowest bits; each group starts at a byte boundary."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .groups import GROUP, Bits, Groups

Bytes = NDArray[np.uint8]
Selector = slice | NDArray[np.bool_]


def pack(codes: Bytes, groups: Groups, bits: Bits) -> Bytes:
    """Pack codes uint8 [groups.count], each below 2**bits, into uint8 [groups.all_code_bytes(bits)]."""
    packed = np.empty(groups.all_code_bytes(bits), np.uint8)
    for width, same, codes_at, bytes_at in _by_width(groups, bits):
        rows = np.zeros((len(same), GROUP), np.uint8)
        rows[_value_mask(same)] = codes[codes_at]
        spread = np.unpackbits(rows[:, :, None], axis=2, count=width, bitorder="little")
        joined = np.packbits(spread.reshape(len(same), GROUP * width), axis=1, bitorder="little")
        packed[bytes_at] = joined[_byte_mask(same, width)]
    return packed


def unpack(packed: Bytes, groups: Groups, bits: Bits) -> Bytes:
    """Return the codes that `pack` was given."""
    codes = np.empty(groups.count, np.uint8)
    for width, same, codes_at, bytes_at in _by_width(groups, bits):
        rows = np.zeros((len(same), GROUP * width // 8), np.uint8)
        rows[_byte_mask(same, width)] = packed[bytes_at]
        spread = np.unpackbits(rows, axis=1, bitorder="little").reshape(len(same), GROUP, width)
        codes[codes_at] = np.packbits(spread, axis=2, bitorder="little")[:, :, 0][_value_mask(same)]
    return codes


def _by_width(groups: Groups, bits: Bits) -> Iterator[tuple[int, Groups, Selector, Selector]]:
    """Yield each width, its groups, and masks of their codes and of their packed bytes."""
    if not isinstance(bits, np.ndarray):
        yield bits, groups, slice(None), slice(None)
        return
    for width in np.unique(bits).tolist():
        is_same = bits == width
        codes_at, bytes_at = np.repeat(is_same, groups.lengths), np.repeat(is_same, groups.code_bytes(bits))
        yield width, Groups(groups.lengths[is_same]), codes_at, bytes_at


def _value_mask(groups: Groups) -> NDArray[np.bool_]:
    """Return bool [groups, GROUP]: which of a full group's values each group has."""
    mask: NDArray[np.bool_] = np.arange(GROUP) < groups.lengths[:, None]
    return mask


def _byte_mask(groups: Groups, bits: int) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = np.arange(GROUP * bits // 8) < groups.code_bytes(bits)[:, None]
    return mask
