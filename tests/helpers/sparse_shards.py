"""Weight servers and fronts for tests: by threads of this process, with tables that can be slow, wait or fail."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
from tests.helpers.frozen_tables import frozen

from bitlane.errors import DataError
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.server import WeightService
from bitlane.sparse.serving.shards.versions import HeldVersions

SECONDS = 20.0  # that nothing here takes
OPTIONS = FrontOptions(deadline=SECONDS)
FIRST_BAD = 1000  # versions from this one on cannot be loaded


def rows_of(seed: int, count: int, values: int, version: int) -> dict[int, np.ndarray]:
    """Weights by key: the key's own numbers plus the version, so that no two versions have a weight in common."""
    draw = np.random.default_rng(seed)
    keys = draw.integers(0, 2**64, count, dtype=np.uint64).tolist()
    own = draw.random((count, values), np.float32) / 2
    return {key: row + np.float32(version) for key, row in zip(keys, own, strict=True)}


class TestTable:
    """The rows of one shard in one version; `delay` is the seconds that a lookup takes longer."""

    __test__ = False

    def __init__(self, rows: dict[int, np.ndarray], values: int, server: ServedShard):
        self._table, self._server = LayeredTable(frozen(rows, values)), server
        self.nbytes = self._table.nbytes

    def lookup(self, keys):
        self._server.lookups += 1
        time.sleep(self._server.delay)
        self._server.gate.wait(SECONDS)
        return self._table.lookup(keys)


class ServedShard:
    """One weight server, which can be stopped and started again at another port.

    Attributes
    ----------
    delay : float
        Seconds that each lookup takes longer.
    lookups : int
    loaded : list of int
        Versions, in their order.
    gate, loading : threading.Event
        While it is not set, lookups or the loading of versions wait.
    """

    def __init__(self, load: Callable[[int, ServedShard], object], shard: int, partition: Partition, **options):
        self._load, self._shard, self._partition, self._options = load, shard, partition, options
        self.delay, self.lookups = 0.0, 0
        self.loaded: list[int] = []
        self.gate, self.loading = threading.Event(), threading.Event()
        self.gate.set()
        self.loading.set()
        self.service: WeightService | None = None
        self.start()

    @property
    def address(self) -> str | None:
        return None if self.service is None else f"127.0.0.1:{self.service.port}"

    def start(self) -> None:
        def load(version: int):
            self.loading.wait(SECONDS)
            self.loaded.append(version)
            return self._load(version, self)

        self.versions = HeldVersions(load)
        self.service = WeightService(self.versions, self._shard, self._partition, **self._options)

    def stop(self) -> None:
        """End it: its connections are lost."""
        service, self.service = self.service, None
        self.gate.set()
        if service is not None:
            service.refuse()
            threading.Thread(target=service.shutdown, daemon=True).start()


class Cluster:
    """All weight servers of a model whose weights are those of `rows_of`."""

    def __init__(self, seed: int, shards: int, replicas: int, count: int = 300, values: int = 2, **options):
        self.seed, self.count, self.values, self.partition = seed, count, values, Partition(shards)
        self.servers = [
            [ServedShard(self._load_of(shard), shard, self.partition, **options) for _ in range(replicas)]
            for shard in range(shards)
        ]
        self.keys = np.array(list(self.rows(0)), np.uint64)

    def rows(self, version: int) -> dict[int, np.ndarray]:
        return rows_of(self.seed, self.count, self.values, version)

    def find(self, shard: int, replica: int) -> str | None:
        return self.servers[shard][replica].address

    def weights(self, version: int, keys) -> np.ndarray:
        """What a lookup must return."""
        rows, nothing = self.rows(version), np.zeros(self.values, np.float32)
        return np.array([rows.get(key, nothing) for key in keys.tolist()], np.float32).reshape(len(keys), self.values)

    def of_shard(self, shard: int, keys) -> np.ndarray:
        return self.partition.owners(keys) == shard

    def all(self) -> list[ServedShard]:
        return [server for shard in self.servers for server in shard]

    def _load_of(self, shard: int):
        def load(version: int, server: ServedShard) -> TestTable:
            if version >= FIRST_BAD:
                raise DataError(f"version {version} is damaged")
            rows = self.rows(version)
            keys = np.array(list(rows), np.uint64)
            mine = keys[self.partition.owners(keys) == shard].tolist()
            return TestTable({key: rows[key] for key in mine}, self.values, server)

        return load


@contextlib.contextmanager
def cluster(seed: int, shards: int = 3, replicas: int = 2, **options) -> Iterator[Cluster]:
    found = Cluster(seed, shards, replicas, **options)
    try:
        yield found
    finally:
        for server in found.all():
            server.loading.set()
            server.stop()


@contextlib.contextmanager
def front_of(servers: Cluster, options: FrontOptions = OPTIONS, version: int | None = 1) -> Iterator[Front]:
    """A front that has loaded a version."""
    front = Front(servers.find, servers.partition.servers, len(servers.servers[0]), options)
    try:
        if version is not None:
            front.load(version, SECONDS)
        yield front
    finally:
        for server in servers.all():
            server.gate.set()
        front.close()


def wait_until(done: Callable[[], object], seconds: float = SECONDS) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def ask(front: Front, servers, keys, version: int = 1):
    return front.table(version, servers.values).lookup_partial(keys)


def expect_partial(found, servers, keys, missing: set[int], version: int = 1) -> None:
    """All weights but those of missing shards, which are unknown."""
    gone = np.isin(servers.partition.owners(keys), list(missing))
    wanted = servers.weights(version, keys)
    wanted[gone] = 0
    assert set(found.missing) == missing
    assert found.weights.tobytes() == wanted.tobytes()
    assert np.array_equal(found.known, np.isin(keys, servers.keys) & ~gone)
