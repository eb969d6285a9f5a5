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


def make_same(transport: Transport, tensors: Mapping[str, Tensor]) -> None:
    """Set tensors, of the same names, types and shapes on all ranks, to those of rank 0.

    Ranks exchange digests first, and rank 0 sends its values only to ranks with another one. So a start with equal
    weights costs 16 bytes.
    """
    own = torch.frombuffer(bytearray.fromhex(digest(tensors)), dtype=torch.uint8)
    digests = transport.exchange([own] * transport.size, [len(own)] * transport.size)
    differ = [not torch.equal(each.cpu(), digests[0].cpu()) for each in digests]
    if not any(differ):
        return
    for tensor in tensors.values():
        values = _bytes(tensor.detach())
        nothing = values[:0]
        if transport.rank == 0:
            transport.exchange([values if each else nothing for each in differ], [0] * transport.size)
            continue
        lengths = [len(values) if differ[transport.rank] else 0, *[0] * (transport.size - 1)]
        received = transport.exchange([nothing] * transport.size, lengths)[0].to(tensor.device)
        if differ[transport.rank]:
            with torch.no_grad():
                tensor.copy_(received.view(tensor.dtype).view(tensor.shape))


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of the values of tensors, as text."""
    total = blake2b(digest_size=16)
    for tensor in tensors.values():
        total.update(_bytes(tensor.detach()).cpu().numpy().data)
    return total.hexdigest()


def _bytes(tensor: Tensor) -> Tensor:
    """Return the values of a tensor of any type, uint8 [bytes]."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
