"""Where the servers of a training listen now, asked of their actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitlane.errors import BitlaneError
from bitlane.sparse.engines.cluster import first_line
from bitlane.sparse.servers.connection import ConnectionLost
from bitlane.support.optional import require_extra

_ASK_SECONDS = 5.0


class ServerAddresses:
    """Finds the address of a server: call it with the number of the server.

    Ray answers late while a node cannot be reached or a server reads its log. The last known address is returned then,
    and the question stays open for the next call.

    Parameters
    ----------
    shards : sequence of actors
        The `ShardActor` of each server, in their order.
    """

    def __init__(self, shards: Sequence[Any]):
        self._shards = shards
        self._asked: dict[int, Any] = {}
        self._known: dict[int, str] = {}

    def __call__(self, server: int) -> str:
        """Return ``host:port``.

        Raises
        ------
        ConnectionLost
            The server does not run; it may restart.
        BitlaneError
            It cannot serve its shard.
        """
        ray = require_extra("ray", "a worker", "'bitlane[ray]'")
        question = self._asked.pop(server, None) or self._shards[server].report.remote()
        try:
            self._known[server] = str(ray.get(question, timeout=_ASK_SECONDS)["address"])
        except ray.exceptions.GetTimeoutError as error:
            self._asked[server] = question
            if server not in self._known:
                raise ConnectionLost(f"server {server} has not started yet") from error
        except ray.exceptions.ActorUnavailableError as error:
            raise ConnectionLost(f"server {server} cannot be reached") from error
        except ray.exceptions.RayError as error:
            raise error_of(error, f"server {server}") from error
        return self._known[server]


def error_of(error: BaseException, who: str) -> BitlaneError:
    """Return an error of an actor as ours: what it raised, or one line."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, BitlaneError):
        return type(cause)(str(cause))
    return BitlaneError(f"{who}: {type(cause).__name__}: {first_line(cause)}")
