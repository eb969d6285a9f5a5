"""One damage at random: no traceback, what is not damaged can be used, and all can be used once it is set aside."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_registry import ChangingModel

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry import records
from bitlane.sparse.registry.checks import Bounds
from bitlane.sparse.registry.damage import find_damage
from bitlane.sparse.registry.mending import mend
from bitlane.sparse.registry.overview import overview
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect, compact
from bitlane.sparse.registry.validation import RECORD, folder_of_validation
from bitlane.sparse.registry.verdict import Validation

KINDS = ("flipped byte", "cut off", "missing", "empty", "folder", "foreign JSON", "another file")
CHAINS = {1: {1}, 2: {1, 2}, 3: {3}, 4: {3, 4}, 5: {3, 4, 5}}


def new_registry(folder: Path, changing: ChangingModel) -> ModelRegistry:
    """Versions as in `CHAINS`, two labels with moves, a reader and a validation."""
    registry = ModelRegistry(folder)
    for longest in (1, 2):
        publisher = Publisher(registry, changing.model, longest_chain=longest)
        for _ in range(longest + 1):
            changing.change()
            publisher.publish()
    for version in (1, 2, 5):
        registry.move_label("production", version)
    registry.move_label("candidate", 3)
    registry.note_reader("host", 4)
    validation = Validation(2, "production", 1, records.now(), "rows.csv", {}, Bounds(), ())
    record = {**vars(validation), "bounds": vars(validation.bounds), "passed": True}
    registry.store.replace(f"{folder_of_validation(2)}/{RECORD}", records.to_bytes(record))
    assert registry.numbers() == list(CHAINS) and find_damage(registry) == []
    return registry


def spoil(folder: Path, kind: str, rng: np.random.Generator) -> str:
    """Damage a file at random; return its path in the registry."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[rng.integers(len(files))]
    data = bytearray(path.read_bytes())
    if kind == "flipped byte" and data:
        data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
    if kind == "another file":
        other = files[rng.integers(len(files))].read_bytes()
        data = data + b"x" if other == data else bytearray(other)
    changed = {
        "cut off": data[: rng.integers(max(len(data), 1))],
        "empty": b"",
        "foreign JSON": [b"{}", b"[1]", b'{"format": 1}', b'"", ', records.to_bytes({"a": 1})][rng.integers(5)],
    }
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(changed.get(kind, data))
    return path.relative_to(folder).as_posix()


def usable(place: str) -> list[int]:
    """The versions whose files are not damaged."""
    found = re.fullmatch(r"versions/0*(\d+)/(?!publisher)[^/]*", place)
    return [version for version, chain in CHAINS.items() if found is None or int(found[1]) not in chain]


def check_once(folder: Path, kind: str, changing: ChangingModel, rng: np.random.Generator) -> None:
    place = spoil(folder, kind, rng)
    registry, good = ModelRegistry(folder), usable(place)
    before = sorted(path.name for path in folder.rglob("*"))
    for version in good:
        assert registry.load(version).version == version, place
        if place != ".lock":
            assert registry.move_label("other", version).version == version, place
    shown = overview(registry)
    assert set(good) <= {each.version for each in shown.versions}, place
    for call in (registry.labels, registry.versions, registry.readers, lambda: registry.roll_back("candidate")):
        try:
            call()
        except BitlaneError as error:
            assert "\n" not in str(error), place

    mended = mend(registry)
    assert find_damage(registry) == list(mended.left) == [], (place, mended)
    after = sorted(path.name for path in folder.rglob("*"))
    assert not [name for name in set(before) if before.count(name) > after.count(name)], place  # nothing is deleted
    assert set(registry.numbers()) == set(good), (place, mended)
    for version in good:
        assert registry.load(version).version == version
        assert registry.move_label("production", version).version == version
    labels = registry.labels()
    assert set(labels.values()) <= set(good) and labels["production"] == good[-1]
    registry.move_label("production", good[0])
    assert registry.roll_back("production").version == good[-1] if len(good) > 1 else True
    changing.change()
    assert Publisher(registry, changing.model).publish().version == 6
    if registry.manifest(good[-1]).kind == "delta":
        assert compact(registry, good[-1]).version == 7
    collect(registry, 1)
    assert overview(registry).damage == ()


def test_after_any_damage_the_rest_can_be_used(tmp_path: Path, seed: int) -> None:
    search(tmp_path, seed, 210)


@pytest.fixture(autouse=True)
def never_forced_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.slow
def test_after_any_damage_the_rest_can_be_used_in_many_registries(tmp_path: Path, seed: int) -> None:
    search(tmp_path, seed, 1000)


def test_what_a_newer_bitlane_has_written_stays(tmp_path: Path, seed: int) -> None:
    """Unless only the number of the format has changed, by a flipped bit."""
    registry = new_registry(tmp_path / "model", ChangingModel(seed, 30))
    path = tmp_path / "model/versions/0000003/manifest.json"
    ours = path.read_bytes()
    path.write_bytes(b'{"format": 2, "more": "content"}')
    assert [(each.version, each.is_newer) for each in overview(registry).damage] == [(3, True), (4, True), (5, True)]
    mended = mend(registry)
    assert (mended.damage, len(mended.left), registry.numbers()) == ((), 3, list(CHAINS))
    path.write_bytes(ours.replace(b'"format": 1', b'"format": 9'))
    assert [each.version for each in mend(registry).damage if each.version] == [3, 4, 5]
    assert registry.labels() == {"production": 2}


def test_a_folder_in_the_place_of_a_lock_is_set_aside(tmp_path: Path, seed: int) -> None:
    """Until then `collect` refuses: it cannot tell whether the reader lives."""
    registry = new_registry(tmp_path / "model", ChangingModel(seed, 30))
    path = tmp_path / "model/readers/host.lock"
    path.unlink()
    path.mkdir()
    for call in (registry.readers, lambda: collect(registry, 1)):
        with pytest.raises(DataError, match=r"readers/host\.lock is damaged: it is not a file"):
            call()
    assert [each.place for each in mend(registry).damage] == ["readers/host.lock"]
    assert registry.readers() == {} and registry.store.names("readers") == ["host.json"]
    collect(registry, 1)
    assert registry.store.names("readers") == []


def test_no_number_is_used_again(tmp_path: Path, seed: int) -> None:
    """A service that has a version in memory would take another one for it."""
    changing = ChangingModel(seed, 30)
    registry = new_registry(tmp_path / "model", changing)
    (tmp_path / "model/versions/0000005/manifest.json").write_bytes(b"")
    (tmp_path / "model/versions/0000004/rows-00000.frozen").write_bytes(b"")
    assert [each.version for each in find_damage(registry) if each.version] == [4, 5]
    assert [each.version for each in find_damage(registry, read_rows=False) if each.version] == [5]
    mend(registry)
    assert (registry.numbers(), registry.claimed()) == ([1, 2, 3], [1, 2, 3, 5])
    assert Publisher(registry, changing.model).publish().version == 6
    aside = tmp_path / "model/damaged/0000001"
    assert sorted(path.name for path in aside.iterdir()) == ["labels", "versions"]


def search(tmp_path: Path, seed: int, cases: int) -> None:
    rng, changing = np.random.default_rng(seed), ChangingModel(seed, 30)
    new_registry(tmp_path / "whole", changing)
    for case in range(cases):
        folder = tmp_path / "model"
        shutil.copytree(tmp_path / "whole", folder)
        check_once(folder, KINDS[case % len(KINDS)], changing, rng)
        shutil.rmtree(folder)
