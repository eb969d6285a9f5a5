"""Comparisons: their figures, their summary, and their results on real data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST, emulator

from bitlane.contract.precision import Precision
from bitlane.data import datasets
from bitlane.devices import open_device
from bitlane.errors import DataError
from bitlane.evaluation.compare import (
    FULL,
    ComparedModel,
    Comparison,
    ComparisonData,
    binary_labels,
    compare,
    one_vs_rest,
    precisions_of,
)
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.reporting.summary import comparison_record, comparison_summary, text_table
from bitlane.training.learning_rate import suggest_learning_rate


@pytest.fixture
def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy linear data [200, 5] in units far from 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0, 5, -3, 100, 0], [1, 2, 0.1, 50, 1e-3], (200, 5))
    y = X @ [3, -1, 20, 0.1, 500] + 7 + rng.normal(0, 0.5, 200)
    return X, y


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- comparing -----------------------------------------------------------------------------------
def test_full_precision_follows_float64(table: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    X, y = table
    schedule = TrainingSchedule(epochs=4, batch_size=16, learning_rate=0.5, decay=0.8, seed=seed)
    epochs: list[int] = []
    found = compare(
        ComparisonData(X, y),
        [Precision(8, "double"), FULL],
        schedule,
        device=FASTEST,
        on_epoch=lambda e, _: epochs.append(e),
    )
    reference, full, double = found.results
    assert [result.sampling for result in found.results] == ["float64", "full", "double"]
    np.testing.assert_allclose(full.losses, reference.losses, rtol=1e-3)
    np.testing.assert_allclose(double.losses, reference.losses, rtol=0.2)
    assert epochs == [0, 1, 2, 3] * 2
    assert reference.bytes_per_epoch is None
    model = 128 / 4  # the model is read once in four epochs
    assert full.bytes_per_epoch == 200 * (32 * 32 + 16) / 8 + model
    assert double.bytes_per_epoch == 200 * (32 * 8 + 16) / 8 + model
    assert full.over_layout is not None
    assert full.over_layout >= 1.0
    assert found.relative(full) == 1.0
    assert found.optimum < full.loss < found.constant == np.var(y)
    assert found.width == 64
    assert full.accuracy is None
    assert "accuracy" not in text_table(found)


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_classification(table: tuple[np.ndarray, np.ndarray], seed: int, loss: str) -> None:
    """Staleness 0 and 1 are compared with the same float64; classes have an accuracy for every loss."""
    X, y = table
    y = np.where(y > np.median(y), 1.0, -1.0)
    schedule = TrainingSchedule(epochs=4, batch_size=16, learning_rate=0.5, decay=0.8, seed=seed, loss=loss)
    held_out = (X[:50], -y[:50])
    device = emulator(width=256)
    found = compare(ComparisonData(X, y, held_out), [Precision(8)], schedule, staleness=[0, 1], device=device)
    labels = ["float64", "full, 32 bits", "double, 8 bits", "full, 32 bits, stale", "double, 8 bits, stale"]
    assert [result.label for result in found.results] == labels
    reference, full, _, stale, _ = found.results
    np.testing.assert_allclose(full.losses, reference.losses, rtol=0.05 if loss == "hinge" else 2e-3)
    np.testing.assert_allclose(stale.losses, reference.losses, rtol=0.2)
    assert stale.losses.tolist() != full.losses.tolist()
    assert found.width == 256
    assert found.constant == pytest.approx({"squared_error": 1.0, "hinge": 1.0, "log_loss": np.log(2)}[loss])
    assert full.loss < found.constant
    assert (found.optimum is None) == (loss != "squared_error")
    assert reference.accuracy is not None
    for result in found.results:
        assert result.accuracy == pytest.approx(reference.accuracy, abs=0.05)
        assert result.held_out is not None
        assert result.held_out < 0.4
    text = comparison_summary(found)
    assert f"{full.accuracy:.2%}" in text
    assert f"{full.held_out:.2%}" in text
    assert "256 bits wide" in text
    record = comparison_record(found, "t")
    assert [line["staleness"] for line in record.lines] == [0, 0, 0, 1, 1]
    assert record.lines[1]["accuracy"] == full.accuracy
    assert record.header["settings"]["loss"] == loss


def test_an_open_device_stays_open(table: tuple[np.ndarray, np.ndarray]) -> None:
    device = open_device(FASTEST)
    for _ in range(2):
        assert compare(ComparisonData(*table), [], TrainingSchedule(epochs=1), device=device).device == device.name
    device.close()


def test_warnings_name_their_training(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    X = np.c_[X, np.zeros(len(X))]
    with pytest.warns(UserWarning, match="clipped|constant") as heard:
        compare(
            ComparisonData(X, y),
            [Precision(2, "double")],
            TrainingSchedule(epochs=5, learning_rate=8.0),
            device=FASTEST,
        )
    messages = [str(warning.message) for warning in heard]
    assert sum("constant" in message for message in messages) == 1
    assert any(message.startswith("double, 2 bits: ") and "clipped" in message for message in messages)


def test_bad_schedules_are_refused(table: tuple[np.ndarray, np.ndarray]) -> None:
    for schedule in (
        TrainingSchedule(epochs=0),
        TrainingSchedule(batch_size=0),
        TrainingSchedule(learning_rate=-1.0),
        TrainingSchedule(decay=2.0),
    ):
        with pytest.raises(DataError):
            compare(ComparisonData(*table), [], schedule, device=FASTEST)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", [pytest.param("cadata", marks=pytest.mark.slow), "cpusmall"])
def test_double_sampling_at_four_bits_on_real_data(name: str, data_dir: Path) -> None:
    """Double sampling ends within a few percent of full precision; nearest rounding with equal bits does not."""
    if not (data_dir / f"{name}.npz").exists():
        pytest.skip(f"BITLANE_DATA has no {name}.npz")
    table = datasets.load_dataset(name)
    schedule = TrainingSchedule(learning_rate=suggest_learning_rate(table.X, 16), decay=0.8)
    precisions = precisions_of([4], ["double", "nearest", "naive"])
    found = compare(ComparisonData(table.X, table.y), precisions, schedule, device=FASTEST)
    double, nearest, naive = (found.relative(result) for result in found.results[2:])
    assert double < 1.02
    assert nearest > 1.02 < naive
    assert double < nearest
    assert double < naive


# --- small parts ---------------------------------------------------------------------------------
def test_precisions() -> None:
    found = precisions_of([32, 4, 4, 2], ["double", "naive"])
    assert found == [Precision(2), Precision(4), Precision(2, "naive"), Precision(4, "naive")]
    for bits in (3, 0, 34, -2):
        with pytest.raises(DataError, match=f"bits={bits}"):
            precisions_of([bits], ["double"])
    with pytest.raises(DataError, match="sampling='odd'"):
        precisions_of([4], ["odd"])


def test_one_vs_rest_labels() -> None:
    y, positive = one_vs_rest(np.array([0.0, 1.0, 2.0, 1.0]), None)
    assert (y.tolist(), positive) == ([1, -1, -1, -1], "0")
    y, positive = one_vs_rest(np.array(["a", "b", "a"]), None)
    assert (y.tolist(), positive) == ([-1, 1, -1], "b")
    assert one_vs_rest(np.array([0.0, 1.0, 2.0]), "2")[0].tolist() == [-1, -1, 1]
    assert binary_labels(np.array([1.0, 3.0]), "3").tolist() == [-1, 1]
    assert binary_labels(np.array([1.0]), "3").tolist() == [-1]  # held-out rows may lack a class
    with pytest.raises(DataError, match="no class '7'; the classes are 0, 1"):
        one_vs_rest(np.array([0.0, 1.0]), "7")
    with pytest.raises(DataError, match="all labels are 3: a comparison needs two classes"):
        one_vs_rest(np.array([3.0, 3.0]), None)


def test_the_table_shows_units_and_is_aligned() -> None:
    results = (
        ComparedModel("float64", 64, np.array([2.0, 1.0])),
        ComparedModel("full", 32, np.array([2.0, 1.0]), 0, None, None, 8000.0, 1234.5, 1.1, 1.2, 0),
        ComparedModel("double", 2, np.array([2.0, np.inf]), 0, None, None, 500.0, 99.0, 1.5, 1.6, 77),
    )
    found = Comparison("t", "emulator", 64, TrainingSchedule(epochs=2), 10, 3, 4.0, 0.9, results)
    quality, cost = (table.splitlines() for table in text_table(found).split("\n\n"))
    for table in (quality, cost):
        assert len({len(line) for line in table}) == 1 and len(table[0]) <= 80
    assert "bytes/epoch" in cost[1]
    assert "cycles/epoch" in cost[1]
    assert "diverges" in quality[-1]
    assert "8,000" in cost[-2]
    assert "0.9 at the optimum, 4 for a constant" in comparison_summary(found)
