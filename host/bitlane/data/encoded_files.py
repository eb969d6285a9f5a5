"""Files of encoded tables as data sets of commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.support.csv_text import numbered_names

from .dataset import Dataset, Floats, TableOptions, choose_columns

SUFFIX = ".bits"


def read_encoded(path: Path, options: TableOptions) -> Dataset:
    """Return the data set in a file of ``bitlane encode``; its X is an `EncodedTable`, of which nothing is decoded.

    The target is that of the file; of several it has to be named.

    Raises
    ------
    DataError
        As of `EncodedTable.open`; a column that is not there, or that is no label.
    """
    table = EncodedTable.open(path)
    columns = table.column_names or numbered_names(table.shape[1])
    labels = table.targets
    if options.impute:
        raise DataError(f"{path.name} is encoded and has no missing values: omit --impute")
    if options.model is None and options.target is None:
        if len(labels) != 1:
            what = f"has {len(labels)} targets: name one with --target" if labels else "has no labels: encode --target"
            raise DataError(f"{path.name} {what}")
        options = replace(options, target=labels[0])
    if options.target in columns:
        raise DataError(f"{path.name}: column {options.target!r} is encoded, not a label: encode it with --target")
    features, position = choose_columns((*columns, *labels), options, path.name)
    features = [each for each in features if each < len(columns)]  # without other targets
    if features != [*range(len(columns))]:
        table = table.take_columns(features)
    y: Any = None
    if position is not None:
        assert table.y is not None
        y = table.y.reshape(len(table), -1)[:, position - len(columns)]
    names = tuple(columns[each] for each in features) if options.model is None else options.model.features
    target = labels[position - len(columns)] if position is not None else ""
    target = options.model.target if options.model is not None else target
    return Dataset(cast(Floats, table), y, names, target)
