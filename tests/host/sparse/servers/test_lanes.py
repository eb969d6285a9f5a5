"""What all services have in common: how many requests wait, and where a service listens."""

from __future__ import annotations

import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.lanes import LaneTraffic, RequestLimit, address_of, listen


def test_the_limit_counts_and_forgets() -> None:
    limit = RequestLimit(2)
    with limit.admitted(), limit.admitted(), pytest.raises(wire.ServerBusy, match="busy: 2 requests wait"):
        limit.admitted().__enter__()
    with limit.admitted():
        pass
    with pytest.raises(DataError, match="at least 1"):
        RequestLimit(0)


def test_the_limit_tells_how_many_wait() -> None:
    limit = RequestLimit(2)
    with limit.admitted():
        assert limit.count == 1
    assert limit.count == 0


def test_a_socket_is_bound_once() -> None:
    with listen("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(BitlaneError, match=rf"cannot listen on 127\.0\.0\.1:{port}: address already in use"):
            listen("127.0.0.1", port)


def test_addresses_of_the_sixth_version_have_brackets() -> None:
    assert (address_of("::1", 80), address_of("localhost", 80)) == ("[::1]:80", "localhost:80")


def test_traffic_is_counted_by_lane() -> None:
    traffic = LaneTraffic(("read", "step"))
    traffic.add("read", 10, 200)
    traffic.add("read", 1, 2)
    assert traffic.state() == {
        "read": {"requests": 2, "received": 11, "sent": 202},
        "step": {"requests": 0, "received": 0, "sent": 0},
    }
