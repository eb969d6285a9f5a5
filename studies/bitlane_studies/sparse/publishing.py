"""Measure publishing: `python -m bitlane_studies.sparse.publishing --rows 50000000`.

A model in memory publishes a base, then deltas of a share of its rows. Beside each is a plain copy of the same bytes
from file to file, forced to the disk as well. The bytes are compared with those of the keys and weights.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.support.text import align_columns

CHUNK = 1 << 20  # keys that are pushed at once
_BLOCK = 1 << 24  # bytes that are copied at once
_STEP = np.uint64(0x9E3779B97F4A7C15)  # keys are multiples of it: all different

Keys = NDArray[np.uint64]


def keys_of(count: int) -> Keys:
    """Return different keys, uint64 [count]."""
    return np.asarray(np.arange(count, dtype=np.uint64) * _STEP)


def push(model: SparseModel, keys: Keys, draw: np.random.Generator) -> None:
    """Insert the keys, and take a random step for each."""
    values = model.parameters.layout.values
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        model.parameters.push(chunk, draw.standard_normal((len(chunk), values), np.float32), create=True)


def copy(files: Sequence[Path], folder: Path) -> None:
    """Copy files, and force them to the disk."""
    for file in files:
        with open(file, "rb") as source, open(folder / file.name, "wb") as target:
            while block := source.read(_BLOCK):
                target.write(block)
            target.flush()
            os.fsync(target.fileno())


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def files_of(registry: ModelRegistry, manifest: Manifest) -> list[Path]:
    """Return the files of a version on the local disk."""
    folder = registry.folder(manifest.version)
    return [Path(folder.name_of(file.name)) for file in manifest.files]


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish, copy, and print a table."""
    parser = argparse.ArgumentParser(description="Measure publishing of a model in memory.")
    parser.add_argument("--rows", type=int, default=2_000_000, metavar="N", help="of the model (default: 2,000,000)")
    parser.add_argument("--share", type=float, default=0.01, help="of the rows that a delta changes (default: 0.01)")
    parser.add_argument("--deltas", type=int, default=5, metavar="N", help="the median counts (default: 5)")
    parser.add_argument("--kind", choices=("lr", "fm"), default="lr", help="fm has 9 weights a row (default: lr)")
    parser.add_argument("--folder", type=Path, help="of the files, which are removed (default: a temporary one)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    if options.rows < 1 or not 0 < options.share <= 1 or options.deltas < 1:
        parser.error("--rows and --deltas must be at least 1, --share above 0 and at most 1")
    draw = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        cells = measure(options, Path(folder), draw)
    print(align_columns(cells))


def measure(options: argparse.Namespace, folder: Path, draw: np.random.Generator) -> list[list[str]]:
    """Return the table: seconds of publishing and of copies, and bytes."""
    for name, rows in (("warm", 1000), ("model", options.rows)):
        registry, model = ModelRegistry(folder / name), SparseModel(ModelSpec(options.kind))
        push(model, keys_of(rows), draw)
        publisher, plain = Publisher(registry, model), folder / f"{name}-copy"
        plain.mkdir()
        found: list[Manifest] = []
        base_seconds = seconds(lambda p=publisher, f=found: f.append(p.publish()))  # type: ignore[misc]
        base = found[0]
        base_copy = seconds(lambda b=base, r=registry, to=plain: copy(files_of(r, b), to))  # type: ignore[misc]
        changed = max(1, round(options.share * rows))
        times = []
        for _ in range(options.deltas):
            push(model, draw.choice(rows, changed, replace=False).astype(np.uint64) * keys_of(2)[1], draw)
            took = seconds(lambda p=publisher, f=found: f.append(p.publish()))  # type: ignore[misc]
            delta = found[-1]
            times.append((took, seconds(lambda d=delta, r=registry, to=plain: copy(files_of(r, d), to))))  # type: ignore[misc]
    delta_seconds, delta_copy = np.median(np.array(times), axis=0).tolist()
    row_bytes = 8 + 4 * model.parameters.layout.values
    return [
        ["", "rows", "publish, s", "plain copy, s", "MB", "bytes / (key + weights)"],
        *(
            [
                each.kind,
                f"{each.changed:,}",
                f"{took:.2g}",
                f"{copied:.2g}",
                f"{each.nbytes / 1e6:,.2f}",
                f"{each.nbytes / (each.changed * row_bytes):.3f}",
            ]
            for each, took, copied in ((base, base_seconds, base_copy), (delta, delta_seconds, delta_copy))
        ),
    ]


if __name__ == "__main__":
    main()
