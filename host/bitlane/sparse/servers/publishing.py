"""The files of one shard in a version of its model, written where the registry is."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.servers.cuts import ShardCuts
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.shard_files import merged, read_change, write_cut
from bitlane.sparse.tables.frozen import FrozenTable
from bitlane.support.stores import Store, StoredFile

Record = dict[str, Any]


class ShardPublisher:
    """Publishes a shard that is served.

    Parameters
    ----------
    shard : ParameterShard
    """

    def __init__(self, shard: ParameterShard):
        self._shard, self._lock = shard, threading.Lock()
        self._cuts = ShardCuts(shard.parameters, shard.matrices, shard.paused)

    def publish(self, request: Record) -> Record:
        """Cut the shard between two updates, and write its files; learning continues meanwhile.

        Parameters
        ----------
        request : dict
            See `publishing_request`.

        Returns
        -------
        dict
            ``files``, each a `StoredFile`, and ``total``: the keys of the shard.

        Raises
        ------
        DataError
            The request is wrong, or a file of the parent is missing or damaged.
        BitlaneError
            A file cannot be written.
        """
        try:
            folder, version, parent = _folder(request), str(request["version"]), request["parent"]
            chain = [(_folder(each), [StoredFile(**file) for file in each["files"]]) for each in request["chain"]]
        except (KeyError, TypeError) as error:
            raise DataError(f"not a request to publish: {error}") from error
        server = self._shard.spec.server
        with self._lock:
            cut = self._cuts.take(version, parent, read_parent=lambda: _read(server, chain))
            files = write_cut(folder, server, cut)
        return {"files": [asdict(file) for file in files], "total": cut.total}


def publishing_request(
    folder: Store, version: str, parent: str | None, chain: Sequence[tuple[Store, Mapping[str, StoredFile]]]
) -> Record:
    """Return the request to publish a shard.

    Parameters
    ----------
    folder : Store
        Of the version.
    version, parent : str
        Names of the version, and of the one whose changes are wanted; None for a base. See `ShardCuts.take`.
    chain : sequence of (Store, dict of StoredFile)
        Folder and files of each version from the parent's base on: what a server reads that has lost its log.
    """
    before = [{**_address(each), "files": [asdict(file) for file in files.values()]} for each, files in chain]
    return {**_address(folder), "version": version, "parent": parent, "chain": before}


def _address(folder: Store) -> Record:
    return {"registry": folder.address, "folder": folder.below}


def _folder(record: Record) -> Store:
    return Store(record["registry"], below=str(record["folder"]))


def _read(server: int, chain: Sequence[tuple[Store, list[StoredFile]]]) -> FrozenTable:
    changes = [read_change(folder, server, {file.name: file for file in files}) for folder, files in chain]
    return merged(changes)
