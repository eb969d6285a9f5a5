"""Weight servers as actors of Ray, which starts them again when they die. Requests go to them by Arrow Flight."""

# Ray has no types here: its references and actors are Any.

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from bitlane import __version__
from bitlane.errors import BitlaneError
from bitlane.sparse.engines.access import Access
from bitlane.sparse.engines.actors import check_version
from bitlane.sparse.engines.addresses import error_of
from bitlane.sparse.engines.cluster import Cluster
from bitlane.sparse.servers.lanes import address_of
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.server import WeightService
from bitlane.sparse.serving.shards.source import RegistryShard
from bitlane.sparse.serving.shards.versions import HeldVersions

_ASK_SECONDS = 1.0  # between questions for the address of an actor
_FIRST_SECONDS = 120.0  # for all actors to start


class WeightActor:
    """Serves the weights of one shard.

    Parameters
    ----------
    uri : str
        Of the registry.
    shard, shards : int
    cache : str or None
        A local folder for copies of remote files.
    access : Access
    version : str
        Of the driver's bitlane.
    """

    def __init__(self, uri: str, shard: int, shards: int, cache: str | None, access: Access, version: str):
        check_version(version)
        partition = Partition(shards)
        load = RegistryShard(uri, shard, partition, None if cache is None else Path(cache))
        held, reach = HeldVersions(load), access.server
        service = access.serve(lambda host, port: WeightService(held, shard, partition, host, port, **reach))
        self._address = address_of(access.node, service.port)
        atexit.register(os._exit, 1)  # lanes that a front keeps open would hold up the end of the process

    def address(self) -> str:
        """Return where it listens."""
        return self._address


class RayServers:
    """The weight servers of a model as actors. A context manager; they end with the connection to Ray.

    Parameters
    ----------
    cluster : Cluster
    uri : str
        Of the registry.
    shards, replicas : int
    access : Access
    cache : Path, optional
        A folder for copies of remote files, on each node.

    Attributes
    ----------
    actors : list of lists of actors
        A `WeightActor` for each replica of each shard.
    """

    def __init__(
        self, cluster: Cluster, uri: str, shards: int, replicas: int, access: Access, cache: Path | None = None
    ):
        self._ray, share = cluster.ray, cluster.share(shards * replicas)
        folder = None if cache is None else str(cache)

        def made(shard: int) -> Any:
            return cluster.actor(WeightActor, share, uri, shard, shards, folder, access, __version__, restarts=-1)

        self.actors = [[made(shard) for _ in range(replicas)] for shard in range(shards)]
        self._addresses: list[list[str | None]] = [[None] * replicas for _ in range(shards)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="bitlane-actors", daemon=True)

    def find(self, shard: int, replica: int) -> str | None:
        """Return the address of a server as last reported, or None: it has not started."""
        return self._addresses[shard][replica]

    def __enter__(self) -> RayServers:
        """Wait until all actors serve.

        Raises
        ------
        BitlaneError
            One cannot, or not in time.
        """
        until = time.monotonic() + _FIRST_SECONDS
        for shard, actors in enumerate(self.actors):
            for replica, actor in enumerate(actors):
                try:
                    left = max(until - time.monotonic(), 0.0)
                    self._addresses[shard][replica] = self._ray.get(actor.address.remote(), timeout=left)
                except self._ray.exceptions.GetTimeoutError as error:
                    raise BitlaneError(
                        f"shard {shard} has not started on Ray in {_FIRST_SECONDS:g} s: look at the cluster's resources"
                    ) from error
                except self._ray.exceptions.RayError as error:
                    raise error_of(error, f"shard {shard}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for actor in (actor for actors in self.actors for actor in actors):
            self._ray.kill(actor)

    def _follow(self) -> None:
        """Ask each actor for its address again and again: one that Ray has started again has another one."""
        asked: dict[tuple[int, int], Any] = {}
        while not self._stop.wait(_ASK_SECONDS):
            for shard, actors in enumerate(self.actors):
                for replica, actor in enumerate(actors):
                    key = shard, replica
                    if key not in asked:
                        asked[key] = actor.address.remote()
                    if self._ray.wait([asked[key]], timeout=0)[0]:
                        self._addresses[shard][replica] = self._answer(asked.pop(key))

    def _answer(self, reference: Any) -> str | None:
        try:
            return str(self._ray.get(reference))
        except self._ray.exceptions.RayError:
            return None  # it died with the question
