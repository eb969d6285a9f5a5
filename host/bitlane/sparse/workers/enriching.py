"""A worker's statistics: minibatches get the counts that the servers have, and add theirs to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.enriched import period_rows
from bitlane.sparse.parameters.counting import COUNT, WIDTH
from bitlane.sparse.parameters.statistics import Sightings, Statistics, StatisticsSettings, tally_of
from bitlane.sparse.periods import piece_rows
from bitlane.sparse.servers.counts import CountChunk, check_settings
from bitlane.sparse.servers.reads import CountsWanted
from bitlane.sparse.servers.training import RemoteRead


@dataclass(frozen=True, eq=False)
class PreparedCounts:
    """A minibatch with what it needs of the counts, and what it adds to them.

    Attributes
    ----------
    batch : Batch
        With the features of the statistics, whose values are not those of `Enricher.enrich` yet.
    sightings : Sightings
    slots : int64 [n]
        Index of each sighting's key among those of the chunk.
    chunk : CountChunk
    """

    batch: Batch
    sightings: Sightings
    slots: NDArray[np.int64]
    chunk: CountChunk

    @property
    def wanted(self) -> CountsWanted:
        """The counts that are read."""
        return CountsWanted(self.chunk.tally.words, self.chunk.epoch)


class Enricher:
    """Adds statistics to the minibatches of one worker.

    A worker's counts become visible at the end of its period: the minibatches that together have at least
    `batch_rows` rows of all workers. With one worker these are the rows that `EnrichedModel` counts at once.

    Parameters
    ----------
    settings : StatisticsSettings
    workers : int
    minibatch_rows : int
    window_rows : int
        Of a window of progressive validation: a period does not reach over its end, as in a local training.
    """

    def __init__(self, settings: StatisticsSettings, workers: int, minibatch_rows: int, window_rows: int):
        check_settings(settings)
        # Their tables stay empty. A thread prepares minibatches while another enriches them.
        self._preparing, self._enriching = Statistics(settings), Statistics(settings)
        shared = replace(settings, batch_rows=-(-settings.batch_rows // workers))
        self._period = period_rows(shared, minibatch_rows)
        self._pieces = piece_rows(minibatch_rows, window_rows)

    def prepare(self, batch: Batch, offset: Mapping[str, Any]) -> PreparedCounts:
        """Return what a minibatch reads and adds; `offset` is behind it.

        Raises
        ------
        DataError
            A label is neither 0 nor 1.
        """
        statistics = self._preparing
        statistics.check(batch)
        sightings = statistics.select(batch)
        tally = tally_of(sightings, batch)
        order = np.argsort(tally.words)
        tally = replace(tally, words=tally.words[order], sums=tally.sums[order])
        chunk = CountChunk(tally, int(offset.get("epoch", 0)), self._ends_period(offset))
        slots = np.searchsorted(tally.words, sightings.words)
        none = np.zeros((len(tally.words), WIDTH), np.float32)
        return PreparedCounts(statistics.enriched(batch, sightings, none, slots), sightings, slots, chunk)

    def enrich(self, batch: Batch, prepared: PreparedCounts, read: RemoteRead) -> Batch:
        """Return a minibatch with the features of the statistics."""
        self._enriching.set_totals(read.totals)
        seen = read.counts[prepared.slots, COUNT] > 0
        return self._enriching.enriched(batch, prepared.sightings, read.counts, np.where(seen, prepared.slots, -1))

    def _ends_period(self, offset: Mapping[str, Any]) -> bool:
        if "rows" not in offset:  # of a stream, each batch is a period
            return True
        rows = int(offset["rows"])
        begin = max(rows // size * size for size in self._pieces)
        return (rows - begin) % self._period == 0
