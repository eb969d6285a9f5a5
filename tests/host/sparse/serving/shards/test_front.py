"""Lookups in shards with replicas that are slow, busy, dead or come back, against dicts; swaps that mix nothing."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from tests.helpers.sparse_shards import FIRST_BAD, SECONDS, ask, cluster, expect_partial, front_of, wait_until

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front, ShardsMissing


def test_weights_are_those_of_the_rows(seed):
    """Known and unknown keys, some twice, and none; one weight a key and more; one shard and several."""
    draw = np.random.default_rng(seed)
    for shards, values in ((1, 1), (3, 4)):
        with cluster(seed, shards, values=values) as servers, front_of(servers) as front:
            table = front.table(1, values)
            for size in (0, 1, 700):
                keys = np.where(
                    draw.random(size) < 0.7, draw.choice(servers.keys, size), draw.integers(0, 2**64, size, np.uint64)
                ).astype(np.uint64)
                weights, found = table.lookup(keys)
                assert weights.dtype == np.float32 and found.dtype == np.bool_
                assert weights.tobytes() == servers.weights(1, keys).tobytes()
                assert np.array_equal(found, np.isin(keys, servers.keys))


def test_a_replica_dies_and_another_one_answers(seed):
    with cluster(seed) as servers, front_of(servers) as front:
        wait_until(lambda: all(each.has(1) for shard in front.replicas for each in shard))
        for _ in range(10):
            expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        servers.servers[1][0].stop()
        for _ in range(10):
            expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        wait_until(lambda: front.state()["replicas"][2]["problem"])


def test_a_shard_without_replicas_is_missing_until_it_comes_back(seed):
    """It comes back at another port with nothing in memory, and loads the version again."""
    with cluster(seed) as servers, front_of(servers, FrontOptions(deadline=5)) as front:
        for server in servers.servers[2]:
            server.stop()
        begin = time.monotonic()
        found = ask(front, servers, servers.keys)
        expect_partial(found, servers, servers.keys, {2})
        wait_until(lambda: all("is not running" in (each.health.problem or "") for each in front.replicas[2]))
        begin = time.monotonic()
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, {2})
        assert time.monotonic() - begin < 1, "the deadline was waited for"
        with pytest.raises(ShardsMissing, match=r"^shard 2 did not answer: a replica of shard 2 is not running$"):
            front.table(1, servers.values).lookup(servers.keys)
        rest = servers.keys[servers.partition.owners(servers.keys) != 2]
        front.table(1, servers.values).lookup(rest)
        servers.servers[2][1].start()
        wait_until(lambda: front.replicas[2][1].has(1))
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())


def test_the_deadline_holds_and_its_shard_is_missing(seed):
    with cluster(seed, replicas=1) as servers, front_of(servers, FrontOptions(deadline=0.3)) as front:
        for _ in range(3):
            ask(front, servers, servers.keys)
        servers.servers[0][0].gate.clear()
        begin = time.monotonic()
        found = ask(front, servers, servers.keys)
        seconds = time.monotonic() - begin
        expect_partial(found, servers, servers.keys, {0})
        assert 0.3 <= seconds < 0.6 and found.missing[0] == "no answer in 0.3 s"
        servers.servers[0][0].gate.set()
        wait_until(lambda: not ask(front, servers, servers.keys).missing)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_second_replica_is_asked_after_the_quantile(seed, slow):
    """The replica that seems quickest is chosen first; when it waits for ever, the other one answers."""
    with cluster(seed, 1) as servers, front_of(servers) as front:
        wait_until(lambda: all(each.has(1) for each in front.replicas[0]))
        for _ in range(64):
            ask(front, servers, servers.keys[:50])
        servers.servers[0][slow].gate.clear()
        front.replicas[0][slow].health.seconds = 0.0
        extra, asked = front.state()["extra"], front.replicas[0][slow].health.asked
        begin = time.monotonic()
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        assert time.monotonic() - begin < SECONDS / 4
        assert front.state()["extra"] == extra + 1 and front.replicas[0][slow].health.asked == asked + 1


@pytest.mark.parametrize("extra", [0.0, 0.1])
def test_extra_requests_are_within_their_budget(seed, extra):
    """Answers that take longer and longer: each is above the quantile of those before."""
    with cluster(seed, 1, count=20) as servers:
        with front_of(servers, FrontOptions(deadline=SECONDS, extra=extra)) as front:
            wait_until(lambda: all(each.has(1) for each in front.replicas[0]))
            for count in range(150):
                for server in servers.all():
                    server.delay = 0.0001 * count
                ask(front, servers, servers.keys)
            state = front.state()
        assert state["requests"] == 150
        assert state["extra"] <= extra * 150 + 8 and (state["extra"] > 0) == (extra > 0)


def test_a_slow_replica_is_asked_less_and_comes_back(seed):
    with cluster(seed, 1, count=20) as servers, front_of(servers) as front:
        wait_until(lambda: all(each.has(1) for each in front.replicas[0]))
        slow = servers.servers[0][0]
        slow.delay = 0.1  # far above what a busy machine adds to the others
        for _ in range(100):
            ask(front, servers, servers.keys)
        before = slow.lookups
        for _ in range(100):
            ask(front, servers, servers.keys)
        assert slow.lookups - before <= 15
        slow.delay, before = 0.0, slow.lookups
        for replica in front.replicas[0]:
            replica.health._last -= 60  # a minute later
        wait_until(lambda: ask(front, servers, servers.keys) and slow.lookups - before > 20)


def test_a_busy_replica_leaves_requests_to_another(seed):
    """A limit of one request at the server; then one at the front, too, when all are busy."""
    options = FrontOptions(deadline=2, extra=0, requests=2)
    with cluster(seed, 1, limit=1) as servers, front_of(servers, options) as front:
        wait_until(lambda: all(each.has(1) for each in front.replicas[0]))
        for server in servers.all():
            server.gate.clear()
        found = {}
        threads = [
            threading.Thread(target=lambda i=i: found.update({i: ask(front, servers, servers.keys)})) for i in range(8)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(found) == 6)
        for each in found.values():
            expect_partial(each, servers, servers.keys, {0})
            assert "busy: 1 requests wait" in each.missing[0] or each.missing[0] == "2 requests run"
        for server in servers.all():
            server.gate.set()
        for thread in threads:
            thread.join()
        assert sum(not each.missing for each in found.values()) == 2
        assert all(each.health.is_well for each in front.replicas[0])
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())


# --- versions
def test_a_swap_mixes_no_versions(seed):
    """Weights of version v are between v and v + 1/2, in all parts of an answer, while versions and servers change."""
    with cluster(seed, 3) as servers, front_of(servers) as front:
        current, stop, errors, answers = [1], threading.Event(), [], [0]

        def work() -> None:
            while not stop.is_set():
                version = current[0]
                found = ask(front, servers, servers.keys, version)
                whole = np.isin(servers.partition.owners(servers.keys), list(found.missing), invert=True)
                if not (np.floor(found.weights[whole]) == version).all() or found.weights[~whole].any():
                    errors.append(version)
                answers[0] += 1

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for version in range(2, 9):
            if version % 3 == 0:
                servers.servers[version % 2][0].stop()
                servers.servers[version % 2][0].start()
            front.load(version, SECONDS)
            current[0] = version
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors and answers[0] > 20


def test_a_version_is_used_when_every_shard_has_it(seed):
    with cluster(seed, 2) as servers, front_of(servers) as front:
        for server in servers.servers[1]:
            server.loading.clear()
        thread = threading.Thread(target=front.load, args=(2, SECONDS))
        thread.start()
        wait_until(lambda: all(each.has(2) for each in front.replicas[0]))
        assert thread.is_alive()
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        expect_partial(ask(front, servers, servers.keys, 2), servers, servers.keys, {1}, 2)
        servers.servers[1][0].loading.set()
        thread.join()
        expect_partial(ask(front, servers, servers.keys, 2), servers, servers.keys, set(), 2)
        expect_partial(ask(front, servers, servers.keys, 1), servers, servers.keys, set(), 1)


def test_a_version_that_cannot_be_loaded_leaves_the_one_in_use(seed):
    """Even after several: servers keep the version that is asked for."""
    with cluster(seed, 2) as servers, front_of(servers) as front:
        for version in (FIRST_BAD, FIRST_BAD + 1, FIRST_BAD):
            with pytest.raises(BitlaneError, match=rf"^shard [01] cannot load version {version}: version {version} is"):
                front.load(version, SECONDS)
        for server in servers.servers[1]:
            server.loading.clear()
        for version in (2, 3, 4):  # shard 0 has each of them, shard 1 none
            with pytest.raises(BitlaneError, match=rf"^shard 1 has not loaded version {version} in 0.4 s: it is"):
                front.load(version, 0.4)
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        for server in servers.servers[0]:
            assert [version for version in server.loaded if version < FIRST_BAD] == [1, 2, 3, 4]


def test_a_server_that_comes_back_is_not_told_to_load_what_failed(seed):
    with cluster(seed, 1) as servers, front_of(servers) as front:
        with pytest.raises(BitlaneError, match=r"is damaged$"):
            front.load(FIRST_BAD, SECONDS)
        server = servers.servers[0][0]
        server.stop()
        server.start()
        wait_until(lambda: front.replicas[0][0].has(1))
        time.sleep(0.6)  # two pings
        assert server.versions.state()["failed"] == {}


def test_a_server_that_dies_while_it_loads_is_told_again(seed):
    with cluster(seed, 1, 1) as servers, front_of(servers) as front:
        server = servers.servers[0][0]
        server.loading.clear()
        thread = threading.Thread(target=front.load, args=(2, SECONDS))
        thread.start()
        wait_until(lambda: server.versions.state()["loading"] == [2])
        server.stop()
        server.start()
        server.loading.set()
        thread.join(SECONDS / 2)
        assert not thread.is_alive()
        expect_partial(ask(front, servers, servers.keys, 2), servers, servers.keys, set(), 2)


def test_idle_connections_that_were_cut_are_made_again(seed):
    """Without another replica to ask, and without a missing shard."""
    with cluster(seed, 1, 1) as servers, front_of(servers) as front:
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())
        idle = front.replicas[0][0]._idle
        assert idle
        for connection in idle:
            for _, reader in connection._lanes.values():
                reader.cancel()
        expect_partial(ask(front, servers, servers.keys), servers, servers.keys, set())


def test_servers_that_are_not_there_are_named(seed):
    message = r"^shard 1 has not loaded version 1 in 3 s: a replica of shard 1 is not running$"
    with cluster(seed, 2, 1) as servers, front_of(servers, version=None) as front:
        servers.servers[1][0].stop()
        with pytest.raises(BitlaneError, match=message):
            front.load(1, 3)


def test_servers_of_another_place_are_refused(seed):
    message = r"serves shard 1 of 2 with 256 virtual shards; it was given as shard 0 of 2 with 256$"
    with cluster(seed, 2, 1) as servers:
        front = Front(lambda shard, replica: servers.find(1 - shard, 0), 2, 1)
        with pytest.raises(BitlaneError, match=message):
            front.load(1, 0.5)
        front.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline": 0}, "deadline must be above 0 seconds; got 0"),
        ({"deadline": float("nan")}, "got nan"),
        ({"quantile": 1.0}, "the quantile must be between 0 and 1; got 1.0"),
        ({"extra": -0.1}, "share of extra requests must be 0 to 1; got -0.1"),
        ({"requests": 0}, "requests to a replica must be at least 1; got 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        FrontOptions(**options)
