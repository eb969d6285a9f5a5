"""Savings of optimal levels: variances of the textbook and of actual draws, and the scaling of training."""

import warnings

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST
from tests.helpers.levels_oracle import best_costs, cost_of

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.contract.precision import Precision
from bitlane.evaluation import level_savings as module
from bitlane.evaluation.level_savings import Savings, column_scaling, feature_levels, savings
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.reporting.levels_text import SHOWN, savings_summary

BITS = (2, 4, 6, 8)


def table(rng, rows):
    """Return scaled columns: a heavy tail, repeated values at the ends and at -1, few distinct values, and two."""
    tail = rng.lognormal(size=rows)
    ends = rng.uniform(-1, 1, rows)
    ends[:6] = [1, 1, -1, 0, 0.5, -0.25]
    few = rng.integers(-3, 5, rows) / 4
    two = np.where(np.arange(rows) % 3, -0.3, 1.0)
    return np.column_stack([(tail - tail.mean()) / np.abs(tail - tail.mean()).max(), ends, few, two])


def test_variances_equal_the_textbook(seed, loops):
    values = table(np.random.default_rng(seed), 150)
    best = np.array([best_costs(column, 64) for column in values.T]) / 150
    for bits in BITS:
        found = savings(values, bits)
        uniform = [cost_of(np.linspace(-1, 1, 2 ** (bits - 2) + 1), column) / 150 for column in values.T]
        assert found.bits == bits
        assert found.uniform == pytest.approx(uniform, rel=1e-12, abs=1e-16)
        assert found.optimal == pytest.approx(
            best[:, [2 ** (b - 2) - 1 for b in BITS if b <= bits]], rel=1e-9, abs=1e-15
        )


@pytest.mark.parametrize("bits", BITS)
def test_uniform_variance_equals_that_of_training_draws(seed, bits):
    rng = np.random.default_rng(seed)
    values, precision = np.repeat(table(rng, 400), 50, axis=0), Precision(bits)
    positions, words = value_positions(values, precision), rng.integers(1 << 32, size=values.shape, dtype=np.uint32)
    codes, drawn = base_codes(positions, precision).astype(float), draw_codes(positions, precision, words)
    squares = np.stack([((codes + upper) * 2.0 ** (3 - bits) - 1 - values) ** 2 for upper in (drawn >> 1, drawn & 1)])
    error = squares.std(axis=(0, 1)) / np.sqrt(2 * len(values))
    found = savings(values, bits).uniform
    assert (np.abs(squares.mean(axis=(0, 1)) - found) <= 7 * error + 1e-9).all()
    assert (error < found / 20)[:2].all()


def test_values_just_below_a_level_have_no_variance():
    """To 16 bits they are at the upper end of their interval."""
    assert savings(np.array([[-1.0], [-1e-17], [1.0]]), 32).uniform[0] < 1e-25


def test_levels_have_the_reported_variance(seed):
    values = table(np.random.default_rng(seed), 500)
    for bits in (2, 6, 32):
        found = savings(values, bits)
        for j, column in enumerate(values.T):
            levels = feature_levels(column, bits)
            assert len(levels) == min(len(np.unique(column)), Precision(bits).levels)
            assert (np.diff(levels) > 0).all()
            assert found.optimal[j, -1] == pytest.approx(cost_of(levels, column) / 500, rel=1e-9, abs=1e-16)
    assert (found.optimal[:, -1] == 0).all() and (found.optimal[2:, 3:] == 0).all()


def test_many_values_use_the_approximate_method(seed, monkeypatch):
    values = np.random.default_rng(seed).uniform(-1, 1, (20_000, 1)) ** 3
    exact = savings(values, 12)
    monkeypatch.setattr(module, "EXACT", 10_000)
    with pytest.warns(UserWarning, match=r"features with more than 10,000 different values have approximate levels"):
        near = savings(values, 12)
    assert (near.uniform == exact.uniform).all()
    over = near.optimal / exact.optimal
    assert (over[0, :5] < 1.01).all() and (over >= 1 - 1e-9).all() and (over > 1).any()
    assert over[0, 5] == 1  # 1,024 intervals are too many for bins
    with pytest.warns(UserWarning, match="approximate"):
        assert len(feature_levels(values[:, 0], 6)) == 17


def test_progress_and_bits(seed):
    values = table(np.random.default_rng(seed), 20)
    calls = []
    savings(values, 4, lambda: calls.append(1))
    assert len(calls) == 4
    for bits in (0, 3, 34):
        with pytest.raises(DataError, match=f"bits={bits} cannot be stored"):
            savings(values, bits)


@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_columns_are_scaled_as_training_scales_them(seed, loss):
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(50, 5)) * [1, 1e6, 1, 1e-6, 1] + [0, 7, 0, 0, -3]
    X[:, 2] = 4.0
    Model = SGDRegressor if loss == "squared_error" else SGDClassifier
    with pytest.warns(UserWarning, match="constant"):
        run = Model(loss=loss, device=FASTEST, epochs=1, batch_size=8).fit(X, X[:, 0] > 1).run_
    with pytest.warns(UserWarning, match=r"1 column\(s\) of X are constant: they are not stored"):
        scaling = column_scaling(X)
    assert scaling.active.tolist() == [0, 1, 3, 4]
    values = scaling.values(X)
    assert np.array_equal(values, run.scaling.values(X)[:, :4])
    assert np.abs(values).max(axis=0) == pytest.approx([1, 1, 1, 1], rel=2.0**-23) and np.abs(values).max() <= 1


def test_constant_and_overflowing_columns_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="every column of X is constant: there are no levels to choose"):
            column_scaling(np.ones((3, 2)))
        with pytest.raises(DataError, match="overflow"):
            column_scaling(np.array([[1.7e308], [-1.7e308], [1.7e308]]))


# --- the summary ---------------------------------------------------------------------------------
def test_features_are_sorted_by_savings():
    found = Savings(np.array([3.0, 9.0, 5.0]), np.array([[9.0, 2.5], [9.0, 1.0], [9.0, 4.0]]))
    assert found.order.tolist() == [1, 2, 0]


def in_one_line(text):
    """A text whose lines were broken at 80 columns."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("optimal", "enough", "verdict"),
    [
        (
            [[4, 3, 1.9, 0.1], [4, 3, 0.1, 0]],
            6,
            "optimal levels with 6 bits have no more variance, in sum, than uniform ones with 8",
        ),
        ([[2, 1, 0, 0], [0, 0, 0, 0]], 2, "with 2 bits have no more"),
        (
            [[4, 2.1, 2.1, 2.1], [1, 1, 1, 1]],
            8,
            "optimal levels with 6 bits have more variance, in sum, than uniform ones with 8",
        ),
        ([[2.1], [1]], 2, "2 bits are the fewest"),
    ],
)
def test_how_few_bits_are_enough(optimal, enough, verdict):
    found = Savings(np.array([1.5, 0.5]), np.array(optimal, float))
    assert found.enough == enough
    assert verdict in in_one_line(savings_summary(found, ["a", "b"], "t", 3))


def test_the_table():
    found = Savings(np.array([0.25, 0.5]), np.array([[9, 0.125], [9, 0.0]]))
    text = savings_summary(found, ["left", "right"], "t.csv", 1234)
    above, table, below = text.split("\n\n")
    rows = [line.split() for line in table.splitlines()]
    assert in_one_line(above).startswith(
        "t.csv: 1,234 rows, 2 features that vary; double sampling, 4 bits a feature: 5 levels variance of a draw"
    )
    shown = [["right", "0.5", "0", "0"], ["left", "0.25", "0.125", "0.5"], ["all", "2", "0.75", "0.125", "0.167"]]
    assert rows[3:] == shown
    assert below.endswith("`bitlane train --levels optimal` trains with them, at 3, 4 or 5 bits a feature")


def test_only_some_of_many_features_are_shown():
    count = SHOWN + 3
    found = Savings(np.arange(float(count)), np.zeros((count, 1)))
    lines = savings_summary(found, [f"f{j}" for j in range(count)], "t", 3).splitlines()
    assert "the 12 features that save most:" in lines
    assert [line.split()[0] for line in lines if line.startswith("f")] == [f"f{j}" for j in range(count - 1, 2, -1)]
    assert f"all {count}" in "\n".join(lines)


def test_nothing_to_save():
    text = savings_summary(Savings(np.zeros(1), np.zeros((1, 3))), ["a"], "t", 3)
    assert "uniform levels hold every value as it is" in text
    assert "nan" not in text and ["a", "0", "0", "-"] in [line.split() for line in text.splitlines()]
