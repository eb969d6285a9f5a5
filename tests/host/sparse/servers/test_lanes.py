"""What all services have in common: how many requests wait, and where a service listens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.hosts import missing
from tests.helpers.places import ROOT

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import lanes, wire
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


def test_loopback_is_that_of_the_other_family_where_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def check_port(host: str, port: int) -> None:
        if host in refused:
            raise BitlaneError(f"no {host}")

    monkeypatch.setattr(lanes, "check_port", check_port)
    assert lanes.loopback() == "127.0.0.1"
    refused.append("127.0.0.1")
    assert lanes.loopback() == "::1"
    refused.append("::1")
    with pytest.raises(BitlaneError, match="no ::1"):
        lanes.loopback()


ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip address del 127.0.0.1/8 dev lo && exec "$@"', "sh"]
UPDATE = """
import os, sys
from pathlib import Path
import numpy as np
from tests.helpers.sparse_servers import StepClient, make_shards, served
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.lanes import address_of, loopback
from bitlane.sparse.servers.spec import ShardSpec

keys, spec = np.arange(9, dtype=np.uint64), ShardSpec((ParameterBlock(1, SGD(0.25)),))
with served(make_shards(Path(sys.argv[1]), spec, 2), host=loopback()) as services:
    with StepClient([address_of(loopback(), each.port) for each in services], deadline=60) as client:
        client.send(keys, np.ones((9, 1), np.float32))
        print(loopback(), client.weights(keys).sum(), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_servers_and_workers_meet_where_there_is_only_ipv6(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ALONE, sys.executable, "-c", UPDATE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "::1 -2.25\n", done.stderr
