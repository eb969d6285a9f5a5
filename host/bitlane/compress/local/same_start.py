"""The same start on all ranks: equal settings and shapes, and the parameters and buffers of rank 0.

As in `DistributedDataParallel`, with all tensors of the module: also frozen parameters, and buffers of any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import torch
from torch import Tensor, nn

from ..codecs.wire import CodecId, Header
from ..collectives.link import Link
from ..collectives.transport import Transport


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module by name, without copies; tied ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def saved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that the state of a module holds, by name: without buffers that are not persistent."""
    return {name: each for name, each in module.state_dict().items() if isinstance(each, Tensor)}


def shapes_of(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the name, type and shape of each tensor as text."""
    return [f"{name}: {each.dtype} {list(each.shape)}" for name, each in tensors.items()]


def check_same_settings(transport: Transport, settings: str) -> None:
    """Raise DataError, on all ranks, unless `settings` are equal on all; RankFailed if another rank failed."""
    Link(transport, settings).handshake(Header(CodecId.FLOAT, 0, 0, 0))


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch has no types here
def broadcast(transport: Transport, tensors: Mapping[str, Tensor]) -> None:
    """Set tensors, of the same names, types and shapes on all ranks, to those of rank 0."""
    for tensor in tensors.values():
        own = _bytes(tensor)
        nothing = torch.empty(0, dtype=torch.uint8, device=own.device)
        parts = [own if transport.rank == 0 else nothing] * transport.size
        lengths = [len(own), *[0] * (transport.size - 1)]
        if transport.rank == 0:  # receives nothing but its own part
            transport.exchange(parts, [len(own), *lengths[1:]])
            continue
        received = transport.exchange(parts, lengths)[0].to(tensor.device)
        tensor.copy_(received.view(tensor.dtype).view(tensor.shape))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of the values of tensors, as text."""
    total = blake2b(digest_size=16)
    for tensor in tensors.values():
        total.update(_bytes(tensor.detach()).cpu().numpy())
    return total.hexdigest()


def _bytes(tensor: Tensor) -> Tensor:
    """Return the values of a tensor of any type, uint8 [bytes]."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
