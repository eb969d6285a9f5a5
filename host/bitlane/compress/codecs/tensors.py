"""Sparse codecs on tensors of any device: numpy on the host, torch on a GPU, byte-identical."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bitlane.support.optional import require_extra

from . import levels, rice
from .chunks import largest_in_rows as host_largest_in_rows
from .gpu import chunks as gpu_chunks
from .gpu import levels as gpu_levels
from .gpu import rice as gpu_rice
from .largest import largest as host_largest
from .select import select as host_select
from .sparse import FLOAT, parts_of


def on_host(device: torch.device) -> bool:
    """Return whether the codecs for tensors of a device are those of numpy."""
    return str(device.type) == "cpu"


def largest(values: Tensor, count: int) -> Tensor:
    """Return the indices of the `count` largest magnitudes, int64 [<= count], as `largest.largest` does."""
    if on_host(values.device):
        return torch.from_numpy(host_largest(values.numpy(), count))
    indices: Tensor = gpu_module("largest").largest(values, count)
    return indices


def select(values: Tensor, threshold: float) -> Tensor:
    """Return the indices of all values whose magnitude reaches a threshold, int64 [k], as `select.select` does."""
    if on_host(values.device):
        return torch.from_numpy(host_select(values.numpy(), threshold)[0])
    indices: Tensor = gpu_module("select").select(values, threshold)[0]
    return indices


def largest_in_rows(rows: Tensor, count: int) -> Tensor:
    """Return the indices of the largest magnitudes of each row, int64, as `chunks.largest_in_rows` does."""
    if on_host(rows.device):
        return torch.from_numpy(host_largest_in_rows(rows.numpy(), count))
    return gpu_chunks.largest_in_rows(rows, count)


def encode_indices(indices: Tensor, n: int) -> Tensor:
    """Encode ascending indices of a vector of n values, int64 [k], as `rice.encode` does."""
    if on_host(indices.device):
        return torch.from_numpy(rice.encode(indices.numpy(), n))
    return gpu_rice.encode(indices, n)


def decode_indices(codes: Tensor, n: int, device: torch.device) -> Tensor:
    """Return indices on a device; raise PayloadError for other bytes."""
    if on_host(device):
        return torch.from_numpy(rice.decode(codes.cpu().numpy(), n))
    return gpu_rice.decode(codes.to(device), n)


def as_bytes(values: Tensor) -> Tensor:
    """Return values float32 [k] as bytes, uint8 [4 k]."""
    return values.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def as_values(data: Tensor, device: torch.device) -> Tensor:
    """Return bytes uint8 [4 k] as values float32 [k] on a device."""
    return data.to(device).clone(memory_format=torch.contiguous_format).view(torch.float32)


def encode_values(indices: Tensor, values: Tensor, bits: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Encode values float32 [k] at ascending indices int64 [k], as `levels.encode` does, or as they are in 32 bits.

    Returns
    -------
    codes : Tensor, uint8 [value_bytes(indices, bits)]
    decoded : Tensor, float32 [k]
        What `decode_values` returns for them; in 32 bits `values` itself.
    """
    if bits == FLOAT:
        return as_bytes(values), values
    if on_host(values.device):
        codes, decoded = levels.encode(indices.numpy(), values.numpy(), bits, seed)
        return torch.from_numpy(codes), torch.from_numpy(decoded)
    return gpu_levels.encode(indices, values, bits, seed)


def decode_values(codes: Tensor, indices: Tensor, bits: int) -> Tensor:
    """Return values float32 [k] on the device of their indices; raise PayloadError for other bytes."""
    if bits == FLOAT:
        return as_values(codes, indices.device)
    if on_host(indices.device):
        return torch.from_numpy(levels.decode(codes.cpu().numpy(), indices.numpy(), bits))
    return gpu_levels.decode(codes.to(indices.device), indices, bits)


def value_bytes(indices: Tensor, bits: int) -> int:
    """Return the bytes of the values at ascending indices int64 [k]."""
    return levels.value_bytes(_chunk_count(indices) if bits < FLOAT else 0, len(indices), bits)


def _chunk_count(indices: Tensor) -> int:
    """Return the number of chunks that have values."""
    return int((torch.diff(indices >> levels.CHUNK_BITS) != 0).sum()) + 1 if len(indices) else 0


def encode(
    indices: Tensor, values: Tensor, n: int, bits: int = FLOAT, seed: int | None = None
) -> tuple[Tensor, Tensor]:
    """Encode values float32 [k] at ascending indices as a body, as `sparse.encode` does.

    Returns
    -------
    body : Tensor, uint8
    decoded : Tensor, float32 [k]
        The values that `decode` returns for it.
    """
    codes, decoded = encode_values(indices, values, bits, seed)
    head = [torch.from_numpy(rice.prefix(_chunk_count(indices))).to(indices.device)] if bits < FLOAT else []
    return torch.cat([*head, encode_indices(indices, n), codes]), decoded


def decode(body: Tensor, n: int, device: torch.device, bits: int = FLOAT) -> tuple[Tensor, Tensor]:
    """Return the indices int64 [k] and the values float32 [k] of a body on a device.

    Raises
    ------
    PayloadError
        If `sparse.encode` cannot have produced the body for a vector of length n with these bits.
    """
    head = body[: 2 * rice.MAX_PREFIX_BYTES].cpu().numpy()
    begin, cut, _ = parts_of(head, len(body), bits)
    indices = decode_indices(body[begin:cut], n, device)
    return indices, decode_values(body[cut:], indices, bits)


def gpu_module(name: str) -> Any:
    """Return a module of `codecs.gpu` with kernels; raise an error that names the extra if Triton is missing."""
    require_extra("triton", "compression on a GPU", "'bitlane[torch,gpu]'")
    return import_module(f".gpu.{name}", __package__)
