"""Which server has which key: keys belong to virtual shards, and virtual shards to servers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.tables import mixing
from bitlane.sparse.tables.mixing import word_of

VIRTUAL_SHARDS = 256
_LARGEST = 1 << 16

Keys = NDArray[np.uint64]


@kernel(mixing)
def _owners(keys: Keys, server_of: NDArray[np.int64], owners: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Write the server of each key to `owners` and count the keys of each server."""
    mask = np.uint64(len(server_of) - 1)
    for i in range(len(keys)):
        owners[i] = server_of[word_of(keys[i]) & mask]
        counts[owners[i]] += 1


@kernel()
def _group(owners: NDArray[np.int64], starts: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
    """Write the indices of each server's keys, in their order, from ``starts[server]`` on; `starts` moves on."""
    for i in range(len(owners)):
        indices[starts[owners[i]]] = i
        starts[owners[i]] += 1


@dataclass(frozen=True)
class Partition:
    """Keys spread over servers.

    The virtual shard of a key is given by the **low** bits of its word (`bitlane.sparse.tables.mixing`). The high bits
    are the key's home in a server's table, so that partition by them would leave most of each table empty and the rest
    overfull. Each server has consecutive virtual shards; their numbers differ by one at most.

    Parameters
    ----------
    servers : int
    virtual_shards : int, default=256
        A power of two, at most 65,536. Fixed for the life of a model; servers may come and go.

    Raises
    ------
    DataError
    """

    servers: int
    virtual_shards: int = VIRTUAL_SHARDS

    def __post_init__(self) -> None:
        shards = self.virtual_shards
        if not 1 <= shards <= _LARGEST or shards & (shards - 1):
            raise DataError(f"virtual_shards must be a power of two, at most {_LARGEST:,}; got {shards}")
        if not 1 <= self.servers <= shards:
            raise DataError(f"servers must be 1 to {shards}, the number of virtual shards; got {self.servers}")

    def shards_of(self, server: int) -> range:
        """Return the virtual shards of a server."""
        return range(self.virtual_shards * server // self.servers, self.virtual_shards * (server + 1) // self.servers)

    def server_of(self) -> NDArray[np.int64]:
        """Return the server of each virtual shard, int64 [virtual_shards]."""
        return np.repeat(np.arange(self.servers), [len(self.shards_of(server)) for server in range(self.servers)])

    def owners(self, keys: Keys) -> NDArray[np.int64]:
        """Return the server of each key, int64 [n]."""
        return self._owners(keys)[0]

    def owner_of_name(self, name: str) -> int:
        """Return the server that has the matrix of this name."""
        return int(self.owners(np.array([zlib.crc32(name.encode())], np.uint64))[0])

    def split(self, keys: Keys) -> tuple[NDArray[np.int64], list[int]]:
        """Group keys by server.

        Parameters
        ----------
        keys : uint64 [n]

        Returns
        -------
        indices : int64 [n]
            Indices of the keys of server 0, then of server 1, and so on; each in their order. With the answers for
            ``keys[indices]`` side by side, ``out[indices] = answers`` puts them back in order.
        bounds : list of int [servers + 1]
            Server s has ``indices[bounds[s]:bounds[s + 1]]``.
        """
        owners, counts = self._owners(keys)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(len(keys), np.int64)
        _group(owners, bounds[:-1].copy(), indices)
        return indices, bounds.tolist()

    def _owners(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        owners, counts = np.empty(len(keys), np.int64), np.zeros(self.servers, np.int64)
        _owners(np.require(keys, np.uint64, ("C", "ALIGNED", "WRITEABLE")), self.server_of(), owners, counts)
        return owners, counts
