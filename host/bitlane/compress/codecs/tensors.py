"""Sparse codecs on tensors of any device: numpy on the host, torch on a GPU, byte-identical."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bitlane.support.optional import require_extra

from . import rice
from .gpu import rice as gpu_rice
from .largest import largest as host_largest
from .select import select as host_select
from .wire import PayloadError


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


def encode(indices: Tensor, values: Tensor, n: int) -> Tensor:
    """Encode values float32 [k] at ascending indices as a body, as `sparse.encode` does."""
    return torch.cat([encode_indices(indices, n), as_bytes(values)])


def decode(body: Tensor, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the indices int64 [k] and the values float32 [k] of a body on a device.

    Raises
    ------
    PayloadError
        If `sparse.encode` cannot have produced the body for a vector of length n.
    """
    count, _, begin = rice.read_prefix(body[: rice.MAX_PREFIX_BYTES].cpu().numpy())
    cut = len(body) - 4 * count
    if cut < begin:
        raise PayloadError(f"a body of {len(body)} bytes is too short for {count} values")
    return decode_indices(body[:cut], n, device), as_values(body[cut:], device)


def gpu_module(name: str) -> Any:
    """Return a module of `codecs.gpu` with kernels; raise an error that names the extra if Triton is missing."""
    require_extra("triton", "compression on a GPU", "'bitlane[torch,gpu]'")
    return import_module(f".gpu.{name}", __package__)
