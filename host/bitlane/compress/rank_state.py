"""The state of a compression in `torch.distributed.checkpoint`, which takes tensors of one name for replicas."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import torch
import torch.distributed as dist

from bitlane.errors import DataError


class SavesState(Protocol):
    """A `DDPCompression`, `FSDPCompression` or `DiLoCo`."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank; raise DataError before the first step."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
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
        file = io.BytesIO()
        with suppress(DataError):  # before the first step
            torch.save(self.compression.state_dict(), file)
        return {self._name: file.getvalue()}

    def load_state_dict(self, state: Mapping[str, bytes]) -> None:
        """Restore what `state_dict` returned on this rank; errors as those of the compression."""
        if state[self._name]:
            self.compression.load_state_dict(torch.load(io.BytesIO(state[self._name]), weights_only=True))
