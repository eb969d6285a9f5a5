"""A model in a file predicts what the trained estimator predicts, bit for bit, and learns on as it does."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST

import bitlane
from bitlane import SGDClassifier, SGDRegressor
from bitlane.errors import DataError
from bitlane.estimators.saved import model_arrays, read_model

NAMES = ("rooms", "age", "size")


def fitted(kind: type, seed: int, classes: int = 2, **parameters: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * rng.uniform(0.1, 100, 3)
    y: Any = X @ rng.normal(size=3) + rng.normal()
    if kind is SGDClassifier:
        y = np.array(["north", "south", "west"])[np.argsort(np.argsort(y)) * classes // len(y)]
    model = kind(device=FASTEST, epochs=3, batch_size=8, random_state=seed % 1000, **parameters)
    return model.fit(X, y), X, y


def saved(model: Any, folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    folder.mkdir()
    np.savez(folder / "model.npz", **model_arrays(model, names, "price", None, {"header": True}))
    return folder


@pytest.mark.parametrize(
    ("kind", "classes", "parameters"),
    [
        (SGDRegressor, 2, {}),
        (SGDRegressor, 2, {"bits": 8, "bounds": (-0.5, None)}),
        (SGDClassifier, 2, {"loss": "log_loss", "penalty": "l2", "alpha": 1e-3}),
        (SGDClassifier, 3, {"loss": "log_loss", "class_weight": "balanced"}),
        (SGDClassifier, 3, {"loss": "hinge"}),
    ],
)
def test_predictions_have_the_same_bits(
    kind: type, classes: int, parameters: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    model, X, _ = fitted(kind, seed, classes, **parameters)
    new = np.random.default_rng(seed + 1).normal(size=(30, 3)) * 50
    loaded = bitlane.load(saved(model, tmp_path / "run"))
    assert type(loaded) is kind and loaded.feature_names_in_.tolist() == list(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no column names
        for table in (X, new):
            assert loaded.predict(table).tolist() == model.predict(table).tolist()
        if parameters.get("loss") == "log_loss":
            assert loaded.predict_proba(new).tobytes() == model.predict_proba(new).tobytes()
    same = {**model.get_params(), "device": "auto"}
    assert loaded.get_params() == same and loaded.n_features_in_ == 3 and loaded.n_iter_ == 3


def test_a_loaded_model_learns_on_with_the_same_bits(tmp_path: Path, seed: int) -> None:
    model, X, y = fitted(SGDRegressor, seed)
    loaded = bitlane.load(saved(model, tmp_path / "run", ("x0", "x1", "x2"))).set_params(device=FASTEST)
    assert not hasattr(loaded, "feature_names_in_")
    for each in (model, loaded):
        each.partial_fit(3 * X[:20], y[:20])
    assert loaded.coef_.tobytes() == model.coef_.tobytes()


def test_names_are_checked_as_those_of_the_training(tmp_path: Path, seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    model, X, _ = fitted(SGDRegressor, seed)
    loaded = bitlane.load(saved(model, tmp_path / "run") / "model.npz")
    frame = pandas.DataFrame(X, columns=NAMES)
    assert loaded.predict(frame).tolist() == model.predict(X).tolist()
    with pytest.raises(DataError, match="another order"):
        loaded.predict(frame[["age", "rooms", "size"]])


def changed(path: Path, **header: Any) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    arrays["model"] = np.array(json.dumps({**json.loads(str(arrays["model"])), **header}))
    np.savez(path, **arrays)


def test_what_is_no_model_is_one_line(tmp_path: Path, seed: int) -> None:
    model, X, y = fitted(SGDRegressor, seed)
    path = saved(model, tmp_path / "run") / "model.npz"
    good = path.read_bytes()

    def refused(given: Path) -> str:
        with pytest.raises(DataError) as caught:
            read_model(given)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "no model" in refused(tmp_path / "rum") and "did you mean run?" in refused(tmp_path / "rum")
    (tmp_path / "empty").mkdir()
    assert "has no model.npz: name a folder that `bitlane train --out` wrote" in refused(tmp_path / "empty")
    (tmp_path / "sparse/checkpoint-00000001").mkdir(parents=True)
    assert "`bitlane sparse predict`" in refused(tmp_path / "sparse")
    np.savez(tmp_path / "data.npz", X=X, y=y)
    assert "is no model of bitlane" in refused(tmp_path / "data.npz")
    for cut in (0, 10, len(good) // 2):
        path.write_bytes(good[:cut])
        assert "is damaged" in refused(path)
    for header, part in (
        ({"format": 9}, "has format 9, this bitlane reads 2"),
        ({"estimator": "SVC"}, "is damaged"),
        ({"parameters": {"bounds": None, "depth": 3}}, "is damaged"),
    ):
        path.write_bytes(good)
        changed(path, **header)
        assert part in refused(path)
