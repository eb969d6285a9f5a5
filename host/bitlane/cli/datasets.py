"""`bitlane datasets`: list the data sets."""

from __future__ import annotations

import argparse

from bitlane.data.catalog import list_datasets
from bitlane.data.datasets import location_of
from bitlane.support.text import align_columns

from .command import Command


def _run(_: argparse.Namespace) -> None:
    cells = [["data set", "task", "content", "from", "rows", "features"]]
    for entry in list_datasets():
        location = location_of(entry) or "set BITLANE_DATA"
        cells.append([entry.name, entry.task, entry.about, location, f"{entry.rows:,}", f"{entry.features}"])
    print(align_columns(cells, left=4))


COMMAND = Command("datasets", "list the data sets", lambda parser: None, _run)
