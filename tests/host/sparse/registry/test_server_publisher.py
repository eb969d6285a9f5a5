"""Servers that publish: each version is the full snapshot, with servers that fail, start again, and learn meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_registry import SPEC, ChangingModel, snapshot
from tests.helpers.sparse_servers import StepClient, addresses_of, begin, served

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.server_publisher import ServerPublisher
from bitlane.sparse.registry.upkeep import compact
from bitlane.sparse.servers import publishing
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.workers.shards import create_shard

SERVERS, WIDTH = 2, 3
PARTITION = Partition(SERVERS)


class Scene:
    """Servers, a client that trains them, and the same training in this process."""

    def __init__(self, folder: Path, seed: int, stack: ExitStack):
        self.local = ChangingModel(seed)
        self.rng, self.folders = self.local.rng, [folder / f"shard-{server}" for server in range(SERVERS)]
        for server, each in enumerate(self.folders):
            create_shard(each, SparseModel(SPEC), server, SERVERS)
            begin(each)
        self._stack = stack
        self.start()
        self.registry = ModelRegistry(folder / "model")
        self.publisher = ServerPublisher(self.registry, self.connect, SPEC, longest_chain=4)

    def start(self) -> None:
        self._running = self._stack.enter_context(ExitStack())
        self.services: list[ShardService] = self._running.enter_context(served(self.folders))
        self.remote = self._running.enter_context(self.connect())

    def stop(self) -> None:
        for service in self.services:
            service._shard.checkpoint()  # logs do not have what `change` deletes
        self._running.close()

    def connect(self) -> StepClient:
        return StepClient(addresses_of(self.services))

    def change(self) -> None:
        """Create, change and delete keys, of servers and of the local model."""
        keys = np.unique(self.rng.choice(self.local.keys, self.rng.integers(3, len(self.local.keys))))
        gradients = self.rng.normal(size=(len(keys), WIDTH)).astype(np.float32)
        dense = np.ones(1, np.float32)
        self.remote.send(keys, gradients, dense={"intercept": dense})
        parameters = self.local.model.parameters
        parameters.push(keys, gradients, create=True)
        self.local.model.matrices["intercept"].push(dense)
        gone = self.rng.choice(self.local.keys, 8)
        parameters.table.delete(gone)
        for service in self.services:
            service._shard.parameters.table.delete(gone)

    def check(self, version: int) -> None:
        """The version as a base has the files of snapshots of the local model."""
        weights = self.local.weights()
        manifest = self.registry.manifest(version)
        assert (manifest.rows, manifest.shards) == (len(weights), SERVERS)
        if manifest.kind == "delta":
            version = compact(self.registry, version).version
        for shard in range(SERVERS):
            mine = {key: row for key, row in weights.items() if PARTITION.owners(np.array([key], np.uint64)) == shard}
            assert self.registry.folder(version).read(f"rows-{shard:05}.frozen") == snapshot(mine, WIDTH)
        dense = self.registry.load(version).dense
        assert np.array_equal(dense["intercept"], self.local.model.pull_dense()["intercept"])


@pytest.fixture
def scene(tmp_path: Path, seed: int):
    with ExitStack() as stack:
        yield Scene(tmp_path, seed, stack)


def test_versions_of_servers_are_full_snapshots(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """With servers that cannot write, and servers that have lost their logs of changes."""
    kinds = []
    for number in range(8):
        scene.change()
        if number in (2, 5):
            with monkeypatch.context() as broken, pytest.raises(BitlaneError, match=r"server 127.*: no room"):
                fail_one(broken, number % 2)
                scene.publisher.publish()
            scene.change()
        if number in (3, 6):
            scene.stop()
            scene.start()
        manifest = scene.publisher.publish()
        kinds.append(manifest.kind)
        scene.check(manifest.version)
    assert kinds == ["base"] + ["delta"] * 7  # a compaction begins a chain, too


def fail_one(patch: pytest.MonkeyPatch, broken: int) -> None:
    """Let one server have no room."""
    write: Callable[..., object] = publishing.write_cut

    def fail(folder, server, cut):
        if server == broken:
            raise BitlaneError("no room")
        return write(folder, server, cut)

    patch.setattr(publishing, "write_cut", fail)


def test_a_server_that_starts_again_writes_what_has_changed(scene: Scene) -> None:
    """Not its whole shard."""
    scene.change()
    scene.publisher.publish()
    scene.stop()
    scene.start()
    keys = np.unique(scene.local.keys)
    held = keys[scene.local.model.parameters.table.find(keys) >= 0][:5]
    gradients = np.ones((len(held), WIDTH), np.float32)
    scene.remote.send(held, gradients)
    scene.local.model.parameters.push(held, gradients)
    manifest = scene.publisher.publish()
    assert (manifest.kind, manifest.changed, manifest.deleted) == ("delta", len(held), 0)
    scene.check(manifest.version)


def test_servers_learn_while_they_publish(scene: Scene) -> None:
    """A step is in a version wholly or not at all, in each shard."""
    keys = np.unique(scene.local.keys)
    scene.remote.send(keys, np.zeros((len(keys), WIDTH)))
    stop = threading.Event()

    def send() -> None:
        with scene.connect() as remote:
            while not stop.is_set():
                remote.send(keys, np.full((len(keys), WIDTH), [0.0, 1.0, 1.0], np.float32))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        versions = [scene.publisher.publish().version for _ in range(10)]
    finally:
        stop.set()
        thread.join()
    start = scene.registry.load(versions[0]).table.lookup(keys)[0]
    owners = PARTITION.owners(keys)
    for version in versions:
        moved = scene.registry.load(version).table.lookup(keys)[0] - start
        for shard in range(SERVERS):
            assert np.ptp(moved[owners == shard][:, 1]) < 1e-4


def test_a_wrong_request_is_one_line(scene: Scene, tmp_path: Path) -> None:
    with scene.connect() as group, pytest.raises(DataError, match=r"not a request to publish: 'registry'$"):
        group.publish([{}, {}], 10)
