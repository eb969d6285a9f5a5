"""Publishing a model that lies on servers: each writes its own files, at once; the manifest comes last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.manifest import Description, Manifest
from bitlane.sparse.registry.publisher import LONGEST_CHAIN, Metrics, Sampled, with_sample
from bitlane.sparse.registry.registry import Draft, ModelRegistry
from bitlane.sparse.registry.writing import Written, chain_above, write_version
from bitlane.sparse.servers.group import ServerGroup
from bitlane.sparse.servers.publishing import publishing_request
from bitlane.sparse.servers.shard_files import is_of_shard
from bitlane.support.stores import StoredFile

SECONDS = 600.0  # that servers may take to write a version


class ServerPublisher:
    """Publishes the model of several servers: at first a base, then what has changed since its last version.

    Each server cuts its shard between two updates. If publishing fails, the next version has the changes too; a server
    that was started again compares its rows with the files of the last version.

    Parameters
    ----------
    registry : ModelRegistry
        It must have the same address on all servers.
    connect : callable
        Connects to the servers as they are now.
    spec : ModelSpec
    data : dict, optional
        Of `Description`.
    rows_seen : callable
        Returns the rows that were learned.
    longest_chain : int, default=50
        Deltas of a base, before the next base is written.
    sampled : callable, optional
        As of `Publisher`.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        connect: Callable[[], ServerGroup],
        spec: ModelSpec,
        data: Mapping[str, Any] | None = None,
        *,
        rows_seen: Callable[[], int] = lambda: 0,
        longest_chain: int = LONGEST_CHAIN,
        sampled: Sampled = lambda: None,
    ):
        self.registry = registry
        self._connect = connect
        self._spec = spec
        self._data, self._sampled = data or {}, sampled
        self._rows_seen, self._longest = rows_seen, longest_chain
        self._last: int | None = None

    @property
    def rows_seen(self) -> int:
        """Rows that the model has learned."""
        return self._rows_seen()

    def publish(self, metrics: Metrics | None = None) -> Manifest:
        """Publish the model as it is now, and return the manifest; `metrics` are for the manifest.

        Raises
        ------
        BitlaneError
            A server cannot be reached, or cannot write. No version is there then.
        """
        chain = chain_above(self.registry, self._last, self._longest)
        data = with_sample(self._data, self._sampled())
        description = Description(self._spec, data, self.rows_seen, dict(metrics or {}))
        with self._connect() as group:
            shards = group.spec.partition

            def write(draft: Draft) -> list[Written]:
                name, before = self._name(draft.version), self._name(self._last) if chain else None
                requests = []
                for shard in range(shards.servers):
                    files = [
                        (self.registry.folder(each.version), {f.name: f for f in each.files if is_of_shard(f, shard)})
                        for each in chain
                    ]
                    requests.append(publishing_request(draft.folder, name, before, files))
                answers = group.publish(requests, SECONDS)
                return [Written([StoredFile(**file) for file in each["files"]], each["total"]) for each in answers]

            manifest = write_version(self.registry, description, shards, chain, write)
        self._last = manifest.version
        return manifest

    def _name(self, version: int | None) -> str:
        """Return the name of a version for servers, which may be asked for several registries."""
        return f"{self.registry.uri} {version}"
