"""Rounding, saturation and random words of single integers, with the names and results of `bitlane.contract`."""

from __future__ import annotations

import zlib
from pathlib import Path

from bitlane.contract.prng import INDEX_STEP, ROUND_KEYS
from bitlane.support.jit import Loop, machine_code

_SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


def kernel(loop: Loop) -> Loop:
    """Compile a loop that is called once for each tile: a call passes every array of a tuple, and counts references."""
    return _compiled(loop, forceinline=False)


def inlined(loop: Loop) -> Loop:
    """Compile a loop that is inlined into the loops that call it, for each row or more often."""
    return _compiled(loop, forceinline=True)


def _compiled(loop: Loop, forceinline: bool) -> Loop:
    # Numba looks at the loop's own file alone, so its name on the disk depends on all files of this package.
    loop.__qualname__ += f"_{zlib.crc32(_SOURCES):08x}"
    return machine_code(loop, nogil=True, forceinline=forceinline)


_HALF = 0xFFFF
_WORD = 0xFFFF_FFFF


def _round_half_up(x: int, n: int) -> int:
    """Return ``(x + 2**(n-1)) >> n``, or x if n is 0."""
    return (x + ((1 << n) >> 1)) >> n


def _clip(x: int, low: int, high: int) -> int:
    """Return x within two limits."""
    return min(max(x, low), high)


def _rotated(half: int, left: int) -> int:
    return (half << left | half >> (16 - left)) & _HALF


def _random_word(seed: int, index: int, lane: int) -> int:
    """Return the random word of an index and a lane, by its offset; see `bitlane.contract.prng.random_words`."""
    mixed = (seed + index * INDEX_STEP & _WORD) ^ lane
    high, low = mixed >> 16, mixed & _HALF
    for key in ROUND_KEYS:
        high, low = low ^ (rotated(high, 1) & rotated(high, 8)) ^ rotated(high, 2) ^ key, high
    return high << 16 | low


def _round_at_random(x: int, random: int, cut: int) -> int:
    """Return x rounded up or down to a multiple of ``2**cut`` by the low bits of a random word."""
    below = (1 << cut) - 1
    return (x + (random & below)) & ~below


round_half_up = inlined(_round_half_up)
clip = inlined(_clip)
rotated = inlined(_rotated)
random_word = kernel(_random_word)
round_at_random = inlined(_round_at_random)
