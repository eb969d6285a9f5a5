"""Sparse values of few bits on a GPU, in operations of torch: byte-identical to `codecs.levels`."""

from __future__ import annotations

import torch
from torch import Tensor

from bitlane.support.hashing import FRACTION_BITS, GOLDEN_RATIO, MULTIPLIERS

from ..groups import MIN_SCALE
from ..levels import (
    CHUNK_BITS,
    LARGEST,
    LEAST_HIGH,
    MOST_HIGH,
    SCALE_BYTES,
    check_length,
    invalid_scale,
    out_of_bounds,
    rest_is_set,
)

WORD = 0xFFFFFFFF


def encode(indices: Tensor, values: Tensor, bits: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Encode values float32 [k] at ascending indices int64 [k] as `levels.encode` does.

    Waits for the device twice.
    """
    chunk, chunks = _chunks(indices)
    magnitudes = values.abs()
    highs = magnitudes.new_zeros(chunks).scatter_reduce_(0, chunk, magnitudes, "amax")
    lows = magnitudes.new_full((chunks,), torch.inf).scatter_reduce_(0, chunk, magnitudes, "amin")
    if not (highs <= float(LARGEST)).all():
        raise out_of_bounds()
    highs = torch.where(highs < float(MIN_SCALE), 0.0, highs)
    rounded_up = (highs.view(torch.int32).long() + 0xFFFF) >> 16
    highs = _as_float32(rounded_up)
    parts = torch.where(highs > 0, (256 * (lows / highs)).floor().clamp(max=255), 0.0)
    low, step = (each[chunk] for each in _levels(highs, parts, bits))
    above = torch.where(step > 0, (magnitudes - low) / step, 0.0)
    if seed is None:
        level = above.round()
    else:
        fixed = (above * (1 << FRACTION_BITS)).round().long()
        level = ((fixed + (_words(seed, len(values), values.device) >> 32 - FRACTION_BITS)) >> FRACTION_BITS).float()
    level = level.clamp(0, 2 ** (bits - 1) - 1)
    negative = values.signbit()
    codes = level.to(torch.uint8) + (negative.to(torch.uint8) << bits - 1)
    highs_in_bytes = torch.stack([rounded_up & 255, rounded_up >> 8], 1).to(torch.uint8).flatten()
    body = torch.cat([highs_in_bytes, parts.to(torch.uint8), _pack(codes, bits)])
    return body, _signed(low + level * step, negative)


def decode(codes: Tensor, indices: Tensor, bits: int) -> Tensor:
    """Return the values float32 [k] as `levels.decode` does; raise PayloadError for other bytes.

    Waits for the device twice.
    """
    chunk, chunks = _chunks(indices)
    check_length(len(codes), chunks, len(indices), bits)
    cut = SCALE_BYTES * chunks
    pairs, parts = codes[: 2 * chunks].view(-1, 2).long(), codes[2 * chunks : cut].float()
    highs = pairs[:, 0] | pairs[:, 1] << 8
    valid = ((highs >= LEAST_HIGH) & (highs <= MOST_HIGH) | (highs == 0) & (parts == 0)).all()
    found = (codes[cut:, None] >> _shifts(bits, codes) & 2**bits - 1).flatten()
    are_valid, rest = torch.stack([valid, found[len(indices) :].any()]).tolist()
    if not are_valid:
        raise invalid_scale()
    if rest:
        raise rest_is_set()
    found = found[: len(indices)]
    low, step = (each[chunk] for each in _levels(_as_float32(highs), parts, bits))
    return _signed(low + (found & 2 ** (bits - 1) - 1).float() * step, found >> bits - 1 != 0)


def _chunks(indices: Tensor) -> tuple[Tensor, int]:
    """Return the chunk of each value, int64 [k], counting those that have values, and their number."""
    present, chunk = torch.unique_consecutive(indices >> CHUNK_BITS, return_inverse=True)
    return chunk, len(present)


def _as_float32(rounded: Tensor) -> Tensor:
    return (rounded << 16).to(torch.int32).view(torch.float32)


def _levels(highs: Tensor, parts: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return the lowest level and the step of each chunk."""
    lows = highs * (parts / 256)
    return lows, (highs - lows) / (2 ** (bits - 1) - 1)


def _signed(magnitudes: Tensor, negative: Tensor) -> Tensor:
    return torch.where(negative, -magnitudes, magnitudes)


def _words(seed: int, count: int, device: torch.device) -> Tensor:
    """Return `hash_words` of the first indices, int64 [count]; products wrap, and keep their lowest 32 bits."""
    x = torch.arange(count, device=device) * GOLDEN_RATIO + seed & WORD
    for shift, multiplier in zip((16, 15), MULTIPLIERS, strict=True):
        x = (x ^ x >> shift) * multiplier & WORD
    return x ^ x >> 16


def _shifts(bits: int, like: Tensor) -> Tensor:
    return torch.arange(0, 8, bits, dtype=torch.uint8, device=like.device)


def _pack(codes: Tensor, bits: int) -> Tensor:
    each = 8 // bits
    rows = codes.new_zeros(-(-len(codes) // each) * each)
    rows[: len(codes)] = codes
    return (rows.view(-1, each) << _shifts(bits, codes)).sum(1, dtype=torch.uint8)
