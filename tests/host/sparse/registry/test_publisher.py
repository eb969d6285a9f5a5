"""Publishing a model that learns: base and deltas are the full snapshot, whatever failed or happened in between."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs
from tests.helpers.sparse_registry import SPEC, ChangingModel, batch_of, compacted, held_by, snapshot

from bitlane.errors import BitlaneError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import PeriodicPublisher, Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import compact
from bitlane.sparse.tables.codebooks import fit_codebook
from bitlane.sparse.tables.locks import ReadersWriterLock
from bitlane.sparse.training.windows import Quality
from bitlane.support.stores import Store

WIDTH = 3
ROWS = "rows-00000.frozen"


def registry_of(folder: Path, rng: np.random.Generator) -> ModelRegistry:
    """A registry on the disk, or on another file system."""
    if rng.random() < 0.1:
        return ModelRegistry(folder / "model")
    return ModelRegistry("some/model", fs._MockFileSystem())


@pytest.mark.parametrize("part", range(5))
def test_base_and_deltas_are_the_full_snapshot(
    part: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 random histories a part, with deletions, failures in writing, and publishers that begin anew."""
    for each in range(10):
        changing = ChangingModel(seed + 10 * part + each)
        rng = changing.rng
        registry = registry_of(tmp_path / str(each), rng)
        publisher = Publisher(registry, changing.model, longest_chain=int(rng.integers(1, 6)))
        for _ in range(5):
            changing.change()
            if rng.random() < 0.25:
                with monkeypatch.context() as broken, pytest.raises(BitlaneError, match="No space left"):
                    fail_writing(broken, int(rng.integers(0, 4)))
                    publisher.publish()
                changing.change()
            version = publisher.publish().version
            weights = changing.weights()
            assert registry.manifest(version).rows == len(weights)
            assert held_by(registry, version, changing.keys) == {k: row for k, row in weights.items() if any(row)}
        assert compacted(registry, version) == snapshot(weights, WIDTH)
        assert len(registry.numbers()) >= 5


def fail_writing(patch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk be full after so many files."""
    written, put = [], Store._put

    def full(store: Store, name: str, *rest: Any, **options: Any) -> None:
        written.append(name)
        if len(written) > after:
            raise OSError(28, "No space left on device")
        put(store, name, *rest, **options)

    patch.setattr(Store, "_put", full)


def test_concurrent_pushes_are_cut_between_updates(seed: int, tmp_path: Path) -> None:
    """Threads push equal gradients to all weights of many keys: in each version, a push is there wholly or not."""
    model = SparseModel(ModelSpec("lr", linear=SPEC.factors, intercept=False))
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2**64, 40_000, dtype=np.uint64))
    groups = np.array_split(rng.permutation(keys), 6)  # each push is to one group, and moves it by the same
    registry = ModelRegistry(tmp_path / "model")
    publisher, stop = Publisher(registry, model, longest_chain=4), threading.Event()

    def push(mine: list[np.ndarray]) -> None:
        draw = np.random.default_rng(seed + len(mine[0]))
        while not stop.is_set():
            group = mine[draw.integers(0, len(mine))]
            model.parameters.push(group, np.full((len(group), 1), draw.normal(), np.float32), create=True)
            if draw.random() < 0.02:
                model.parameters.table.delete(group)

    threads = [threading.Thread(target=push, args=(groups[start::3],)) for start in range(3)]
    for thread in threads:
        thread.start()
    try:
        versions = [publisher.publish().version for _ in range(20)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for version in versions:
        table = registry.load(version).table
        for group in groups:
            weights, _ = table.lookup(group)
            assert len(np.unique(weights)) == 1
    last = publisher.publish().version
    assert {manifest.kind for manifest in registry.versions()} == {"base", "delta"}
    held = keys[model.parameters.table.find(keys) >= 0]
    rows = dict(zip(held.tolist(), map(tuple, model.parameters.pull(held).tolist()), strict=True))
    assert compacted(registry, last) == snapshot(rows, 1)


def test_a_delta_takes_the_bytes_of_the_change(seed: int, tmp_path: Path) -> None:
    model = SparseModel(SPEC)
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2**64, 100_000, dtype=np.uint64))
    model.parameters.pull(keys, create=True)
    publisher = Publisher(ModelRegistry(tmp_path / "model"), model)
    base = publisher.publish()
    some = rng.permutation(keys)[: len(keys) // 100]
    model.parameters.push(some, np.ones((len(some), WIDTH), np.float32))
    delta = publisher.publish()
    assert (delta.kind, delta.changed, delta.deleted) == ("delta", len(some), 0)
    assert delta.nbytes < 1.1 * len(some) * (8 + 4 * WIDTH) + 1000
    assert base.nbytes < len(keys) * (8 + 4 * WIDTH)


def test_deltas_have_the_levels_of_their_base(seed: int, tmp_path: Path) -> None:
    """Values outside of the levels become the outer ones; base and deltas are the full snapshot of these levels."""
    changing = ChangingModel(seed)
    for _ in range(5):
        changing.change()
    codebook = fit_codebook(np.array(list(changing.weights().values()), np.float32), 4)
    registry = ModelRegistry("some/model", fs._MockFileSystem())
    publisher = Publisher(registry, changing.model, codebook=codebook)
    for _ in range(4):
        version = publisher.publish().version
        changing.change()
        for _ in range(5):
            changing.model.learn(batch_of(changing.rng, changing.keys, 200))
    weights = changing.weights()
    version = publisher.publish().version
    assert registry.manifest(version).kind == "delta"
    assert compacted(registry, version) == snapshot(weights, WIDTH, codebook)


def test_after_a_compaction_the_next_delta_is_above_it(tmp_path: Path) -> None:
    changing = ChangingModel(1)
    registry = ModelRegistry(tmp_path / "model")
    publisher = Publisher(registry, changing.model)
    for _ in range(3):
        changing.change()
        publisher.publish()
    assert compact(registry, 3).parent == 3
    changing.change()
    manifest = publisher.publish()
    assert (manifest.kind, manifest.parent, manifest.base) == ("delta", 4, 4)
    assert held_by(registry, 5, changing.keys) == {k: row for k, row in changing.weights().items() if any(row)}


def test_a_periodic_publisher_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changing, lock = ChangingModel(2), ReadersWriterLock()
    registry = ModelRegistry(tmp_path / "model")
    periodic = PeriodicPublisher(Publisher(registry, changing.model, quiet=lock.exclusive), 0.02)
    with periodic:
        threading.Event().wait(0.1)
        assert periodic.published == []  # nothing was learned
        with lock.shared:
            changing.change()
        wait_for(lambda: len(periodic.published) == 1)
        threading.Event().wait(0.1)
        assert len(periodic.published) == 1
        with monkeypatch.context() as broken:
            fail_writing(broken, 1)
            with lock.shared:
                changing.change()
            wait_for(lambda: "No space left" in caplog.text)
        wait_for(lambda: len(periodic.published) == 2)
        with lock.shared:
            changing.change()
        periodic.on_window(window_of(Quality(10, auc=0.75)))
    last = periodic.published[-1]
    assert last.description.metrics == {"auc": 0.75}
    assert registry.manifest(last.version) == last
    assert held_by(registry, last.version, changing.keys) == {
        key: row for key, row in changing.weights().items() if any(row)
    }


def window_of(quality: Quality) -> Any:
    return type("Window", (), {"quality": quality})()


def wait_for(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")
