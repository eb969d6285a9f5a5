"""Numbers of any number of bits in an array of bytes: the lowest bit first, from the lowest bit of each byte on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.compiling import inner


@inner
def put(data: NDArray[np.uint8], at: int, number: np.uint64, bits: int) -> int:
    """Write the low `bits` of `number`, uint64, to zeros at bit `at`; return where the next number begins."""
    rest = number
    while bits > 0:
        shift = at & 7
        count = min(8 - shift, bits)
        chunk = np.int64(rest & np.uint64((1 << count) - 1))
        data[at >> 3] = np.uint8(np.int64(data[at >> 3]) | (chunk << shift))
        rest >>= np.uint64(count)
        at += count
        bits -= count
    return at


@inner
def get(data: NDArray[np.uint8], at: int, bits: int) -> Any:
    """Return `bits` bits from bit `at` on, uint64. The caller checks that the data has them."""
    number = np.uint64(0)
    filled = 0
    while filled < bits:
        shift = at & 7
        count = min(8 - shift, bits - filled)
        chunk = (np.int64(data[at >> 3]) >> shift) & ((1 << count) - 1)
        number |= np.uint64(chunk) << np.uint64(filled)
        at += count
        filled += count
    return number
