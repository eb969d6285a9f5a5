"""The minibatches of a worker, each with the offset behind it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.cuts import cut
from bitlane.sparse.batches.source import Source, Stream


def minibatches(
    source: Source, rows: int, epochs: int, offset: Mapping[str, Any]
) -> Generator[tuple[Batch, dict[str, Any]], None, None]:
    """Yield minibatches and the offsets behind them.

    Parameters
    ----------
    source : FileSource or FolderStream
        A stream resumes at its own offset, and its batches are not cut.
    rows : int
        Of a minibatch; the last one of an epoch may have fewer.
    epochs : int
    offset : dict
        Where to resume: empty, or a yielded offset. Its ``"learned"`` counts the rows of all epochs before it, and its
        ``"weight"`` is theirs, if that is another number.
    """
    learned, weight = learned_before(offset), weight_before(offset)

    def behind(batch: Batch) -> dict[str, Any]:
        nonlocal learned, weight
        learned, weight = learned + batch.rows, weight + batch.total_weight
        return {"learned": learned, **({} if weight == learned else {"weight": weight})}

    if isinstance(source, Stream):
        with closing(source.batches(0)) as batches:
            for batch in batches:
                yield batch, {**source.offset.as_json(), **behind(batch)}
        return
    epoch, start = int(offset.get("epoch", 0)), int(offset.get("rows", 0))
    while epoch < epochs:
        with closing(source.batches(epoch, start)) as batches:
            done = start
            for batch in cut(batches, (rows,), start):
                done += batch.rows
                yield batch, {"epoch": epoch, "rows": done, **behind(batch)}
        epoch, start = epoch + 1, 0


def learned_before(offset: Mapping[str, Any]) -> int:
    """Return how many rows a worker has learned before an offset, those of earlier epochs and runs included."""
    return int(offset.get("learned", 0))


def weight_before(offset: Mapping[str, Any]) -> float:
    """Return the weight of the rows that a worker has learned before an offset: their number without weights."""
    return float(offset.get("weight", learned_before(offset)))
