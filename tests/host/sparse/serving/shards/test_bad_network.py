"""Connections that are delayed, split and cut: answers are right, or partial with the flag, and whole afterwards."""

from __future__ import annotations

import contextlib

import pytest
from tests.helpers.bad_network import Faults, bad_network
from tests.helpers.sparse_shards import SECONDS, cluster, expect_partial, wait_until

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front

FAULTS = Faults(delay=0.1, split=0.2, cut=0.04)


def test_cut_connections(seed):
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(cluster(seed, 2))
        ports = [[server.service.port for server in shard] for shard in servers.servers]
        nets = [
            [stack.enter_context(bad_network(port, seed + port, Faults(0, 0, 0))) for port in shard] for shard in ports
        ]
        front = Front(lambda shard, replica: nets[shard][replica].address, 2, 2, FrontOptions(deadline=2))
        stack.callback(front.close)
        front.load(1, SECONDS)
        networks = [network for shard in nets for network in shard]
        for network in networks:
            network.faults = FAULTS
        table, whole = front.table(1, servers.values), [0]

        def ask() -> bool:
            found = table.lookup_partial(servers.keys)
            expect_partial(found, servers, servers.keys, set(found.missing))
            whole[0] += not found.missing
            return whole[0] >= 60 and sum(network.cuts.total() for network in networks) > 10

        wait_until(ask)
        for network in networks:
            network.faults = Faults(0, 0, 0)
        wait_until(lambda: all(each.has(1) for shard in front.replicas for each in shard))
        wait_until(lambda: not table.lookup_partial(servers.keys).missing)


def test_a_network_that_falls_silent(seed):
    """Its replica is left out after a few requests, which another one answers; it comes back with the network."""
    with cluster(seed, 1) as servers, contextlib.ExitStack() as stack:
        network = stack.enter_context(bad_network(servers.servers[0][0].service.port, seed, Faults(0, 0, 0)))

        def find(shard: int, replica: int) -> str | None:
            return servers.find(shard, replica) if replica else network.address

        front = Front(find, 1, 2, FrontOptions(deadline=0.3))
        stack.callback(front.close)
        stack.callback(network.speak)
        front.load(1, SECONDS)
        wait_until(lambda: all(each.has(1) for each in front.replicas[0]))
        table = front.table(1, servers.values)
        for _ in range(40):
            table.lookup(servers.keys)
        network.silence()
        for _ in range(20):
            found = table.lookup_partial(servers.keys)
            expect_partial(found, servers, servers.keys, set())
        wait_until(lambda: table.lookup(servers.keys) and not front.replicas[0][0].health.is_well)
        network.speak()
        wait_until(lambda: front.replicas[0][0].has(1))
