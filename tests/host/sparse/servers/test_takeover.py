"""Who may update under a worker's name: the connection that came last, and it knows all that was applied before."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import StepClient, addresses_of, make_shards, payload, served

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import Connection, Identity
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),), track_age=True)
KEYS = np.arange(4, dtype=np.uint64)
ONES = np.ones((4, 1), np.float32)
FOREVER = float("inf")


def ask(connection: Connection, lane: str, batch, **request) -> int:
    connection.send(lane, batch, request)
    return connection.receive(lane)[1]["last"]


def test_a_new_client_waits_for_the_update_that_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would give its first update the same sequence, and the server would take it for a repetition."""
    begun, go, commit = threading.Event(), threading.Event(), ParameterShard._commit

    def slow(shard, update):
        if not begun.is_set():
            begun.set()
            assert go.wait(20)
        return commit(shard, update)

    with served(make_shards(tmp_path, SPEC, 1)) as services, StepClient(addresses_of(services)) as other:
        address = addresses_of(services)
        monkeypatch.setattr(ParameterShard, "_commit", slow)
        with StepClient(address, worker="w") as first:
            threads = [threading.Thread(target=first.send, args=(KEYS, ONES))]
            threads[0].start()
            assert begun.wait(20)

            def replace() -> None:
                with StepClient(address, worker="w") as second:
                    second.send(KEYS, ONES)

            threads.append(threading.Thread(target=replace))
            threads[1].start()
            threads[1].join(0.3)  # it would have said hello by now
            go.set()
            for each in threads:
                each.join()
            assert (other.weights(KEYS) == -2).all()
            with pytest.raises(DataError, match="another client is named worker 'w'"):
                first.send(KEYS, ONES)


def test_a_late_request_of_a_lost_connection_is_refused(tmp_path: Path) -> None:
    """A copy that comes late must not take the sequence of another update."""
    with served(make_shards(tmp_path, SPEC, 1)) as services, ExitStack() as stack:
        address = addresses_of(services)[0]
        names = Identity("w", "c"), Identity("w", "c"), Identity("v", "d")
        lost, again, other = (stack.enter_context(closing(Connection(address, each, True))) for each in names)
        step = wire.byte_batch(payload(KEYS, ONES))
        lost.hello(FOREVER)
        assert ask(lost, "step", step, sequence=1) == 1
        again._greetings = 1  # it is the same connection, made again
        assert again.hello(FOREVER)["last"] == 1
        other.hello(FOREVER)
        assert ask(other, "step", step, sequence=1) == 1
        with pytest.raises(BitlaneError, match="another client is named worker 'w'"):
            ask(lost, "step", step, sequence=2)
        assert ask(again, "step", step, sequence=2) == 2
        assert services[0]._shard.parameters.pull(KEYS).ravel().tolist() == [-3.0] * 4
