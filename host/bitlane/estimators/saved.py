"""Fitted estimators in files: `model.npz`, which `bitlane train --out FOLDER` writes."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.ranges import Ranges, TableRanges
from bitlane.quantization.scaling import Floats
from bitlane.support.checkpoint_folders import checkpoints_of
from bitlane.support.file_names import MODEL_NAME, names_beside
from bitlane.support.text import near_names

from .sgd import SGDClassifier, SGDRegressor

FORMAT = 2
RANGES = ("low", "high", "mean", "sample", "numbers")  # arrays of `Ranges`
KINDS = {"SGDRegressor": SGDRegressor, "SGDClassifier": SGDClassifier}
_DAMAGE = (KeyError, TypeError, ValueError, EOFError, OSError, AttributeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class SavedModel:
    """A model and the table that it was trained on.

    Attributes
    ----------
    estimator : SGDRegressor or SGDClassifier
        Fitted, but without `run_`, `loss_curve_` and `feature_names_in_`.
    feature_names : tuple of str
        x0, x1, ... if the table had no column names.
    target : str
        Name of the label column.
    means : float64 array [n], optional
        What missing features were replaced by.
    reading : dict
        How the table was read: separator, header, ignored columns.
    """

    estimator: SGDRegressor | SGDClassifier
    feature_names: tuple[str, ...]
    target: str
    means: Floats | None
    reading: Mapping[str, Any]


def load(path: str | Path) -> SGDRegressor | SGDClassifier:
    """Return the fitted estimator that `bitlane train --out FOLDER` has written.

    Its predictions are those of the trained estimator, bit for bit; `partial_fit` goes on with it. It has no `run_` and
    no `loss_curve_`: what the training measured is in the run folder. If the table had column names, the estimator has
    them as `feature_names_in_`, and checks tables by them as scikit-learn does.

    Parameters
    ----------
    path : str or Path
        The folder, or its file `model.npz`.

    Returns
    -------
    SGDRegressor or SGDClassifier

    Raises
    ------
    DataError
        There is no model, the file is damaged, no model of bitlane, or of another version.

    Examples
    --------
    >>> import bitlane
    >>> model = bitlane.load("runs/houses")  # doctest: +SKIP
    >>> model.predict([[3.0, 20.0]])  # doctest: +SKIP
    """
    saved = read_model(path)
    if not all(re.fullmatch(r"x\d+", name) for name in saved.feature_names):
        saved.estimator.feature_names_in_ = np.array(saved.feature_names, dtype=object)
    return saved.estimator


def read_model(path: str | Path) -> SavedModel:
    """Return the model in a file, with the names of its columns; parameters and errors as of `load`."""
    path = _file_of(Path(path))
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _DAMAGE as error:
        raise DataError(f"{path} is damaged, or no npz file ({type(error).__name__}): train again") from error
    if "model" not in arrays:
        raise DataError(f"{path} is no model of bitlane: it needs what `bitlane train --out FOLDER` writes")
    try:
        header = json.loads(str(arrays["model"]))
        version = header["format"]
        if version == FORMAT:
            return _of(header, arrays)
    except _DAMAGE as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}): train again") from error
    raise DataError(f"{path} has format {version!r}, this bitlane reads {FORMAT}: train again")


def model_arrays(
    model: SGDRegressor | SGDClassifier,
    feature_names: Sequence[str],
    target: str,
    means: Floats | None,
    reading: Mapping[str, Any],
) -> dict[str, NDArray[Any]]:
    """Return a fitted estimator as arrays, of which `read_model` makes a `SavedModel`.

    Parameters
    ----------
    model : SGDRegressor or SGDClassifier
        Its parameters are plain numbers and texts; its device is not kept.
    feature_names, target, means, reading
        As in `SavedModel`.
    """
    ranges = model._ranges
    names = [each.name for each in fields(model) if each.init and each.name != "device"]
    header = {
        "format": FORMAT,
        "estimator": type(model).__name__,
        "parameters": {name: getattr(model, name) for name in names},
        "target": target,
        "reading": dict(reading),
        "epochs": model.n_iter_,
        "rows_learned": model.t_ - 1.0,
        "rows": ranges.features.rows,
        "calls": model._calls,
    }
    arrays: dict[str, NDArray[Any]] = {
        "model": np.array(json.dumps(header)),
        "coef": model._dense(),
        "intercept": model.intercept_,
        "feature_names": np.array(feature_names, dtype=np.str_),
        **{f"{of}_{name}": getattr(getattr(ranges, of), name) for of in ("features", "labels") for name in RANGES},
    }
    if isinstance(model, SGDClassifier):
        arrays["classes"] = model.classes_
    if means is not None:
        arrays["means"] = means
    return arrays


def _file_of(path: Path) -> Path:
    """Return the file with the model."""
    if path.is_dir():
        if not (path / MODEL_NAME).is_file():
            sparse = "; a sparse model needs `bitlane sparse predict`" if checkpoints_of(path) else ""
            raise DataError(f"{path} has no {MODEL_NAME}: name a folder that `bitlane train --out` wrote{sparse}")
        return path / MODEL_NAME
    if not path.exists():
        raise DataError(f"no model {path}{near_names(path.name, names_beside(path))}")
    return path


def _of(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SavedModel:
    kind, parameters = KINDS[header["estimator"]], dict(header["parameters"])
    if parameters["bounds"] is not None:
        parameters["bounds"] = tuple(parameters["bounds"])
    model = kind(**parameters)
    names = tuple(arrays["feature_names"].tolist())
    model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
    model.n_iter_, model.n_features_in_ = int(header["epochs"]), len(names)
    model.t_ = 1.0 + header["rows_learned"]
    if model.coef_.shape[-1] != len(names):
        raise ValueError("coefficients and names differ in number")
    if isinstance(model, SGDClassifier):
        model.classes_ = arrays["classes"]
    features, labels = (
        Ranges(rows=int(header["rows"]), **{name: arrays[f"{of}_{name}"] for name in RANGES})
        for of in ("features", "labels")
    )
    model._ranges, model._calls = TableRanges(features, labels), int(header["calls"])
    return SavedModel(model, names, header["target"], arrays.get("means"), header["reading"])
