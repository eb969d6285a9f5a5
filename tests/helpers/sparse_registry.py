"""Models that change at random, what they hold as a dictionary, and the files that a full snapshot has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from tests.helpers.sparse_tables import MARKED, keys_in_order

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import compact
from bitlane.sparse.tables.codebooks import Codebook
from bitlane.sparse.tables.frozen import freeze

SPEC = ModelSpec("fm", dim=2, linear=FTRL(l1=0.01), factors=SGD(0.1))


def batch_of(rng: np.random.Generator, keys: np.ndarray, rows: int) -> Batch:
    """Rows of three random keys each."""
    chosen = rng.choice(keys, 3 * rows)
    fields, values, labels = np.zeros(3 * rows, np.uint16), np.ones(3 * rows, np.float32), rng.integers(0, 2, rows)
    return Batch(chosen, fields, values, np.arange(0, 3 * rows + 1, 3), labels.astype(np.float32))


class ChangingModel:
    """A model that learns, forgets keys and sweeps, at random."""

    def __init__(self, seed: int, keys: int = 200, spec: ModelSpec = SPEC):
        self.rng = np.random.default_rng(seed)
        self.keys = np.append(self.rng.integers(0, 2**64, keys, dtype=np.uint64), np.array([0, MARKED], np.uint64))
        self.model = SparseModel(spec)

    def change(self, rows: int = 20) -> None:
        some = self.rng.choice(self.keys, self.rng.integers(3, len(self.keys)))
        self.model.learn(batch_of(self.rng, some, int(self.rng.integers(1, rows))))
        kind = self.rng.integers(0, 4)
        if kind == 0:
            self.model.parameters.table.delete(self.rng.choice(self.keys, 10))
        if kind == 1:
            self.model.parameters.table.sweep(self.model.parameters.has_weight)

    def weights(self) -> dict[int, tuple[float, ...]]:
        """The serving weights by key."""
        table = self.model.parameters.table
        held = np.array([key for key in np.unique(self.keys) if table.find(np.array([key]))[0] >= 0], np.uint64)
        return {int(key): tuple(row) for key, row in zip(held, self.model.parameters.pull(held).tolist(), strict=True)}


def snapshot(weights: dict[int, tuple[float, ...]], width: int, codebook: Codebook | None = None) -> bytes:
    """The bytes of the file of a full snapshot."""
    keys = np.array(keys_in_order(weights), np.uint64)
    rows = np.array([weights[int(key)] for key in keys], np.float32).reshape(len(keys), width)
    return b"".join(freeze([(keys, rows)], len(keys), width, codebook).buffers())


def compacted(registry: ModelRegistry, version: int) -> bytes:
    """The file of rows of a version as a base."""
    manifest = registry.manifest(version)
    if manifest.kind == "delta":
        version = compact(registry, version).version
    return registry.folder(version).read("rows-00000.frozen")


def held_by(registry: ModelRegistry, version: int, keys: np.ndarray) -> dict[int, tuple[float, ...]]:
    """The weights of a version that was loaded; keys with a row of zeros are left out."""
    weights, found = registry.load(version).table.lookup(np.unique(keys))
    rows = zip(np.unique(keys).tolist(), weights.tolist(), found.tolist(), strict=True)
    return {key: tuple(row) for key, row, there in rows if there and any(row)}


def saved(folder: Path, model: SparseModel, data: dict[str, object] | None = None) -> Path:
    """A model in a new folder, with the settings of a training that made it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model.save(folder)
    if data is not None:
        (folder / "training.json").write_text(json.dumps({"data": {**data, "paths": ["rows.csv"], "digest": "7f"}}))
    return folder


def files_of(folder: Path) -> list[Path]:
    """All files below a folder, but for locks."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
