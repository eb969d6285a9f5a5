"""Publishing a model that is in a folder: the last checkpoint of a training, or a saved model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.models.enriched import has_statistics
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry.manifest import Description, Manifest, check_successor
from bitlane.sparse.registry.publisher import metrics_of
from bitlane.sparse.registry.quantizing import Quantization, frozen_model
from bitlane.sparse.registry.registry import Draft, ModelRegistry
from bitlane.sparse.registry.writing import Written, write_version
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.servers.cuts import Cut, cut_of
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import merged, write_cut
from bitlane.sparse.tables.codebooks import Codebook
from bitlane.sparse.tables.frozen import FrozenTable, freeze
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.run_folder import LEARNED, find_model, read_settings

_HASHING = ("schema", "label", "task", "fields")  # of the settings of a training: what a request becomes features by
# And how files of held-out rows are read, where it is not as usual.
_READING = ("format", "positive", "weight", "sep", "header", "names", "encoding", "comment", "namespaces")
_LEARNED = ("files", "test_fraction", "follow", "paths", LEARNED)  # and which rows it has learned
_SHARES = ("negatives",)  # and of which of them a share

Keys = NDArray[np.uint64]


def publish_folder(
    registry: ModelRegistry,
    path: str | Path,
    *,
    parent: int | None = None,
    shards: int = 1,
    quantize: Callable[[SparseModel], Quantization] | None = None,
    calibrate: Callable[[FrozenModel], Mapping[str, Any] | None] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Manifest:
    """Publish the model of a folder.

    Parameters
    ----------
    registry : ModelRegistry
    path : str or Path
        A run folder, or the folder of a saved model.
    parent : int, optional
        Publish what differs from this version. Default: a base, with all rows.
    shards : int, default=1
        Of a base; a change has those of its parent.
    quantize : callable, optional
        Of a base: returns the levels of the model's values, see `choose_levels`. Default: float32.
    calibrate : callable, optional
        Returns the record of a calibrator for the model as this version will score it, see `fit_calibrator`. Default:
        a change has that of its parent.
    metrics : dict of float, optional
        For the manifest. Default: those of the training's last window, if there is one.

    Returns
    -------
    Manifest

    Raises
    ------
    DataError
        There is no model, it has statistics, or it cannot be a change of the parent.
    BitlaneError
        It cannot be written.
    """
    folder = find_model(path)
    if has_statistics(folder):
        raise DataError(f"{path}: models with statistics cannot be published yet")
    model = SparseModel.load(folder)
    chain = [] if parent is None else registry.chain(parent)
    partition = Partition(chain[-1].shards, chain[-1].virtual_shards) if chain else Partition(shards)
    settings = read_settings(folder)
    quantization = None if quantize is None or parent is not None else quantize(model)
    codebook = None if quantization is None else quantization.codebook
    description = Description(
        model.spec,
        data_of(None if settings is None else settings.get("data")),
        model.rows_seen,
        last_metrics(folder) if metrics is None else metrics,
        None if quantization is None else quantization.record,
    )
    if calibrate is not None:
        if chain:
            check_successor(chain[-1], description, partition.servers, partition.virtual_shards)
        levels = registry.shard(chain[:1], 0)[0].rows.codebook if chain else codebook
        description = replace(description, calibrator=calibrate(frozen_model(model, levels)))

    def write(draft: Draft) -> list[Written]:
        written = []
        for shard in range(partition.servers):
            old = merged(registry.shard(chain, shard)) if chain else None
            cut = _cut(model, partition, shard, old, codebook)
            written.append(Written(write_cut(draft.folder, shard, cut), cut.total, cut.clipped))
        return written

    return write_version(registry, description, partition, chain, write)


def data_of(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a manifest keeps of the settings of a training's data."""
    if not settings:
        return {}
    hashing = {name: settings.get(name) for name in _HASHING}
    hashing |= {name: settings[name] for name in (*_READING, *_SHARES) if settings.get(name) not in (None, True)}
    return hashing | ({name: settings.get(name) for name in _LEARNED} if "files" in settings else {})


def last_metrics(model_folder: Path) -> dict[str, float]:
    """Return AUC and other metrics of the last window of the training of a model; empty without its log."""
    run = model_folder.parent.parent
    try:
        windows = [line for line in read_log(run) if line["kind"] == "window"]
    except DataError:
        return {}
    return metrics_of(windows[-1]) if windows else {}


def _cut(
    model: SparseModel, partition: Partition, shard: int, old: FrozenTable | None, codebook: Codebook | None
) -> Cut:
    def is_mine(keys: Keys) -> NDArray[np.bool_]:
        mine: NDArray[np.bool_] = partition.owners(keys) == shard
        return mine

    parameters = model.parameters
    if partition.servers == 1:
        full = freeze(parameters.items(), len(parameters.table), parameters.layout.values)
    else:
        total = sum(int(np.count_nonzero(is_mine(keys))) for keys, *_ in parameters.table.items())
        full = freeze(parameters.items(is_mine), total, parameters.layout.values)
    dense = {name: weights for name, weights in model.pull_dense().items() if partition.owner_of_name(name) == shard}
    return cut_of(full, dense, codebook, old)
