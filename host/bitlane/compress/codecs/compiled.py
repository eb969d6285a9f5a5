"""The codecs' loops in machine code, when numba is installed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from bitlane.support import jit

from .arrays import Values, nonfinite_error
from .compile_notice import compile_notice
from .groups import Bits, Groups
from .packing import Bytes

_STOCHASTIC_OFF = -1


def kernels() -> Any:
    """Return the module `kernels`; None without numba and on big-endian machines, since the loops write whole words."""
    if jit.numba() is None or sys.byteorder != "little":
        return None
    return import_module(".kernels", __package__)


def encode(values: Values, groups: Groups, bits: Bits, residual: Values | None, seed: int | None) -> Bytes:
    """Encode checked values as a float32 for each group, then codes: as `linear.encode`, or as signs for 1 bit."""
    body = np.empty(4 * len(groups) + groups.all_code_bytes(bits), np.uint8)
    inputs, feedback = (values, np.empty(0, np.float32)) if residual is None else (residual, residual)
    encode_loop = kernels().encode
    with compile_notice(encode_loop):
        seed = _STOCHASTIC_OFF if seed is None else seed
        bad = encode_loop(values, inputs, feedback, groups.lengths, _widths(groups, bits), seed, body)
    if bad >= 0:
        raise nonfinite_error(bad)
    return body


def decode(codes: Bytes, scales: Values, groups: Groups, bits: Bits, out: Values, add: bool) -> None:
    """Write the values of checked codes, given the float32 of each group, or add them to `out`."""
    decode_loop = kernels().decode
    with compile_notice(decode_loop):
        decode_loop(codes, np.array(scales, np.float32), groups.lengths, _widths(groups, bits), out, add)


def _widths(groups: Groups, bits: Bits) -> Bytes:
    """Return the bits of each group, uint8 [groups]."""
    return bits if isinstance(bits, np.ndarray) else np.full(len(groups), bits, np.uint8)
