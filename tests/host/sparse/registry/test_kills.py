"""Publishers that are killed, and disks that are full: labels name complete versions, and the next version works."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_registry import ChangingModel, held_by

from bitlane.errors import BitlaneError
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect


def kill_a_publisher(folder: Path, rng: np.random.Generator) -> None:
    """Start a process that publishes, and kill it at a random moment after its first version has begun."""
    command = [sys.executable, "-m", "tests.helpers.registry_publisher", str(folder), str(rng.integers(0, 2**32))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            for _ in range(int(rng.integers(1, 4))):
                assert process.stdout.readline() != ""
            time.sleep(rng.uniform(0, 0.05))
        finally:
            process.kill()


def check(registry: ModelRegistry) -> None:
    """All labels name versions that load."""
    for version in {*registry.labels().values(), *registry.numbers()}:
        assert registry.load(version).version == version


def kill_often(folder: Path, seed: int, times: int) -> None:
    rng = np.random.default_rng(seed)
    registry = ModelRegistry(folder)
    for _ in range(times):
        kill_a_publisher(folder, rng)
        check(registry)
        newest = max(registry.claimed(), default=0)
        changing = ChangingModel(seed)
        changing.change()
        version = Publisher(registry, changing.model).publish().version
        assert version == newest + 1 and registry.load(version).version == version
    collect(registry, 1)
    assert set(registry.claimed()) == set(registry.numbers())
    check(registry)
    left = [path.name for path in folder.rglob(".*") if path.is_file()]
    assert len(left) <= 1 + times  # the lock, and a part for each kill


def test_a_full_disk_leaves_no_half_version(tmp_path: Path) -> None:
    """Files cannot grow beyond a limit; with more room, the next version has all changes."""
    registry, changing = ModelRegistry(tmp_path / "model"), ChangingModel(1)
    publisher = Publisher(registry, changing.model)
    for _ in range(2):  # a base and a change: whatever is compiled for them is kept in files without a limit
        changing.change()
        publisher.publish()
    changing.model.parameters.table.delete(changing.keys[:50])
    changing.change(rows=200)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))
    try:
        with pytest.raises(BitlaneError, match=r"rows-00000.frozen cannot be written: File too large$"):
            publisher.publish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert registry.numbers() == [1, 2]
    assert registry.store.names("versions/0000003", hidden=True) == ["publisher.json"]
    version = publisher.publish().version
    assert (version, registry.manifest(version).kind) == (4, "delta")
    expected = {key: row for key, row in changing.weights().items() if any(row)}
    assert held_by(registry, version, changing.keys) == expected


def test_kills_leave_no_half_version(tmp_path: Path, seed: int) -> None:
    kill_often(tmp_path / "model", seed, 2)


@pytest.mark.slow
def test_fifty_kills_leave_no_half_version(tmp_path: Path, seed: int) -> None:
    kill_often(tmp_path / "model", seed, 50)
