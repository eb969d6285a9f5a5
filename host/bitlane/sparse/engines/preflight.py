"""A check of all nodes of a cluster before a training: an error names the node and what it lacks."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bitlane import __version__
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.source import Source, Stream
from bitlane.sparse.engines.access import Access
from bitlane.sparse.engines.addresses import error_of
from bitlane.sparse.engines.cluster import Cluster
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import Connection, Identity
from bitlane.sparse.servers.lanes import LaneService, address_of

_SECONDS = 120.0  # for a process to start on each node, and look
_REACH_SECONDS = 5.0  # for one node to reach another

Read = Callable[[], object]  # reads on a node what the training or the service will read


class _Probe(LaneService):
    """A server that only says hello."""

    def _hello(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"protocol": wire.PROTOCOL}


class NodeCheck:
    """An actor that looks at its node.

    Parameters
    ----------
    access : Access
    """

    def __init__(self, access: Access):
        self._access = access
        self._probe: _Probe | None = None

    def look(self, version: str, folder: str | None, mark: str, read: Read) -> str:
        """Return where a server listens on this node, for `reach`.

        Parameters
        ----------
        version : str
            Of the driver's bitlane.
        folder : str or None
            Of the run; it has a file named `mark`.
        mark : str
        read : callable

        Raises
        ------
        BitlaneError
            What the node lacks.
        """
        if version != __version__:
            raise BitlaneError(f"it has bitlane {__version__}, the driver {version}: install the same version")
        if folder is not None:
            _check_folder(Path(folder), mark)
        read()
        reach, _ = self._access.server, self._access.client
        self._probe = self._access.serve(lambda host, port: _Probe(host, port, (), ("hello",), **reach))
        return address_of(self._access.node, self._probe.port)

    def reach(self, addresses: Sequence[str]) -> None:
        """Connect to a server on each node.

        Raises
        ------
        BitlaneError
            One cannot be reached, or its certificate does not fit.
        """
        reach(addresses, self._access)

    def leave(self) -> None:
        """End the server of this node."""
        if self._probe is not None:
            self._probe.shutdown()


def check_nodes(cluster: Cluster, access: Access, folder: Path | None, read: Read) -> None:
    """Check each node of a cluster; do nothing if Ray runs on this machine alone.

    The node has the driver's version of bitlane, the run folder and its files, what it will read, the TLS files and the
    token, and a free port; all nodes and the driver reach it there, and its certificate has its address.

    Parameters
    ----------
    cluster : Cluster
    access : Access
    folder : Path or None
        Of a training.
    read : callable
        Without arguments; it is sent to each node, and reads there what the training or the service will read.

    Raises
    ------
    BitlaneError
        One line: each node with its first problem.
    """
    if cluster.local:
        return
    nodes, mark = _nodes(cluster), f".nodes-{secrets.token_hex(8)}"
    actors = {name: _actor(cluster, node, access) for name, node in nodes.items()}
    try:
        with contextlib.ExitStack() as stack:
            if folder is not None:
                stack.callback(_remove_marks, folder, mark)
                (folder / mark).touch()
            place = None if folder is None else str(folder.resolve())
            looks = {name: each.look.remote(__version__, place, mark, read) for name, each in actors.items()}
            addresses = list(_answers(cluster, looks).values())
        _answers(cluster, {name: each.reach.remote(addresses) for name, each in actors.items()})
        reach(addresses, access)  # from this process
        _answers(cluster, {name: each.leave.remote() for name, each in actors.items()})
    finally:
        for each in actors.values():
            cluster.ray.kill(each)


def read_rows(open_source: Callable[[int, Mapping[str, Any]], Source]) -> None:
    """Read the first rows of the first worker's share; a stream may have none yet."""
    source = open_source(0, {})
    if not isinstance(source, Stream):
        with contextlib.closing(source.batches(0)) as batches:
            next(batches, None)


def reach(addresses: Sequence[str], access: Access) -> None:
    """Connect to servers; errors as of `Connection.hello`."""
    for address in addresses:
        connection = Connection(address, Identity("check", "check", **access.client), False)
        try:
            connection.hello(time.monotonic() + _REACH_SECONDS)
        finally:
            connection.close()


def _nodes(cluster: Cluster) -> dict[str, str]:
    """Return the identity of each node that runs actors, by its name for people."""
    return {
        f"node {each['NodeManagerAddress']} ({each['NodeManagerHostname']})": each["NodeID"]
        for each in cluster.ray.nodes()
        if each["Alive"] and each["Resources"].get("CPU", 0) > 0
    }


def _actor(cluster: Cluster, node: str, access: Access) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return cluster.ray.remote(NodeCheck).options(num_cpus=0, scheduling_strategy=where).remote(access)


def _answers(cluster: Cluster, questions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of all nodes, by name.

    Raises
    ------
    BitlaneError
        Some nodes have none.
    """
    ray, until = cluster.ray, time.monotonic() + _SECONDS
    answers: dict[str, Any] = {}
    problems: list[str] = []
    for name, question in questions.items():
        try:
            answers[name] = ray.get(question, timeout=max(until - time.monotonic(), 0.0))
        except ray.exceptions.GetTimeoutError:
            problems.append(f"{name} has not answered in {_SECONDS:g} s")
        except ray.exceptions.RayError as error:
            reason = str(error_of(error, "it fails"))
            problems.append(f"{name}: {reason.removeprefix(f'node {name.split()[1]}: ')}")
    if problems:
        raise BitlaneError("; ".join(problems))
    return answers


def _check_folder(folder: Path, mark: str) -> None:
    """Raise BitlaneError unless the folder is the driver's, and can be written."""
    shared = "the run folder must be on a file system that all nodes share"
    if not (folder / mark).exists():
        reason = "is another folder than the driver's" if folder.is_dir() else "is missing"
        raise BitlaneError(f"{folder} {reason}: {shared}")
    try:
        (folder / f"{mark}-{os.uname().nodename}-{os.getpid()}").touch()
    except OSError as error:
        raise BitlaneError(f"{folder} cannot be written: {error.strerror}: {shared}, for this user") from error


def _remove_marks(folder: Path, mark: str) -> None:
    for path in folder.glob(f"{mark}*"):
        path.unlink(missing_ok=True)
