"""The registry: what is damaged or does not fit is found; labels move, and go back."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs
from tests.helpers.sparse_registry import SPEC, ChangingModel, batch_of, files_of

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry import records
from bitlane.sparse.registry.labels import Labels
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.support.stores import Store


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    """A base, two deltas, and a label."""
    found = ModelRegistry(tmp_path / "model")
    publish(found, 3)
    found.move_label("production", 2, "looks good")
    return found


def publish(registry: ModelRegistry, versions: int, seed: int = 1) -> None:
    changing = ChangingModel(seed, 40)
    publisher = Publisher(registry, changing.model)
    for _ in range(versions):
        changing.change()
        publisher.publish()


def test_a_version_scores_as_its_model(tmp_path: Path, seed: int) -> None:
    registry, changing = ModelRegistry(tmp_path / "model"), ChangingModel(seed)
    publisher = Publisher(registry, changing.model)
    batch = batch_of(changing.rng, changing.keys, 50)
    for _ in range(3):
        changing.change()
        expected = changing.model.predict(batch)
        model = registry.load(publisher.publish().version)
        assert np.allclose(model.predict(batch), expected, rtol=0, atol=1e-6)
    assert model.version == 3 and model.spec == SPEC


def test_a_change_is_loaded_above_what_is_loaded(tmp_path: Path, seed: int) -> None:
    """The base is not read again; a version of another chain is loaded whole."""
    registry, changing = ModelRegistry(tmp_path / "model"), ChangingModel(seed)
    publisher = Publisher(registry, changing.model, longest_chain=3)
    model = None
    for version in range(1, 8):
        changing.change()
        expected = {key: row for key, row in changing.weights().items() if any(row)}
        publisher.publish()
        if version in (3, 7):
            continue  # two deltas at once, and a new base
        if version == 4:
            (tmp_path / "model/versions/0000001/rows-00000.frozen").unlink()
        model = registry.load(version, after=model)
        keys = np.unique(changing.keys)
        weights, found = model.table.lookup(keys)
        held = {
            key: tuple(row)
            for key, row, there in zip(keys.tolist(), weights.tolist(), found, strict=True)
            if there and any(row)
        }
        assert (model.version, held) == (version, expected)
    with pytest.raises(DataError, match="is missing"):
        registry.load(4)


def test_a_flipped_bit_in_any_file_is_found(registry: ModelRegistry, tmp_path: Path, seed: int) -> None:
    """Each file of the chain, some bits of each, and the file of a label."""
    rng = np.random.default_rng(seed)
    files = [path for path in files_of(tmp_path / "model") if path.name != "publisher.json"]
    assert len(files) == 3 + 3 + 3 + 2 + 1  # rows, matrices, manifests, deleted keys, a label
    for path in files:
        data = path.read_bytes()
        for bit in rng.integers(0, 8 * len(data), 12).tolist():
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with pytest.raises(DataError, match=r"^[^\n]*(is damaged: [^\n]*|is missing|has format \d+[^\n]*)$"):
                registry.resolve("production")
                registry.load(int(path.parent.name) if path.parent.name.isdecimal() else 3)
            if path.parent.name == "0000003":
                assert registry.load(registry.resolve("production")).version == 2
        path.write_bytes(data)
    assert registry.load(3).version == 3


def test_a_newer_format_is_one_line(registry: ModelRegistry, tmp_path: Path) -> None:
    path = tmp_path / "model/versions/0000003/manifest.json"
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, "format": 2, "more": "content"}))
    message = f"{tmp_path}/model/versions/0000003/manifest.json has format 2; this bitlane reads format 1: install a "
    with pytest.raises(DataError, match=f"^{re.escape(message)}newer one$"):
        registry.load(3)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": 1}', '{"format": []}', "null", "\ud800"])
def test_a_damaged_manifest_is_one_line(registry: ModelRegistry, tmp_path: Path, text: str) -> None:
    (tmp_path / "model/versions/0000003/manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match=r"^[^\n]*/versions/0000003/manifest.json is damaged: [^\n]*$"):
        registry.versions()


def test_a_sealed_record_of_other_names_is_damaged(registry: ModelRegistry, tmp_path: Path) -> None:
    for path in (tmp_path / "model/versions/0000003/manifest.json", tmp_path / "model/labels/production/0000001.json"):
        path.write_bytes(records.to_bytes({"version": 3}))
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        registry.manifest(3)
    with pytest.raises(DataError, match=r"0000001\.json is damaged"):
        registry.label("production")


def test_a_manifest_in_the_place_of_another_is_found(registry: ModelRegistry, tmp_path: Path) -> None:
    folder = tmp_path / "model/versions"
    (folder / "0000003/manifest.json").write_bytes((folder / "0000002/manifest.json").read_bytes())
    with pytest.raises(DataError, match="it is that of version 2"):
        registry.load(3)


def test_a_missing_parent_is_one_line(registry: ModelRegistry, tmp_path: Path) -> None:
    (tmp_path / "model/versions/0000002/manifest.json").unlink()
    for call in (lambda: registry.load(3), lambda: registry.move_label("production", 3)):
        with pytest.raises(DataError, match=f"^{tmp_path}/model: version 3 is a delta of version 2, which is missing"):
            call()


def test_names_of_versions(registry: ModelRegistry) -> None:
    assert [registry.resolve(name) for name in ("latest", "production", "1", "0000003")] == [3, 2, 1, 3]
    for name, message in {
        "9": "has no version 9; versions: 1, 2, 3",
        "candidate": "has no label 'candidate'; labels: production",
        "../x": "'../x' cannot be a label",
    }.items():
        with pytest.raises(DataError, match=re.escape(message)):
            registry.resolve(name)
    empty = ModelRegistry(registry.uri + "-empty")
    with pytest.raises(DataError, match="has no version: publish one"):
        empty.resolve("latest")
    with pytest.raises(DataError, match="has no version 1; it has none"):
        empty.manifest(1)


def test_labels_move_and_go_back(registry: ModelRegistry) -> None:
    """Roll-backs lead through what was promoted; they are quick, and keep the history."""
    for version in (1, 3, 3, 1):
        registry.move_label("production", version)
    found = []
    begin = time.perf_counter()
    for _ in range(3):
        found.append(registry.roll_back("production", "worse").version)
    assert time.perf_counter() - begin < 3  # a second each
    assert found == [3, 1, 2]
    with pytest.raises(DataError, match="cannot be rolled back: it has always named version 2"):
        registry.roll_back("production")
    registry.move_label("production", 3)
    assert registry.roll_back("production").version == 2
    history = registry.history("production")
    assert [move.version for move in history] == [2, 1, 3, 3, 1, 3, 1, 2, 3, 2]
    assert [move.reason for move in history if move.back] == ["worse"] * 3 + [""]
    assert registry.labels() == {"production": 2}
    for name in ("latest", "7", "", "a/b", ".hidden", "x" * 65):
        with pytest.raises(DataError, match="cannot be a label"):
            registry.move_label(name, 1)
    with pytest.raises(DataError, match="has no version 8"):
        registry.move_label("production", 8)


def test_two_movers_of_a_label_cannot_both_win(registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen the same history; the second one hears of it."""
    seen, won, lost = threading.Barrier(2), [], []
    next_number = Labels.next_number

    def both_look(labels: Labels, name: str) -> int:
        number = next_number(labels, name)
        seen.wait(10)
        return number

    monkeypatch.setattr(Labels, "next_number", both_look)

    def move(version: int) -> None:
        try:
            won.append(registry.move_label("production", version).version)
        except BitlaneError as error:
            lost.append(str(error))

    threads = [threading.Thread(target=move, args=(version,)) for version in (1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == [f"{registry.uri}: label 'production' was moved concurrently; check it and try again"]
    assert [registry.label("production")] == won and len(registry.history("production")) == 2


def test_publishers_at_once_get_different_versions(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=publish, args=(ModelRegistry(tmp_path / "model"), 3, number)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    registry = ModelRegistry(tmp_path / "model")
    assert registry.numbers() == list(range(1, 13))
    for version in registry.numbers():
        assert registry.load(version).version == version
    assert sorted(len(registry.chain(version)) for version in registry.numbers()) == [1] * 4 + [2] * 4 + [3] * 4


def test_a_number_that_was_taken_elsewhere_is_not_published(tmp_path: Path) -> None:
    """On other file systems two publishers can take the same number: the one whose claim is gone stops."""
    registry = ModelRegistry("here", fs._MockFileSystem())
    publisher = Publisher(registry, SparseModel(SPEC))
    take = publisher._cuts.take

    def taken(*arguments, **options):
        registry.store.replace("versions/0000001/publisher.json", b"mine")
        return take(*arguments, **options)

    publisher._cuts.take = taken  # type: ignore[method-assign]
    with pytest.raises(BitlaneError, match="versions/0000001 was taken by another publisher; publish again"):
        publisher.publish()
    assert registry.numbers() == []


def test_readers_are_noted_and_forgotten(registry: ModelRegistry, tmp_path: Path, seed: int) -> None:
    """At random, by several parts of a process; each counts until it is forgotten."""
    rng, parts = np.random.default_rng(seed), [ModelRegistry(registry.uri) for _ in range(3)]
    expected: dict[str, int] = {}
    for _ in range(60):
        number, version = int(rng.integers(6)), int(rng.integers(1, 4))
        name, part = f"host-{number}", parts[number % 3]
        if rng.random() < 0.3:
            part.forget_reader(name)
            expected.pop(name, None)
        else:
            part.note_reader(name, version)
            expected[name] = version
        assert registry.readers() == expected
    (tmp_path / "model/readers/dead.json").write_text("what a process that was killed has left")
    registry.forget_dead_readers()
    assert len(registry.store.names("readers")) == 2 * len(expected)
    with pytest.raises(DataError, match="cannot be the name of a reader"):
        registry.note_reader("a/b", 1)
    parts[0].note_reader("host-0", 1)
    with pytest.raises(BitlaneError, match=r"readers/host-0\.lock is in use"):
        parts[1].note_reader("host-0", 1)
    (tmp_path / "model/readers/host-0.json").write_bytes(b"")
    with pytest.raises(DataError, match=r"host-0\.json is damaged"):
        registry.readers()


def test_elsewhere_a_note_counts_for_ten_minutes_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of readers and of who collects do not matter."""
    registry, clock = ModelRegistry("some/model", fs._MockFileSystem()), [0.0]
    written: dict[str, float] = {}
    replace = Store.replace

    def replace_then(store: Store, name: str, data: bytes) -> None:
        written[name] = clock[0]
        replace(store, name, data)

    monkeypatch.setattr(Store, "replace", replace_then)
    monkeypatch.setattr(Store, "written_at", lambda store, name: written[name])
    registry.note_reader("host", 1)
    clock[0] = 599
    assert registry.readers() == {"host": 1}
    clock[0] = 601
    assert registry.readers() == {}
    registry.note_reader("host", 2)
    assert registry.readers() == {"host": 2}
    clock[0] = 1300
    registry.forget_dead_readers()
    assert registry.store.names("readers") == ["clock"]
