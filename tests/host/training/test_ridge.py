"""The ridge of double sampling: large enough for fixed draws, in the penalty step, told by the run, and only there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.emulators import fastest
from tests.helpers.trainings import trained, training_options

from bitlane.contract.draws import DrawSet, draw_words, row_words
from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import PENALTY_STEP_FRACTION, SHRINK_SHIFT
from bitlane.contract.modes import Prox
from bitlane.contract.precision import Precision
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.ridge import class_balances, draw_ridges, repeated_share


def collinear(rng: np.random.Generator, rows: int, n: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=(rows, 1)) + 0.05 * rng.normal(size=(rows, n))


def table(seed: int, rows: int = 300, n: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = collinear(rng, rows, n)
    return X, X @ rng.normal(size=n) + 0.3 * rng.normal(size=rows)


def errors(sets: int) -> np.ndarray[Any, Any]:
    """Errors of both draws of each set at 64 positions, for 64 numbers in each quarter: [2, sets, numbers * positions].

    The numbers are spread evenly, so that means over them are means over all numbers.
    """
    numbers = (np.arange(256, dtype=np.uint32) * 2 + 1) << np.uint32(7)
    places = np.arange(64) / 64 + 1 / 128
    words = numbers << np.uint32(16) | numbers
    found = []
    for shift in (16, 0):
        halves = [words ^ DrawSet(0, index).mask for index in range(sets)]
        drawn = [(half >> np.uint32(shift) & np.uint32(0xFFFF))[:, None] < places * 65536 for half in halves]
        found.append([(each - places).ravel() for each in drawn])
    return np.array(found)


@pytest.mark.parametrize(
    ("draws", "share"), [("once", 1), (1, 1), (2, 1 / 2), (4, 1 / 4), (8, 1 / 8), (16, 1 / 16), (64, 1 / 32)]
)
def test_share_of_repeated_errors(draws: int | str, share: float) -> None:
    assert repeated_share(draws) == pytest.approx(share)
    assert repeated_share("epoch") == 0


@pytest.mark.parametrize("sets", range(1, 17))
def test_share_equals_the_deviation_of_the_mean_product(sets: int) -> None:
    """The mean over sets of the product of independent errors, over all numbers and positions."""
    first, second = errors(sets)
    of_first, of_second = first @ first.T / first.shape[1], second @ second.T / second.shape[1]
    deviation = np.sqrt((of_first * of_second).sum()) / sets
    assert repeated_share(sets) == pytest.approx(deviation / of_first[0, 0], rel=0.02)


@pytest.mark.parametrize("bits", [2, 4, 6])
@pytest.mark.parametrize("draws", [1, 4, 8, 12, 16])
def test_the_mean_gram_matrix_with_the_ridge_is_definite(seed: int, bits: int, draws: int) -> None:
    rng, precision = np.random.default_rng(seed), Precision(bits)
    rows, n = int(rng.integers(100, 600)), int(rng.integers(8, 80))
    X = collinear(rng, rows, n) if rng.random() < 0.5 else rng.normal(size=(rows, n))
    scaling = fit_scaling(X, X[:, :1])
    positions = position_map(scaling, precision).positions(X)
    low = base_codes(positions, precision) * 2.0 ** (1 - precision.base_bits) - 1
    words = draw_words(row_words(seed % 2**32, range(rows)), n)
    mean = np.zeros((n, n))
    for index in range(draws):
        codes = draw_codes(positions, precision, words ^ DrawSet(0, index).mask)
        first, second = (low + (codes >> bit & 1) * 2.0 ** (1 - precision.base_bits) for bit in (1, 0))
        mean += (first.T @ second + second.T @ first) / 2 / rows / draws
    options = training_options(precision, draws=draws)
    (ridge,) = draw_ridges(options, [precision], X, X[:, :1], scaling)
    least = float(np.linalg.eigvalsh(mean)[0])
    assert least + ridge > 0
    (stronger,) = draw_ridges(training_options(precision, draws="once"), [precision], X, X[:, :1], scaling)
    assert stronger >= ridge


@pytest.mark.parametrize(
    ("sampling", "bits", "draws", "loss", "has_one"),
    [
        ("double", 4, 8, "squared_error", True),
        ("double", 2, "once", "squared_error", True),
        ("double", 6, 16, "log_loss", True),
        ("double", 4, "epoch", "hinge", True),  # the bias of the slope is that of any draws
        ("double", 4, "epoch", "squared_error", False),
        ("double", 8, 8, "log_loss", False),
        ("nearest", 4, 8, "log_loss", False),
        ("naive", 2, 8, "squared_error", False),
        ("full", 32, 8, "hinge", False),
    ],
)
def test_a_run_tells_its_ridge(seed: int, sampling: str, bits: int, draws: int | str, loss: str, has_one: bool) -> None:
    X, y = table(seed)
    y = y if loss == "squared_error" else np.where(y > 0, 1.0, -1.0)
    options: dict[str, Any] = {"draws": draws, "loss": loss, "epochs": 2, "learning_rate": 0.03, "seed": seed}
    run = trained(X, y, precision=Precision(bits, sampling), device=fastest(), **options)
    (settings,) = run._first.settings
    assert (run.ridge > 0, settings.prox == Prox.L2) == (has_one, has_one)
    alpha = 0.01
    run = trained(X, y, precision=Precision(bits, sampling), device=fastest(), penalty="l2", alpha=alpha, **options)
    (settings,) = run._first.settings
    shrink = decode_float(settings.penalty_step, PENALTY_STEP_FRACTION) * 2.0**-SHRINK_SHIFT
    assert shrink == pytest.approx((alpha + run.ridge) * 0.03, rel=1e-4)
    assert run.settings["alpha"] == alpha  # the ridge is no option


def test_the_epochs_do_not_change_the_ridge(seed: int, tmp_path: Any) -> None:
    """A training that is resumed from a file has the bits of one that never stopped."""
    X, y = table(seed)
    options: dict[str, Any] = {"precision": Precision(4), "device": fastest(), "seed": seed}
    part, whole = (trained(X, y, epochs=epochs, **options) for epochs in (3, 12))
    part.checkpoint().save(tmp_path / "part.npz")
    rest = trained(X, y, epochs=12, resume=Checkpoint.load(tmp_path / "part.npz"), **options)
    assert 0 < part.ridge == whole.ridge == rest.ridge
    assert rest.checkpoint().master.tolist() == whole.checkpoint().master.tolist()


def test_a_rate_that_is_given_keeps_its_value_and_the_ridge_what_fits(seed: int) -> None:
    """A penalty step is below 2**-6 a batch."""
    X, y = table(seed)
    options: dict[str, Any] = {"precision": Precision(2), "device": fastest(), "epochs": 1, "draws": "once"}
    small, large = (trained(X, y, learning_rate=rate, **options) for rate in (1e-3, 4.0))
    assert 4.0 * small.ridge > 2.0**-6 > 4.0 * large.ridge > 2.0**-7
    automatic = trained(X, y, **options)
    assert automatic.ridge == small.ridge
    assert automatic.settings["learning_rate"] * automatic.ridge < 2.0**-6


@pytest.mark.parametrize("taken", [{"penalty": "l1", "alpha": 1e-4}, {"bounds": (-1, 1)}])
def test_without_room_for_a_ridge_long_trainings_warn(seed: int, taken: dict[str, Any]) -> None:
    X, y = table(seed)
    options: dict[str, Any] = {"precision": Precision(4), "device": fastest(), **taken}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trained(X, y, epochs=5, **options).ridge == 0
        trained(X, y, epochs=100, decay=0.99, **(options | {"precision": Precision(8)}))
    with pytest.warns(UserWarning, match="100 epochs of draws need a ridge of .* fewer epochs, bits=8 or penalty='l2'"):
        trained(X, y, epochs=100, decay=0.99, **options)


def test_columns_without_draws_do_not_count(seed: int) -> None:
    """Columns whose values are levels have no errors: more of them change no ridge."""
    rng, precision = np.random.default_rng(seed), Precision(4)
    X = rng.normal(size=(400, 10))
    signs = np.where(rng.random((400, 30)) < 0.5, -1.0, 1.0)
    signs[:200] = -signs[200:]  # centred: both values are ends of the range
    few, many = (
        draw_ridges(TrainingOptions(precision), [precision], table, X[:, :1], fit_scaling(table, X[:, :1]))[0]
        for table in (X, np.hstack([X, signs]))
    )
    assert many == pytest.approx(few)


@pytest.mark.parametrize("decay", [0.8, 0.955, 0.985])
def test_more_epochs_do_not_harm_collinear_columns(seed: int, decay: float) -> None:
    """Eight independent sets without a ridge end at R2 of 0.8 and below after 100 epochs."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=1000)
    X, y = z[:, None] + 0.05 * rng.normal(size=(1000, 12)), z + 0.05 * rng.normal(size=1000)
    options: dict[str, Any] = {"precision": Precision(4), "device": fastest(), "seed": seed, "decay": decay}
    run = trained(X, y, epochs={0.8: 20, 0.955: 100, 0.985: 300}[decay], **options)
    assert np.var(y - X @ run.coef) < 0.008 * np.var(y)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 4.0)])
def test_a_rare_class_takes_less_of_the_ridge(seed: int, weights: tuple[float, float]) -> None:
    """The share is the curvature of log loss at the best constant score over that at 0, to a factor of 1.5."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random((4_000, 3)) < [0.5, 0.1, 0.01], 1.0, -1.0)
    options = TrainingOptions(objective=Objective("log_loss"), class_weight=(weights,))
    for share, column in zip(class_balances(options, y), y.T, strict=True):
        rows = np.where(column < 0, *weights)
        chance = rows[column > 0].sum() / rows.sum()
        assert 1 <= share / (4 * chance * (1 - chance) * rows.mean()) < 2.001
        assert np.log2(share) % 1 == 0
    assert class_balances(TrainingOptions(), y) == [1.0] * 3
