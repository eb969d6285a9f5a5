"""A weight server: bad requests, deadlines, versions that it holds and drops, tokens."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from tests.helpers.sparse_shards import FIRST_BAD, cluster, wait_until

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import Connection, Identity
from bitlane.sparse.servers.wire import RequestExpired, ServerBusy, ServerClosing, VersionMissing
from bitlane.sparse.serving.shards.messages import LANE, weights_of_answer

FAR = {"seconds": 20.0}


@pytest.fixture
def servers(seed):
    with cluster(seed, 1, 1, limit=2) as found:
        found.servers[0][0].versions.load(1)
        wait_until(lambda: found.servers[0][0].versions.state()["versions"] == [1])
        yield found


@pytest.fixture
def connection(servers):
    found = connected(servers)
    yield found
    found.close()


def connected(servers, token: str | None = None) -> Connection:
    found = Connection(servers.servers[0][0].address, Identity("front", "front", token), False)
    found.hello(time.monotonic() + 10)
    return found


def ask(connection: Connection, keys, **record):
    connection.send(LANE, wire.key_batch(keys), {"version": 1, **FAR, **record})
    return weights_of_answer(connection.receive(LANE)[0], len(keys), 2)


def test_answers_and_bad_requests_on_one_lane(servers, connection) -> None:
    keys = servers.keys
    for record, kind, message in (
        ({"version": 2}, VersionMissing, r"^server .*: version 2 is not loaded; loaded versions: 1$"),
        ({"version": None}, DataError, r"version must be a number; got None$"),
        ({"version": "1"}, DataError, r"got '1'$"),
        ({"seconds": True}, DataError, r"seconds must be a number; got True$"),
        ({"seconds": float("nan")}, DataError, r"got nan$"),
        ({"seconds": 0}, RequestExpired, r"the deadline of the request has passed$"),
        ({"seconds": -1}, RequestExpired, r"has passed$"),
    ):
        with pytest.raises(kind, match=message):
            ask(connection, keys, **record)
        weights, found = ask(connection, keys)
        assert weights.tobytes() == servers.weights(1, keys).tobytes() and found.all()
    assert ask(connection, keys[:0])[0].shape == (0, 2)


def test_other_columns_are_refused(servers, connection) -> None:
    connection.send(LANE, wire.byte_batch(np.ones(3, np.uint8)), {"version": 1, **FAR})
    with pytest.raises(DataError, match=r"a request for weights has the column key: uint64; got byte: uint8$"):
        connection.receive(LANE)


def test_work_whose_deadline_is_over_is_not_done(servers) -> None:
    """As many requests as there are cores hold the others up until their time is over."""
    server = servers.servers[0][0]
    server.service._running = threading.BoundedSemaphore(1)
    server.gate.clear()
    first, second = connected(servers), connected(servers)
    first.send(LANE, wire.key_batch(servers.keys), {"version": 1, **FAR})
    wait_until(lambda: server.lookups == 2)  # one of them when the version was loaded
    begin = time.monotonic()
    with pytest.raises(RequestExpired):
        ask(second, servers.keys, seconds=0.1)
    assert 0.1 <= time.monotonic() - begin < 1 and server.lookups == 2
    server.gate.set()
    assert first.receive(LANE)[0] is not None
    for each in (first, second):
        each.close()


def test_more_requests_than_its_limit_are_refused_at_once(servers) -> None:
    server = servers.servers[0][0]
    server.gate.clear()
    connections = [connected(servers) for _ in range(3)]
    for each in connections[:2]:
        each.send(LANE, wire.key_batch(servers.keys), {"version": 1, **FAR})
    wait_until(lambda: server.service._limit.count == 2)
    with pytest.raises(ServerBusy, match="busy: 2 requests wait"):
        ask(connections[2], servers.keys)
    server.gate.set()
    for each in connections[:2]:
        assert each.receive(LANE)[0] is not None
    ask(connections[2], servers.keys)
    server.service.refuse()
    with pytest.raises(ServerClosing):
        ask(connections[2], servers.keys)
    for each in connections:
        each.close()


def test_it_holds_two_versions_and_those_in_use(servers, connection) -> None:
    """A new version drops the one that was unused for longest; a failed load is shown, and tried again."""

    def load(version: int) -> dict:
        connection.action("load", {"version": version}, time.monotonic() + 10)
        wait_until(lambda: not state()["loading"])
        return state()

    def state(**request) -> dict:
        return connection.action("status", request, time.monotonic() + 10)

    assert load(2)["versions"] == [1, 2]
    ask(connection, servers.keys)  # by version 1
    assert load(3)["versions"] == [1, 3]
    state(using=[1])
    assert load(4)["versions"] == [1, 4]
    assert load(4)["versions"] == [1, 4]
    found = load(FIRST_BAD)
    assert found["versions"] == [1, 4] and found["failed"] == {str(FIRST_BAD): f"version {FIRST_BAD} is damaged"}
    load(FIRST_BAD + 1)
    found = load(FIRST_BAD + 2)
    assert sorted(found["failed"]) == [str(FIRST_BAD + 1), str(FIRST_BAD + 2)]
    assert found["bytes"] > 0 and found["shard"] == 0 and found["traffic"][LANE]["requests"] == 1


def test_versions_that_are_asked_for_meanwhile_are_loaded_one_after_the_other(servers, connection) -> None:
    """Two of them wait; more take the place of the first."""
    server = servers.servers[0][0]
    server.loading.clear()
    for version in (2, 3, 4, 5, 4):
        connection.action("load", {"version": version}, time.monotonic() + 10)
    assert server.versions.state()["loading"] == [2, 4, 5]
    ask(connection, servers.keys)
    server.loading.set()
    wait_until(lambda: server.versions.state()["versions"] == [4, 5])
    assert server.loaded == [1, 2, 4, 5]


def test_a_token_is_needed(seed) -> None:
    with cluster(seed, 1, 1, token="right") as servers:
        connected(servers, "right").close()
        for token in (None, "wrong"):
            with pytest.raises(BitlaneError, match="token"):
                connected(servers, token)
