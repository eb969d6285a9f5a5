"""Trainings on encoded tables: the bits of trainings on the decoded values, with the scales of the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.data.encoding import EncodingOptions, encode_file
from bitlane.data.pieces import array_source
from bitlane.devices import open_device
from bitlane.encoded import planes
from bitlane.encoded.column_codes import ColumnCodes
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.quantization.ranges import TableRanges, feature_ranges, label_ranges
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.plane_samples import PlaneSamples
from bitlane.training.train import InitialModel, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def _options(random: np.random.Generator, stored: int) -> TrainingOptions:
    sampling = str(random.choice(["double", "nearest", "naive"]))
    most = stored if stored < 16 or sampling != "double" else 14
    bits = 2 * int(random.integers(2 if stored == 16 and sampling == "double" else 1, most // 2 + 1))
    return TrainingOptions(
        Precision(bits, sampling),
        Objective(str(random.choice(["squared_error", "log_loss"]))),
        epochs=2,
        draws=int(random.integers(1, 4)),
        batch_size=int(random.integers(1, 20)),
        shuffle=bool(random.integers(2)),
        seed=int(random.integers(100)),
    )


def test_bits_are_those_of_a_training_on_the_decoded_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    compiled = random.random() < 0.5
    monkeypatch.setattr(planes, "SMALL", 0 if compiled else 1 << 40)
    monkeypatch.setattr("bitlane.encoded.plane_blocks.BLOCK_ROWS", (64, 64))
    for _ in range(8):
        rows, n = int(random.integers(4, 300)), int(random.choice([1, 3, 31, 32, 33, 64, 70]))
        X = random.normal(size=(rows, n)) + random.normal(size=n)
        X[:, random.random(n) < 0.2] = 1.0
        X[:, 0] = random.normal(size=rows)
        y = np.where(random.random((rows, int(random.integers(1, 3)))) < 0.5, -1.0, 1.0)
        stored = 2 * int(random.integers(1, 9))
        table = EncodedTable.of(X, bits=stored)
        chosen = random.integers(0, rows, int(random.integers(4, 60)))
        if random.random() < 0.5:
            table, y = table[chosen], y[chosen]
        options = _options(random, stored)
        config = AcceleratorConfig(int(random.choice([64, 128, 256])), outputs=int(random.integers(1, 3)))
        decoded = np.asarray(table)
        ranges = TableRanges(table.ranges, label_ranges(y))
        start = InitialModel(ranges=ranges, column_codes=table.column_codes)
        wanted = train(decoded, y, options, open_device("emulator", config), start=start)
        found = train(table, y, options, open_device("emulator", config))
        assert (found.stored_weights == wanted.stored_weights).all()
        assert (found.loss == wanted.loss).all()
        suits = PlaneSamples.suit(table, found.checkpoint().scaling, options.precision)
        assert suits == (options.precision.sampling != "naive")


def test_estimators_take_encoded_tables(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    X = random.normal(size=(400, 6)) * 3 + 1
    y = X @ random.normal(size=6) + 2
    encode_file(array_source(np.column_stack([X, y]), "X"), tmp_path / "t.bits", EncodingOptions(targets=("-1",)))
    table = EncodedTable.open(tmp_path / "t.bits").renamed(list("abcdef"))
    model = SGDRegressor(bits=8, device="emulator", random_state=1, epochs=20).fit(table, table.y)
    assert model.score(X, y) > 0.99
    assert model.score(table, y) > 0.99
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.predict(table[:7]).shape == (7,)
    resumed = SGDRegressor(bits=8, device="emulator", random_state=1, epochs=22)
    assert resumed.fit(table, table.y, resume=model.run_.checkpoint()).n_iter_ == 22
    few = table.take_columns(["f", "a", "b"])
    weights = random.integers(0, 3, 400)
    narrow = SGDRegressor(bits=4, device="emulator", random_state=1, early_stopping=True, epochs=5).fit(few, y, weights)
    assert narrow.coef_.shape == (3,)
    classes = np.digitize(y, [0.0, 4.0])
    classifier = SGDClassifier(bits=8, device="emulator", random_state=1, epochs=10).fit(table, classes)
    assert classifier.score(X, classes) > 0.8


def test_what_a_table_does_not_have_is_an_error() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = X.sum(axis=1)
    table = EncodedTable.of(X)
    for options, message in (
        ({"bits": 10}, "bits=10: the table stores 8 bits a value: use at most 8"),
        ({"bits": 4, "levels": "optimal"}, "levels='optimal': an encoded table has equal intervals"),
        ({"fit_intercept": False}, "encode with centered=False"),
    ):
        with pytest.raises(DataError, match=message):
            SGDRegressor(device="emulator", **options).fit(table, y)
    with pytest.raises(DataError, match="an encoded table has fixed scales: use fit with warm_start=True"):
        SGDRegressor(device="emulator").partial_fit(table, y)
    around_zero = EncodedTable.of(X, column_codes=ColumnCodes.of(feature_ranges(X), 8, centered=False))
    model = SGDRegressor(bits=8, device="emulator", fit_intercept=False, epochs=20).fit(around_zero, y)
    assert model.intercept_.tolist() == [0.0]
    assert model.score(X, y) > 0.99
