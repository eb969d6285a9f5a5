"""The codes of a group in Triton: eight codes of b bits are b bytes, and the codes of a group begin at a byte."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..groups import GROUP

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

OPTIONS = {"enable_fp_fusion": False}  # of the compiler: no multiplication is fused with an addition
FULL = tl.constexpr(GROUP)
OCTETS = tl.constexpr(GROUP // 8)


def lanes(bits: int) -> int:
    """Return the bytes of eight codes, rounded up to a power of two, as the side of a block must be."""
    width: int = triton.next_power_of_2(bits)
    return width


@triton.jit  # type: ignore[untyped-decorator]
def indices_in_group() -> tl.tensor:
    """Return the indices of a group's values, int32 [OCTETS, 8]."""
    return tl.arange(0, OCTETS)[:, None] * 8 + tl.arange(0, 8)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def store_codes(code: tl.tensor, to: tl.tensor, count: tl.tensor, bits: tl.tensor, lanes: tl.constexpr) -> None:
    """Store the first `count` of the codes int32 [OCTETS, 8] from the byte `to` on; the others must be 0."""
    octets, eight, lane = tl.arange(0, OCTETS), tl.arange(0, 8), tl.arange(0, lanes)
    joined = tl.sum(code.to(tl.uint64) << (bits * eight[None, :]).to(tl.uint64), axis=1)
    byte = (joined[:, None] >> (8 * lane[None, :]).to(tl.uint64)) & 255
    at = octets[:, None] * bits + lane[None, :]
    tl.store(to + at, byte.to(tl.uint8), mask=(lane[None, :] < bits) & (at < (count * bits + 7) // 8))


@triton.jit  # type: ignore[untyped-decorator]
def load_codes(first_byte: tl.tensor, count: tl.tensor, bits: tl.tensor, lanes: tl.constexpr) -> tl.tensor:
    """Return `count` codes from the byte `first_byte` on, int32 [OCTETS, 8]."""
    octets, eight, lane = tl.arange(0, OCTETS), tl.arange(0, 8), tl.arange(0, lanes)
    at = octets[:, None] * bits + lane[None, :]
    sent = (lane[None, :] < bits) & (at < (count * bits + 7) // 8)
    byte = tl.load(first_byte + at, mask=sent, other=0)
    joined = tl.sum(byte.to(tl.uint64) << (8 * lane[None, :]).to(tl.uint64), axis=1)
    return ((joined[:, None] >> (bits * eight[None, :]).to(tl.uint64)) & ((1 << bits) - 1)).to(tl.int32)
