"""A model as shards: new ones, and the model that shards hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

from bitlane.sparse.batches.cuts import cut
from bitlane.sparse.batches.source import Source, Stream
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.periods import FIRST_ROWS
from bitlane.sparse.servers.counts import joined
from bitlane.sparse.servers.reshard import merged_state, open_shards
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec

AnyModel = SparseModel | EnrichedModel
Begun = TypeVar("Begun", SparseModel, EnrichedModel)


def new_model(spec: ModelSpec, source: Source) -> SparseModel:
    """Return a new model of a description, without statistics; see `begun`."""
    return begun(SparseModel(spec), source)


def begun(model: Begun, source: Source) -> Begun:
    """Return a new model whose intercept the first rows of a source have set; those of a stream are not waited for.

    Raises
    ------
    DataError
        A row cannot be used.
    """
    if not isinstance(source, Stream):
        with closing(source.batches(0)) as batches:
            first = next(cut(batches, (FIRST_ROWS,)), None)
        if first is not None:
            model.begin(first)
    return model


def create_shard(folder: str | Path, model: AnyModel, server: int, servers: int) -> None:
    """Make the folder of one shard of a new model, which has no rows yet; errors as of `ParameterShard.create`."""
    plain, statistics = (model.model, model.statistics.settings) if isinstance(model, EnrichedModel) else (model, None)
    spec = plain.spec
    matrices = {name: MatrixSpec(each.shape, each.optimizer) for name, each in plain.matrices.items()}
    shard = ShardSpec(
        tuple(spec.blocks()),
        spec.seed,
        spec.admission,
        spec.track_age,
        matrices,
        server,
        servers,
        statistics=statistics,
    )
    ParameterShard.create(folder, shard, plain.pull_dense())


def model_of(spec: ModelSpec, folders: Sequence[str | Path]) -> AnyModel:
    """Return the model that the folders of all shards hold, with their statistics; no server may run.

    Its statistics are those of the newest epoch, and have the rows of all workers.

    Parameters
    ----------
    spec : ModelSpec
    folders : sequence of str or Path
        In the order of the servers.

    Raises
    ------
    DataError
        They are not the shards of one model in order, or a server runs.
    """
    model, counts = SparseModel(spec), []
    with ExitStack() as stack:
        shards = open_shards(folders, stack)
        for shard in shards:
            model.parameters.table.load(shard.parameters.table.items())
            if shard.counts is not None:
                shard.counts.end_periods()  # in memory: a training that goes on has them as they were
                counts.append(shard.counts.newest)
            for name, matrix in shard.matrices.items():
                model.matrices[name].restore(matrix.state())
        model.parameters.table.restore(merged_state([shard.parameters.table.state() for shard in shards]))
    return EnrichedModel(model, joined(counts)) if counts else model
