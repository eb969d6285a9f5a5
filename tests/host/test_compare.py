"""The comparison's float64 reference, its figures, and what it says of real data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bitlane import datasets
from bitlane.compare import (
    FULL,
    Comparison,
    Result,
    Schedule,
    compare,
    float_losses,
    least_loss,
    losses_of,
    one_against_rest,
    precisions_of,
)
from bitlane.devices import open_device
from bitlane.errors import DataError
from bitlane.quantize import Precision
from bitlane.schedules import LARGEST, suggest_learning_rate
from bitlane.summary import comparison_summary, text_table


@pytest.fixture
def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A noisy linear table [200, 5] in units far from 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0, 5, -3, 100, 0], [1, 2, 0.1, 50, 1e-3], (200, 5))
    y = X @ [3, -1, 20, 0.1, 500] + 7 + rng.normal(0, 0.5, 200)
    return X, y


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- the float64 reference -----------------------------------------------------------------------
def test_float_sgd_row_by_row(table: tuple[np.ndarray, np.ndarray]) -> None:
    """Against the textbook's loop, written over rows; the last batch is partial."""
    X, y = table
    schedule = Schedule(epochs=3, batch_size=7, learning_rate=0.3, decay=0.7)
    v = (X - X.mean(0)) / np.abs(X - X.mean(0)).max(0)
    scale = np.abs(y - y.mean()).max()
    labels = (y - y.mean()) / scale
    weights, rate, expected = np.zeros(5), 0.3, []
    for _ in range(3):
        for start in range(0, 200, 7):
            step = np.zeros(5)
            for row in range(start, min(start + 7, 200)):
                step += (v[row] @ weights - labels[row]) * v[row]
            weights -= rate / 7 * step
        rate *= 0.7
        expected.append(np.mean((v @ weights - labels) ** 2) * scale**2)
    np.testing.assert_allclose(float_losses(X, y, schedule), expected, rtol=1e-9)


def test_least_loss_is_that_of_lstsq(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    ones = np.c_[X, np.ones(len(X))]
    best = np.mean((ones @ np.linalg.lstsq(ones, y, rcond=None)[0] - y) ** 2)
    assert least_loss(X, y) == pytest.approx(best, rel=1e-6)
    assert float_losses(X, y, Schedule(epochs=200, learning_rate=0.5, decay=0.99))[-1] == pytest.approx(best, rel=0.3)


def test_losses_of_many_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5000, 3)), rng.normal(size=5000)
    coefficients, intercepts = rng.normal(size=(4, 3)), rng.normal(size=4)
    expected = [np.mean((X @ c + i - y) ** 2) for c, i in zip(coefficients, intercepts, strict=True)]
    np.testing.assert_allclose(losses_of(X, y, coefficients, intercepts), expected)


def test_equal_labels_have_no_loss() -> None:
    assert float_losses(np.eye(3), np.ones(3), Schedule(epochs=2)).tolist() == [0.0, 0.0]


def test_a_diverging_reference_is_not_an_error(table: tuple[np.ndarray, np.ndarray]) -> None:
    losses = float_losses(*table, Schedule(epochs=300, learning_rate=100.0))
    assert not np.isfinite(losses[-1])


# --- comparing -----------------------------------------------------------------------------------
def test_full_precision_follows_float64(table: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    X, y = table
    schedule = Schedule(epochs=4, batch_size=16, learning_rate=0.5, decay=0.8, seed=seed)
    epochs: list[int] = []
    found = compare(
        X,
        y,
        [Precision(8, "double"), FULL],
        schedule,
        device="emulator",
        on_epoch=lambda e, _: epochs.append(e),
    )
    reference, full, double = found.results
    assert [result.sampling for result in found.results] == ["float64", "full", "double"]
    np.testing.assert_allclose(full.losses, reference.losses, rtol=1e-3)
    np.testing.assert_allclose(double.losses, reference.losses, rtol=0.2)
    assert epochs == [0, 1, 2, 3] * 2
    assert reference.bytes_per_epoch is None
    model = 128 / 4  # read once in four epochs
    assert full.bytes_per_epoch == 200 * (32 * 32 + 16) / 8 + model
    assert double.bytes_per_epoch == 200 * (32 * 8 + 16) / 8 + model
    assert full.over_layout is not None
    assert full.over_layout >= 1.0
    assert found.relative(full) == 1.0
    assert found.optimum < full.loss < found.variance


def test_an_open_device_stays_open(table: tuple[np.ndarray, np.ndarray]) -> None:
    device = open_device("emulator")
    for _ in range(2):
        assert compare(*table, [], Schedule(epochs=1), device=device).device == device.name
    device.close()


def test_warnings_say_whose_they_are(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    X = np.c_[X, np.zeros(len(X))]
    with pytest.warns(UserWarning, match="clipped|constant") as heard:
        compare(X, y, [Precision(2, "double")], Schedule(epochs=5, learning_rate=8.0), device="emulator")
    messages = [str(warning.message) for warning in heard]
    assert sum("constant" in message for message in messages) == 1
    assert any(message.startswith("double, 2 bits: ") and "clipped" in message for message in messages)


def test_bad_schedules_are_refused(table: tuple[np.ndarray, np.ndarray]) -> None:
    for schedule in (
        Schedule(epochs=0),
        Schedule(batch_size=0),
        Schedule(learning_rate=-1.0),
        Schedule(decay=2.0),
    ):
        with pytest.raises(DataError):
            compare(*table, [], schedule, device="emulator")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", [pytest.param("cadata", marks=pytest.mark.slow), "cpusmall"])
def test_double_sampling_at_four_bits_on_real_data(name: str, data_dir: Path) -> None:
    """The claim: within a few percent of full precision, where rounding at equal bits is not."""
    if not (data_dir / f"{name}.npz").exists():
        pytest.skip(f"BITLANE_DATA has no {name}.npz")
    table = datasets.load_dataset(name)
    schedule = Schedule(learning_rate=suggest_learning_rate(table.X, 16), decay=0.8)
    found = compare(table.X, table.y, precisions_of([4], ["double", "nearest", "naive"]), schedule, device="emulator")
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


def test_one_against_rest() -> None:
    y, positive = one_against_rest(np.array([0.0, 1.0, 2.0, 1.0]), None)
    assert (y.tolist(), positive) == ([1, -1, -1, -1], "0")
    y, positive = one_against_rest(np.array(["a", "b", "a"]), None)
    assert (y.tolist(), positive) == ([-1, 1, -1], "b")
    assert one_against_rest(np.array([0.0, 1.0, 2.0]), "2")[0].tolist() == [-1, -1, 1]
    with pytest.raises(DataError, match="no class '7'; the classes are 0, 1"):
        one_against_rest(np.array([0.0, 1.0]), "7")
    with pytest.raises(DataError, match="all labels are 3; two classes are needed"):
        one_against_rest(np.array([3.0, 3.0]), None)


def test_the_table_shows_units_and_lines_up() -> None:
    results = (
        Result("float64", 64, np.array([2.0, 1.0])),
        Result("full", 32, np.array([2.0, 1.0]), 8000.0, 1234.5, 1.1, 1.2, 0),
        Result("double", 2, np.array([2.0, np.inf]), 500.0, 99.0, 1.5, 1.6, 77),
    )
    found = Comparison("t", "emulator", Schedule(epochs=2), 10, 3, 4.0, 0.9, results)
    lines = text_table(found).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "bytes/epoch" in lines[1]
    assert "cycles/epoch" in lines[1]
    assert "diverges" in lines[-1]
    assert "8,000" in lines[-2]
    assert "4 for the mean" in comparison_summary(found)


# --- the learning rate ---------------------------------------------------------------------------
def test_suggested_rates_are_stable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for features in (1, 8, 100):
        X = rng.normal(size=(300, features)) @ rng.normal(size=(features, features))
        y = X @ rng.normal(size=features) + rng.normal(size=300)
        rate = suggest_learning_rate(X, 16)
        assert 0 < rate <= LARGEST
        losses = float_losses(X, y, Schedule(learning_rate=rate, decay=0.8))
        assert losses[-1] < np.var(y)


def test_fewer_levels_want_smaller_steps(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = table
    rates = [suggest_learning_rate(X, 16, Precision(bits)) for bits in (2, 4, 8)]
    assert rates[0] < rates[1] <= rates[2] == suggest_learning_rate(X, 16)
    assert suggest_learning_rate(X, 16, Precision(2, "nearest")) == rates[2]
    assert suggest_learning_rate(np.ones((4, 2)), 16) == LARGEST
