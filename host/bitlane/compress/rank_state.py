"""The states of all ranks of a compression in the checkpoints of frameworks, which save those of one rank."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import torch
import torch.distributed as dist

from bitlane.errors import DataError

from .collectives.link import Link
from .collectives.transport import Transport
from .compressor import Compressor, SavedState
from .ddp.states import redistribute


class SavesState(Protocol):
    """A `DDPCompression`, `FSDPCompression` or `DiLoCo`.

    Attributes
    ----------
    transport : Transport
        Its connection.
    """

    transport: Transport

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank; raise DataError before the first step."""
        ...

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of this rank."""
        ...


class RankState:
    """A compression as `torch.distributed.checkpoint` saves and loads it: under a name of its own on each rank.

    The checkpoint keeps one of several values of one name. With the `state_dict()` of a compression as it is, the
    residuals of all ranks but one would be lost.

    Parameters
    ----------
    compression : DDPCompression, FSDPCompression or DiLoCo
        It may have made no step: then nothing is saved, and it is where a checkpoint can be loaded.

    Examples
    --------
    >>> import torch.distributed.checkpoint as dcp
    >>> state = {"model": ddp.module.state_dict(), "compression": RankState(compression)}  # doctest: +SKIP
    >>> dcp.save(state, checkpoint_id="checkpoint")  # doctest: +SKIP
    >>> dcp.load(state, checkpoint_id="checkpoint")  # doctest: +SKIP
    """

    def __init__(self, compression: SavesState):
        self.compression = compression
        self._name = f"rank {dist.get_rank()}"

    def state_dict(self) -> dict[str, bytes]:
        """Return the state of this rank as one item: bytes, which `torch.load` reads."""
        return {self._name: state_bytes(self.compression)}

    def load_state_dict(self, state: Mapping[str, bytes]) -> None:
        """Restore what `state_dict` returned on this rank; errors as those of the compression."""
        if state[self._name]:
            self.compression.load_state_dict(state_of_bytes(state[self._name]))


def state_bytes(compression: SavesState) -> bytes:
    """Return the state of this rank as bytes; none before the first step."""
    file = io.BytesIO()
    with suppress(DataError):  # before the first step
        torch.save(compression.state_dict(), file)
    return file.getvalue()


def state_of_bytes(data: bytes) -> dict[str, Any]:
    """Return the state in bytes of `state_bytes`, of a rank that has made a step."""
    state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    return state


def gather_states(compression: SavesState) -> list[dict[str, Any]]:
    """Return the states of all ranks on rank 0; none on the others, and before the first step. All ranks call it."""
    link = Link(compression.transport, "")
    own = torch.frombuffer(bytearray(state_bytes(compression) or b"\0"), dtype=torch.uint8).to(link.device)
    lengths = link.gather_lengths(len(own))
    outgoing = [own if rank in (0, link.rank) else own[:0] for rank in range(link.size)]
    incoming = lengths if link.rank == 0 else [len(own) if rank == link.rank else 0 for rank in range(link.size)]
    bodies = link.exchange(outgoing, incoming)
    if link.rank != 0 or min(lengths) == 1:
        return []
    return [state_of_bytes(each.cpu().numpy().tobytes()) for each in bodies]


def state_of_rank(compressor: Compressor, states: Sequence[SavedState], rank: int, ranks: int) -> SavedState:
    """Return the state of a rank from those of all ranks of a `DDPCompression`, which may have been more or fewer."""
    return states[rank] if len(states) == ranks else redistribute(compressor, states, ranks)[rank]
