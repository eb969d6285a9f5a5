"""The ranks that hold the other shards of a replica: they learn of an error at the end of a backward pass."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from bitlane.errors import DataError

from ..collectives.transport import RankFailed, TorchTransport, Transport


class ShardPeers:
    """The ranks of a shard mesh.

    A gradient may have NaN in the shard of a single rank. Its replicas raise; without a message the ranks of the other
    shards would continue, and wait for these in FSDP's next exchange.

    Parameters
    ----------
    mesh : DeviceMesh
        The ranks that the model is sharded over, of one dimension.
    timeout : float
        Seconds that a rank waits for another.
    """

    def __init__(self, mesh: DeviceMesh, timeout: float):
        self._transport: Transport = TorchTransport(mesh.get_group(), timeout)
        self.rank, self.size = self._transport.rank, self._transport.size

    def raise_on_all(self, error: BaseException | None) -> None:
        """Raise the error of this rank, or RankFailed if another rank has one. All ranks of the mesh call it."""
        own = torch.tensor([error is not None], dtype=torch.uint8, device=self._transport.device)
        try:
            flags = self._transport.exchange([own] * self.size, [1] * self.size)
        except Exception as failure:
            raise error or failure from None
        if error is not None:
            raise error
        failed = [rank for rank, flag in enumerate(flags) if int(flag)]
        if failed:
            raise RankFailed(f"shard {failed[0]} of this replica failed: see the error message of that rank")

    def close(self) -> None:
        """Free the connections."""
        self._transport.close()


def check_replicas(replicas: object, shards: DeviceMesh) -> None:
    """Raise DataError unless the mesh `replicas` has one dimension, and no two ranks of the mesh `shards`."""
    if not isinstance(replicas, DeviceMesh):
        raise DataError(f'replicas must be a DeviceMesh, such as mesh["replicate"]; got {type(replicas).__name__}')
    if replicas.ndim != 1:
        raise DataError(f'replicas must be a mesh of one dimension, such as mesh["replicate"]; got {replicas.ndim}')
    both = sorted(set(_ranks(replicas)) & set(_ranks(shards)))
    if len(both) != 1:
        raise DataError(
            f"ranks {both} are both replicas and shards: create a mesh of two dimensions (replicate, shard), shard "
            'with mesh["shard"], and attach with mesh["replicate"]'
        )


def _ranks(mesh: DeviceMesh) -> list[int]:
    ranks: list[int] = dist.get_process_group_ranks(mesh.get_group())
    return ranks
