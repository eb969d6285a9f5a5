"""Where the weight servers of a model run, and the registry whose versions they load."""

from __future__ import annotations

import contextlib
import functools
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.local import LocalServers
from bitlane.sparse.serving.shards.source import ShardedRegistry

if TYPE_CHECKING:
    from bitlane.sparse.engines.access import Access


@dataclass(frozen=True)
class RayAddress:
    """Weight servers as actors of Ray.

    Attributes
    ----------
    address : str or None
        ``host:port`` of a cluster. None: Ray on this machine alone.
    tls : dict
        The PEM files ``tls_certificate``, ``tls_key`` and ``tls_ca``, for a cluster.
    token_file : Path, optional
        With the token of the weight servers, on each node of a cluster. Default: a random token.
    ports : (int, int), optional
        The first and the last port that servers may use. Default: any free one.
    """

    address: str | None = None
    tls: Mapping[str, Path | None] = field(default_factory=dict)
    token_file: Path | None = None
    ports: tuple[int, int] | None = None


@dataclass(frozen=True)
class Placement:
    """The weight servers of a model.

    Attributes
    ----------
    uri : str
        Of the registry.
    shards, replicas : int
    cache : Path, optional
        A local folder for copies of remote files.
    ray : RayAddress, optional
        Default: processes of this machine, which this process starts.

    Raises
    ------
    DataError
    """

    uri: str
    shards: int
    replicas: int = 1
    cache: Path | None = None
    ray: RayAddress | None = None

    def __post_init__(self) -> None:
        if "://" not in self.uri:  # actors of Ray run in other folders
            object.__setattr__(self, "uri", str(Path(self.uri).expanduser().absolute()))
        Partition(self.shards)
        if self.replicas < 1:
            raise DataError(f"replicas must be at least 1; got {self.replicas}")


@contextlib.contextmanager
def sharded(placement: Placement, options: FrontOptions | None = None) -> Iterator[ShardedRegistry]:
    """Start the weight servers of a model, and return its registry, whose versions they load; end them behind it.

    Raises
    ------
    BitlaneError
        The registry or Ray cannot be used.
    """
    with contextlib.ExitStack() as stack:
        reach: dict[str, Any]
        if placement.ray is None:
            reach = {"token": secrets.token_hex(16)}
            servers: Any = LocalServers(
                placement.uri, placement.shards, placement.replicas, reach["token"], placement.cache
            )
        else:
            from bitlane.sparse.engines.cluster import cluster
            from bitlane.sparse.engines.preflight import check_nodes
            from bitlane.sparse.serving.shards.ray_actors import RayServers

            access = _access(placement.ray, stack)
            reach = access.client
            ray = stack.enter_context(cluster(placement.ray.address))
            check_nodes(ray, access, None, functools.partial(_read_registry, placement.uri))
            servers = RayServers(ray, placement.uri, placement.shards, placement.replicas, access, placement.cache)
        stack.enter_context(servers)
        front = Front(servers.find, placement.shards, placement.replicas, options, **reach)
        stack.callback(front.close)
        yield ShardedRegistry(placement.uri, front)


def _read_registry(uri: str) -> None:
    """Raise BitlaneError unless this node finds versions in the registry."""
    if not ModelRegistry(uri).numbers():
        raise BitlaneError(f"{uri} has no version here: each node must reach the registry")


def _access(ray: RayAddress, stack: contextlib.ExitStack) -> Access:
    """Return the access to weight servers on Ray."""
    from bitlane.sparse.engines.access import new_access, write_token

    token_file = ray.token_file
    if token_file is None:
        if ray.address is not None:
            raise DataError("weight servers of a cluster need a token that each node has: add --shards-token-file")
        token_file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "token"
        write_token(token_file)
    return new_access(ray.tls, ray.address is None, token_file, ray.ports)
