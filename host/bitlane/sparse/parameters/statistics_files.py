"""Statistics in a folder: their settings and totals in model.json, the counts of keys beside, as those of a model."""

from __future__ import annotations

from pathlib import Path

from bitlane.errors import DataError
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.counting import WIDTH
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings


def write_statistics(folder: Path, statistics: Statistics) -> None:
    """Make a folder with statistics. Updates wait until all rows are written."""
    folder.mkdir()
    with statistics.table.frozen():
        record = {"settings": statistics.to_json(), "totals": statistics.totals()}
        storage.write_dense(folder, statistics.table.state())
        storage.write_rows(folder, statistics.table.items(storage.CHUNK_ROWS), WIDTH)
    storage.write_description(folder, record)


def read_statistics(folder: Path) -> Statistics:
    """Return the statistics that `write_statistics` wrote, with the same bits.

    Raises
    ------
    DataError
        A file is missing or damaged.
    """
    record = storage.read_description(folder)
    try:
        statistics = Statistics(StatisticsSettings(**record["settings"]))
        state = storage.read_dense(folder)
        statistics.restore(record["totals"], storage.read_rows(folder, WIDTH))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{folder / storage.DESCRIPTION} is damaged: {error}") from error
    statistics.table.restore(state)
    return statistics
