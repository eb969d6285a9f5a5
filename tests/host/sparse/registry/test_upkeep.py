"""Compaction is a full snapshot; garbage is what no label, reader, roll-back or chain needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs
from tests.helpers.places import ROOT
from tests.helpers.sparse_registry import ChangingModel

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry import records
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect, compact
from bitlane.sparse.servers.partition import Partition
from bitlane.support.stores import Store


@pytest.fixture
def changing(seed: int) -> ChangingModel:
    return ChangingModel(seed)


@pytest.fixture
def registry(tmp_path: Path, changing: ChangingModel) -> ModelRegistry:
    """Two chains: 1, 2, 3 and 4, 5, 6."""
    found = ModelRegistry(tmp_path / "model")
    publisher = Publisher(found, changing.model, longest_chain=2)
    for _ in range(6):
        changing.change()
        publisher.publish()
    assert [manifest.base for manifest in found.versions()] == [1, 1, 1, 4, 4, 4]
    return found


def files(registry: ModelRegistry, version: int) -> dict[str, str]:
    return {file.name: file.sha256 for file in registry.manifest(version).files}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_compaction_has_the_files_of_a_full_snapshot(tmp_path: Path, changing: ChangingModel, shards: int) -> None:
    registry = ModelRegistry(tmp_path / "model")
    for number in range(4):
        changing.change()
        changing.model.parameters.table.delete(changing.keys[number::5])
        folder = tmp_path / f"saved-{number}"
        folder.mkdir()
        changing.model.save(folder)
        publish_folder(registry, folder, parent=number or None, shards=shards)
    found = compact(registry, 4)
    publish_folder(registry, folder, shards=shards)
    assert files(registry, 5) == files(registry, 6) and len(files(registry, 5)) == shards + 1
    assert (found.kind, found.parent, found.rows) == ("base", 4, len(changing.weights()))
    with pytest.raises(DataError, match="version 5 is already a base"):
        compact(registry, 5)


def test_what_is_needed_stays(registry: ModelRegistry) -> None:
    registry.move_label("production", 2)
    registry.move_label("production", 3)
    registry.move_label("production", 5)
    assert collect(registry, 2).versions == ()  # 5 and 6 are the newest, 3 and 2 are what roll-backs reach
    found = collect(registry, 1)
    assert (found.versions, found.bytes) == ((), 0)  # 3 needs its chain
    registry.move_label("production", 6)
    removed = sum(registry.manifest(version).nbytes for version in (1, 2, 3))
    found = collect(registry, 1)
    assert (found.versions, found.bytes) == ((1, 2, 3), removed)
    assert registry.claimed() == registry.numbers() == [4, 5, 6]
    assert registry.load(6).version == 6
    assert registry.roll_back("production").version == 5
    with pytest.raises(DataError, match="has no version 3"):
        registry.roll_back("production")
    assert registry.label("production") == 5


def test_a_removal_that_is_cut_leaves_versions_that_load(
    registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is removed before its parent."""
    remove = Store.remove_folder

    def cut(store: Store, name: str) -> None:
        remove(store, name)
        raise BitlaneError("cut")

    for left in ([1, 2, 4, 5, 6], [1, 4, 5, 6], [4, 5, 6]):
        with monkeypatch.context() as broken, pytest.raises(BitlaneError, match="cut"):
            broken.setattr(Store, "remove_folder", cut)
            collect(registry, 1)
        assert registry.numbers() == left
        assert [registry.load(version).version for version in left] == left


@pytest.mark.parametrize("skew", [-660.0, 0.0, 1e6])
def test_a_reader_keeps_its_chain_whatever_its_clock_says(
    registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    """It is in another process, and its clock is slow or fast; the system forgets it with its process."""
    program = (
        "import sys, time; from datetime import datetime, timedelta, timezone\n"
        "from bitlane.sparse.registry import records; from bitlane.sparse.registry.registry import ModelRegistry\n"
        "records.now = lambda: (datetime.now(timezone.utc) + timedelta(seconds=float(sys.argv[2]))).isoformat()\n"
        "registry = ModelRegistry(sys.argv[1]); registry.note_reader('host', 2); print('noted', flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", program, registry.uri, str(skew)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "noted\n"
            assert registry.readers() == {"host": 2}
            assert collect(registry, 1).versions == (3,)
            assert registry.load(2).version == 2
        finally:
            reader.kill()
            reader.wait()
    assert registry.readers() == {}
    assert collect(registry, 1).versions == (1, 2)
    assert registry.store.names("readers") == []


def test_a_version_that_is_being_written_stays(registry: ModelRegistry, changing: ChangingModel) -> None:
    with pytest.raises(BitlaneError, match="version 5 was collected in the meantime"), registry.draft() as draft:
        draft.folder.write("rows-00000.frozen", [b"half"])
        assert collect(registry, 1).versions == (1, 2, 3)
        assert draft.folder.exists("rows-00000.frozen")
        registry.store.remove("versions/0000005/manifest.json")
        manifest = registry.manifest(4)
        draft.commit("delta", 5, 4, manifest.description, [], 0, Partition(1))
    assert registry.numbers() == [4, 6]
    assert draft.folder.names() == ["publisher.json"]


def test_what_a_dead_publisher_has_left_goes(registry: ModelRegistry, tmp_path: Path) -> None:
    for version in (7, 8):
        registry.store.write(f"versions/{version:07}/publisher.json", [b"of a process that was killed"])
        registry.store.write(f"versions/{version:07}/.rows-00000.frozen.1-1", [b"half"])
    assert collect(registry, 6).versions == (7, 8)
    assert registry.claimed() == [1, 2, 3, 4, 5, 6, 8]  # no number is used twice
    assert registry.store.names("versions/0000008", hidden=True) == ["publisher.json"]
    assert collect(registry, 6).versions == ()
    (tmp_path / "model/versions/0000009").mkdir()  # killed before its claim
    assert collect(registry, 6).versions == (9,)
    with registry.draft() as draft:
        assert draft.version == 9
        assert collect(registry, 6).versions == (8,)
        assert draft.folder.exists("publisher.json")


def test_elsewhere_a_publisher_is_dead_after_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ModelRegistry("some/model", fs._MockFileSystem())
    with registry.draft() as draft:
        draft.folder.write("rows-00000.frozen", [b"half"])
    assert collect(registry).versions == ()
    monkeypatch.setattr(records, "seconds_since", lambda time: 24 * 3600.0 + 1)
    assert collect(registry).versions == (1,)
    assert draft.folder.names() == ["publisher.json"]


def test_damage_stops_the_removal(registry: ModelRegistry, tmp_path: Path) -> None:
    (tmp_path / "model/versions/0000005/manifest.json").write_bytes(b"")
    with pytest.raises(DataError, match="is damaged"):
        collect(registry, 1)
    assert registry.numbers() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(DataError, match="keep must be at least 1; got 0"):
        collect(registry, 0)
