"""The statistics of keys on one server: the counts of its keys, and the totals of all rows.

Each step of a worker has what its minibatch adds to the counts of this server's keys, and to the totals, which all
servers have. The counts of a worker become visible at the end of its period, a fixed number of minibatches: until then
they wait. Each epoch has counts of its own, since a second pass over a row would find its label in them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.counting import WEIGHT, WIDTH
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings, Tally
from bitlane.sparse.parameters.statistics_files import read_statistics, write_statistics
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.servers.key_codec import decode_keys, encode_keys
from bitlane.sparse.servers.reads import CountsWanted

# keys, bytes of the keys, epoch, whether the period ends, whether sums are float64, weight of the rows and of clicks
_HEAD = struct.Struct("<IIIBB2xdd")
_FOLDER, _WAITING = "statistics-{}", "waiting-counts"

Keys = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CountChunk:
    """What a minibatch adds to the counts.

    Attributes
    ----------
    tally : Tally
        With ascending keys.
    epoch : int
    ends : bool
        Whether it is the last one of the worker's period.
    """

    tally: Tally
    epoch: int
    ends: bool

    def take(self, chosen: NDArray[np.int64]) -> CountChunk:
        """Return the chunk with some of the keys, and all rows."""
        return replace(self, tally=replace(self.tally, words=self.tally.words[chosen], sums=self.tally.sums[chosen]))

    def to_bytes(self) -> Bytes:
        """Return the chunk as bytes, uint8 [n]."""
        tally, keys = self.tally, encode_keys(self.tally.words)
        singles = tally.sums.astype(np.float32)
        exact = bool(np.array_equal(singles, tally.sums))
        sums = np.ascontiguousarray(singles if exact else tally.sums)
        head = _HEAD.pack(len(tally.words), len(keys), self.epoch, self.ends, not exact, tally.rows, tally.clicks)
        return np.concatenate([np.frombuffer(head, np.uint8), keys, sums.view(np.uint8).ravel()])

    @classmethod
    def from_bytes(cls, data: Bytes) -> CountChunk:
        """Return the chunk of `to_bytes`.

        Raises
        ------
        DataError
            The bytes are no chunk.
        """
        try:
            count, size, epoch, ends, double, rows, clicks = _HEAD.unpack_from(data.data)
        except struct.error as error:
            raise DataError(f"not the counts of a step: {error}") from error
        at = _HEAD.size + size
        if len(data) != at + (16 if double else 8) * count:
            raise DataError(f"the counts of {count} keys have {len(data)} bytes: the message is damaged")
        words = decode_keys(data[_HEAD.size : at], count)
        sums = data[at:].copy().view(np.float64 if double else np.float32).reshape(count, 2).astype(np.float64)
        if not (np.isfinite(sums).all() and np.isfinite([rows, clicks]).all()):
            raise DataError("the counts of a step must be finite")
        return cls(Tally(words, sums, rows, clicks), epoch, bool(ends))


class ShardCounts:
    """The counts of one shard. The shard's lock guards it.

    Parameters
    ----------
    settings : StatisticsSettings
        With `unit` "rows" and `sightings` 1.

    Attributes
    ----------
    epochs : dict from int to Statistics
        Of each epoch in which some worker is.
    waiting : dict from int to list of CountChunk
        Of each worker, in its current period.
    """

    def __init__(self, settings: StatisticsSettings):
        check_settings(settings)
        self.settings = settings
        self.epochs: dict[int, Statistics] = {}
        self.waiting: dict[int, list[CountChunk]] = {}
        self._epoch_of: dict[int, int] = {}

    def add(self, worker: int, chunk: CountChunk, workers: int) -> None:
        """Take a minibatch of a worker; forget the epochs that all workers have behind them."""
        waiting = self.waiting.setdefault(worker, [])
        if waiting and waiting[0].epoch != chunk.epoch:
            self._end_period(worker)
        self.waiting.setdefault(worker, []).append(chunk)
        self._epoch_of[worker] = chunk.epoch
        if chunk.ends:
            self._end_period(worker)
        oldest = min(self._epoch_of.get(each, 0) for each in range(workers))
        for epoch in [each for each in self.epochs if each < oldest]:
            del self.epochs[epoch]

    def read(self, wanted: CountsWanted) -> tuple[Singles, dict[str, Any]]:
        """Return the counts of keys, float32 [n, 4], zeros where a key was never seen, and the totals."""
        rows = np.zeros((len(wanted.words), WIDTH), np.float32)
        statistics = self.epochs.get(wanted.epoch)
        if statistics is None:
            return rows, Statistics(self.settings).totals()
        with statistics.table.updating():
            slots = statistics.table.find(wanted.words)
            rows[slots >= 0] = statistics.table.rows[slots[slots >= 0]]
        return rows, statistics.totals()

    def end_periods(self) -> None:
        """Count what waits, in the order of the workers."""
        for worker in sorted(self.waiting):
            self._end_period(worker)

    @property
    def newest(self) -> Statistics:
        """The counts of the newest epoch."""
        return self.epochs[max(self.epochs)] if self.epochs else Statistics(self.settings)

    # --- in a checkpoint
    def write(self, folder: Path) -> dict[str, Any]:
        """Write the files of a checkpoint to its folder; return what its description keeps, as plain JSON."""
        for epoch, statistics in self.epochs.items():
            write_statistics(folder / _FOLDER.format(epoch), statistics)
        sizes = []
        with (folder / _WAITING).open("wb") as file:
            for worker, chunks in sorted(self.waiting.items()):
                for chunk in chunks:
                    data = chunk.to_bytes()
                    sizes.append([worker, len(data)])
                    file.write(data.tobytes())
        workers = {str(worker): epoch for worker, epoch in self._epoch_of.items()}
        return {"epochs": sorted(self.epochs), "workers": workers, "waiting": sizes}

    def read_back(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Set empty counts to what `write` wrote.

        Raises
        ------
        DataError
            A file is missing or damaged.
        """
        self.epochs = {int(epoch): read_statistics(folder / _FOLDER.format(epoch)) for epoch in record["epochs"]}
        self._epoch_of = {int(worker): int(epoch) for worker, epoch in record["workers"].items()}
        path = folder / _WAITING
        try:
            data, at = np.frombuffer(path.read_bytes(), np.uint8), 0
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        for worker, size in record["waiting"]:
            self.waiting.setdefault(int(worker), []).append(CountChunk.from_bytes(data[at : at + size]))
            at += size
        if at != len(data):
            raise DataError(f"{path} is damaged: it has {len(data)} bytes, not {at}")

    # --- inside
    def _end_period(self, worker: int) -> None:
        chunks = self.waiting.pop(worker, [])
        if chunks:
            statistics = self.epochs.setdefault(chunks[0].epoch, Statistics(self.settings))
            statistics.count(_joined_tally([chunk.tally for chunk in chunks]))


def counts_for(counts: ShardCounts | None, wanted: CountsWanted | None) -> tuple[Any, Any]:
    """Return what `ShardCounts.read` does, or (None, None) where nothing is wanted.

    Raises
    ------
    DataError
        The shard counts nothing.
    """
    if wanted is None:
        return None, None
    if counts is None:
        raise DataError("the model has no statistics")
    return counts.read(wanted)


def check_settings(settings: StatisticsSettings) -> None:
    """Raise DataError if servers cannot count so."""
    if settings.unit != "rows" or settings.sightings > 1:
        raise DataError(
            f"statistics with unit={settings.unit!r} and sightings={settings.sightings}: "
            "servers count with unit='rows' and sightings=1"
        )


def joined(parts: Sequence[Statistics], keep: Callable[[Keys], NDArray[np.bool_]] | None = None) -> Statistics:
    """Return the counts of several shards as one.

    Parameters
    ----------
    parts : sequence of Statistics
        Of the same epoch and settings.
    keep : callable, optional
        Returns for keys [n] which of them are wanted. Default: all.
    """
    first, settings = parts[0].totals(), parts[0].settings

    def chunks() -> Iterator[tuple[Any, ...]]:
        for part in parts:
            factor = decay_between(part.totals(), first, settings)
            for keys, rows, *_ in part.table.items():
                chosen = np.ones(len(keys), np.bool_) if keep is None else keep(keys)
                rows = rows[chosen]
                rows[:, WEIGHT:] *= np.float32(factor)
                yield keys[chosen], rows

    statistics = Statistics(settings)
    statistics.restore(first, chunks())
    return statistics


def moved(shards: Sequence[ShardCounts], keep: Callable[[Keys], NDArray[np.bool_]]) -> ShardCounts:
    """Return the counts of a new shard, which has the wanted keys of all shards; each worker's steps are complete."""
    counts = ShardCounts(shards[0].settings)
    counts._epoch_of = dict(shards[0]._epoch_of)
    counts.epochs = {epoch: joined([shard.epochs[epoch] for shard in shards], keep) for epoch in shards[0].epochs}
    for worker in shards[0].waiting:
        for chunks in zip(*(shard.waiting[worker] for shard in shards), strict=True):
            words = np.concatenate([chunk.tally.words for chunk in chunks])
            sums = np.concatenate([chunk.tally.sums for chunk in chunks])
            order = np.argsort(words)
            order = order[keep(words[order])]
            tally = replace(chunks[0].tally, words=words[order], sums=sums[order])
            counts.waiting.setdefault(worker, []).append(replace(chunks[0], tally=tally))
    return counts


def decay_between(totals: Mapping[str, Any], others: Mapping[str, Any], settings: StatisticsSettings) -> float:
    """Return the factor from decayed counts of one server to those of another: 1 unless their landmarks differ."""
    if settings.half_life is None or totals["landmark"] == others["landmark"]:
        return 1.0
    return float(np.exp2((totals["landmark"] - others["landmark"]) / settings.half_life))


def _joined_tally(tallies: Iterable[Tally]) -> Tally:
    """Return what several minibatches add together."""
    given = list(tallies)
    if len(given) == 1:
        return given[0]
    words, index = unique_keys(np.concatenate([each.words for each in given]))
    sums = np.zeros((len(words), 2))
    np.add.at(sums, index, np.concatenate([each.sums for each in given]))
    return Tally(words, sums, sum(each.rows for each in given), sum(each.clicks for each in given))
