"""The codecs' compiled loops, where they can be had."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from bitlane.support import jit

from .arrays import Values, not_finite
from .groups import Groups
from .packing import Bytes

_NONE = np.empty(0, np.float32)


def kernels() -> Any:
    """The module `kernels`, or None where numba is not installed; they write words of a little-endian machine."""
    if jit.numba() is None or sys.byteorder != "little":
        return None
    return import_module(".kernels", __package__)


def encode(values: Values, groups: Groups, bits: int, residual: Values | None, seed: int | None) -> Bytes:
    """The body of checked values, signs where bits is 1: a float32 for each group, then codes. As `linear.encode`."""
    body = np.empty(4 * len(groups) + groups.all_code_bytes(bits), np.uint8)
    steps, codes = body[: 4 * len(groups)].view(np.float32), body[4 * len(groups) :]
    kept, source = (_NONE, values) if residual is None else (residual, residual)
    feedback, random = residual is not None, seed is not None
    bad = kernels().encode(values, source, kept, feedback, groups.lengths, bits, random, seed or 0, steps, codes)
    if bad >= 0:
        raise not_finite(bad)
    return body


def decode(codes: Bytes, steps: Values, groups: Groups, bits: int, out: Values, add: bool) -> None:
    """Write, or add, what checked codes stand for, with the float32 of each group."""
    kernels().decode(codes, np.array(steps, np.float32), groups.lengths, bits, out, add)
