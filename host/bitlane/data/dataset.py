"""A table of samples, and how its columns are chosen from those of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.csv_text import column_of
from bitlane.support.text import near_names, some_names
from bitlane.support.user_warnings import warn_user

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """A table of samples with its labels.

    Attributes
    ----------
    X : float64 array [rows, n]
        Finite.
    y : float64 or str array [rows]
        Text if the labels are text. None in rows that are read for a model and have no labels.
    feature_names : tuple of str
    target : str
        Name of the label column.
    held_out : tuple of arrays, optional
        A second (X, y) that is not used for training.
    means : float64 array [n], optional
        What missing features were replaced by.
    """

    X: Floats
    y: Any
    feature_names: tuple[str, ...]
    target: str
    held_out: tuple[Floats, NDArray[Any]] | None = None
    means: Floats | None = None

    @property
    def rows(self) -> int:
        """Number of rows for training."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


@dataclass(frozen=True)
class ModelColumns:
    """The columns that a trained model reads.

    Attributes
    ----------
    features : tuple of str
        In the order of the model's coefficients.
    target : str
    labelled : bool
        Whether the labels are read.
    means : float64 array [n], optional
        They replace missing features.
    """

    features: tuple[str, ...]
    target: str
    labelled: bool
    means: Floats | None = None


@dataclass(frozen=True)
class TableOptions:
    """How a file is read.

    Attributes
    ----------
    target : str, optional
        Name of the label column; of columns without names its number, 0 for the first and -1 for the last.
    impute : bool, default=False
        Whether missing and infinite features are replaced by the mean of their column. Labels are never replaced.
    separator : str, optional
        Of the columns of a csv file; by default a comma, and a tab in tsv.
    ignore : tuple of str
        Columns that are not read.
    header : bool, default=True
        Whether the first row of a csv file has the column names. Without, they are x0, x1, ...
    model : ModelColumns, optional
        Read these columns, for a model that was trained on them.
    """

    target: str | None = None
    impute: bool = False
    separator: str | None = None
    ignore: tuple[str, ...] = ()
    header: bool = True
    model: ModelColumns | None = None


def choose_columns(
    names: Sequence[str], options: TableOptions, file: str, *, named: bool = True
) -> tuple[list[int], int | None]:
    """Return the positions of the features, and that of the target or None.

    Parameters
    ----------
    names : sequence of str
        All columns of the file.
    options : TableOptions
    file : str
        Its name, for the errors.
    named : bool, default=True
        False: the columns are x0, x1, ..., and their numbers name them too. A model then takes all columns of a file
        that has as many as it has features.

    Raises
    ------
    DataError
        A column is missing or there twice, or there is no feature.
    """
    if not named:
        if options.model is not None and len(names) == len(options.model.features):
            return [*range(len(names))], None
        options = _by_name(names, options, file)
    if options.model is not None:
        return _columns_of_model(names, options.model, options.ignore, file)
    for name in options.ignore:
        _position(names, name, file)
    if options.target is None:
        raise DataError(f"{file} needs a target column, named with --target; it has {some_names(names)}")
    position = _position(names, options.target, file)
    if options.target in options.ignore:
        raise DataError(f"{file}: column {options.target!r} is the target and cannot be ignored")
    features = [index for index, name in enumerate(names) if index != position and name not in options.ignore]
    if not features:
        raise DataError(f"{file} has no column except the target {options.target!r}: there is nothing to learn from")
    return features, position


def _by_name(names: Sequence[str], options: TableOptions, file: str) -> TableOptions:
    """Return the options with names for numbers of columns."""
    numbers = f"0 to {len(names) - 1}"
    if options.target is None and options.model is None:
        raise DataError(f"{file} needs a target: a column number, {numbers}, or -1")
    given = [*options.ignore, *([] if options.target is None else [options.target])]
    for name in given:
        if column_of(name, names) not in names:
            raise DataError(f"{file} has no column {name!r}: its columns are numbered {numbers}")
    target = None if options.target is None else column_of(options.target, names)
    return replace(options, target=target, ignore=tuple(column_of(name, names) for name in options.ignore))


def _columns_of_model(
    names: Sequence[str], model: ModelColumns, ignore: Sequence[str], file: str
) -> tuple[list[int], int | None]:
    missing = [name for name in model.features if name not in names]
    if missing:
        near = near_names(missing[0], [name for name in names if name not in model.features])
        raise DataError(f"{file} lacks {_some_columns(missing)}, which the model was trained on{near}")
    known = {*model.features, model.target, *ignore}
    if more := [name for name in names if name not in known]:
        warn_user(f"{file}: the model does not use {_some_columns(more)}")
    features = [_position(names, name, file) for name in model.features]
    if not model.labelled:
        return features, None
    if model.target not in names:
        raise DataError(f"{file} lacks the target column {model.target!r}{near_names(model.target, list(names))}")
    return features, _position(names, model.target, file)


def _position(names: Sequence[str], name: str, file: str) -> int:
    if name not in names:
        near = near_names(name, list(names)) or f"; it has {some_names(names)}"
        raise DataError(f"{file} has no column {name!r}{near}")
    if (count := Counter(names)[name]) > 1:
        raise DataError(f"{file} has {count} columns named {name!r}: rename them")
    return list(names).index(name)


def _some_columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {some_names(names)}"
