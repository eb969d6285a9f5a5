"""What the process of a server does beside answering: compiled loops before the first request, and a short log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

CHECKPOINT_BYTES = 1 << 30
_POLL_SECONDS = 0.5  # how soon a long log, or the end, is seen


def warm_up(spec: ShardSpec) -> None:
    """Load or compile the loops before the first request needs them."""
    parameters, keys = spec.parameters(), np.arange(2, dtype=np.uint64)
    parameters.weights_of(parameters.peek(keys))
    parameters.push(keys, np.zeros((2, parameters.layout.values), np.float32), create=True)


def keep_log_short(
    shard: ParameterShard, stop: threading.Event, checkpoint_bytes: int, ended: Callable[[], bool] = lambda: False
) -> None:
    """Write a checkpoint whenever the log has more than so many bytes.

    Ends when `stop` is set, `ended` returns True, or the shard has stopped, as when another server takes it over; then
    half a second later, in which waiting requests get the reason.

    A checkpoint that fails is reported on the standard error, and tried again when the log has grown as much.
    """
    limit = checkpoint_bytes
    while not stop.wait(_POLL_SECONDS):
        if ended():
            return
        shard.notice_successor()
        if shard.stopped:
            stop.wait(_POLL_SECONDS)
            return
        if shard.log_bytes > limit:
            limit = _checkpoint(shard, checkpoint_bytes)


def _checkpoint(shard: ParameterShard, log_bytes: int) -> int:
    """Write a checkpoint; return the bytes of the log at which the next one is due."""
    try:
        shard.checkpoint()
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return shard.log_bytes + log_bytes
    return log_bytes
