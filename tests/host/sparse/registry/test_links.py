"""No operation of a registry follows a symbolic link: what lies outside is neither read, written nor removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_registry import ChangingModel

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect, compact

PLACES = [
    "versions",
    "versions/0000001",
    "versions/0000002",
    "versions/0000002/manifest.json",
    "versions/0000002/rows-00000.frozen",
    "versions/0000002/publisher.json",
    "versions/0000005",
    "labels",
    "labels/production",
    "labels/production/0000001.json",
    "readers",
    "readers/host.json",
    "validations",
    "validations/0000002",
    ".lock",
]
READS_VERSION_2 = PLACES[:5]


@pytest.fixture
def changing(seed: int) -> ChangingModel:
    return ChangingModel(seed, 40)


@pytest.fixture
def registry(tmp_path: Path, changing: ChangingModel) -> ModelRegistry:
    """Two chains: 1, 2 and 3, 4; a label, a reader, a report, and what a dead publisher has left."""
    found = ModelRegistry(tmp_path / "model")
    publisher = Publisher(found, changing.model, longest_chain=1)
    for _ in range(4):
        changing.change()
        publisher.publish()
    found.move_label("production", 4)
    found.note_reader("host", 4)
    found.store.write("validations/0000002/report.html", [b"a report"])
    found.store.write("versions/0000005/rows-00000.frozen", [b"half"])
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder, and the folders."""
    found = {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}
    return dict(sorted(found.items()))


def operations(registry: ModelRegistry, changing: ChangingModel) -> dict[str, Callable[[], object]]:
    return {
        "collect": lambda: collect(registry, 1),
        "publish": Publisher(registry, changing.model).publish,
        "compact": lambda: compact(registry, 4),
        "promote": lambda: registry.move_label("production", 3),
        "new label": lambda: registry.move_label("candidate", 3),
        "roll back": lambda: registry.roll_back("production"),
        "labels": registry.labels,
        "versions": registry.versions,
        "load": lambda: registry.load(2),
        "note": lambda: registry.note_reader("host", 3),
        "forget": lambda: registry.forget_reader("host"),
        "readers": registry.readers,
        "report": lambda: registry.store.replace("validations/0000002/report.html", b"another"),
    }


@pytest.mark.parametrize("place", PLACES)
def test_a_link_is_not_followed(
    registry: ModelRegistry, changing: ChangingModel, tmp_path: Path, seed: int, place: str
) -> None:
    """The operations come in a random order; each works, or says in one line what is a link."""
    outside, path = tmp_path / "outside", tmp_path / "model" / place
    outside.mkdir()
    path.touch() if place == ".lock" else None
    os.rename(path, outside / "content")
    path.symlink_to(outside / "content")
    before = contents(outside)
    if place in READS_VERSION_2:
        with pytest.raises(DataError, match=r"^[^\n]* is a symbolic link, and none is followed here: [^\n]*$"):
            registry.load(2)
    called = operations(registry, changing)
    for name in np.random.default_rng(seed).permutation(list(called)).tolist():
        try:
            called[name]()
        except BitlaneError as error:
            assert "\n" not in str(error), name
        assert contents(outside) == before, name


def test_the_registry_itself_may_be_named_by_a_link(registry: ModelRegistry, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "model")
    linked = ModelRegistry(tmp_path / "link")
    assert linked.load(2).version == 2 and linked.numbers() == [1, 2, 3, 4]
    assert collect(linked, 1).versions == (1, 2, 5)


def test_a_link_is_removed_with_its_version(registry: ModelRegistry, tmp_path: Path) -> None:
    """What it names stays."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"content")
    for name, target in (("file", "file"), ("folder", ".")):
        (tmp_path / "model/versions/0000002" / name).symlink_to(tmp_path / "outside" / target)
    assert 2 in collect(registry, 1).versions
    assert registry.numbers() == [3, 4] and (tmp_path / "outside" / "file").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "..", "."])
def test_no_name_leads_out_of_the_registry(registry: ModelRegistry, name: str) -> None:
    for call in (registry.store.read, registry.store.remove, lambda name: registry.store.replace(name, b"")):
        with pytest.raises(DataError, match=r"cannot be the name of a file in"):
            call(name)


def test_what_is_no_file_is_not_waited_for(registry: ModelRegistry, tmp_path: Path) -> None:
    path = tmp_path / "model/versions/0000002/rows-00000.frozen"
    for make in (os.mkfifo, os.mkdir):
        with contextlib.suppress(IsADirectoryError):
            path.unlink()
        make(path)
        with pytest.raises(DataError, match=r"rows-00000\.frozen is damaged: it is not a file"):
            registry.load(2)
