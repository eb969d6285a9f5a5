"""`bitlane datasets`: list the data sets."""

from __future__ import annotations

import argparse

from bitlane.data.catalog import list_datasets
from bitlane.data.datasets import location_of
from bitlane.support.text import align_columns

from .command import Command
from .summaries import SUMMARIES

NOWHERE = "-"


def _run(_: argparse.Namespace) -> None:
    cells = [["data set", "task", "from", "rows x features", "content"]]
    for entry in list_datasets():
        location = location_of(entry) or NOWHERE
        cells.append([entry.name, entry.task, location, f"{entry.rows:,} x {entry.features:>3}", entry.about])
    print(align_columns(cells, left=3, wrap=True))
    if any(row[2] == NOWHERE for row in cells):
        print(f"\n{NOWHERE} in the column from: set BITLANE_DATA to a folder that has NAME.npz")


COMMAND = Command("datasets", SUMMARIES["datasets"], lambda parser: None, _run)
