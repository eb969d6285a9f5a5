"""Training: the mathematics that it promises, and what it reports."""

import warnings

import numpy as np
import pytest

from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.quantize import Precision
from bitlane.training import train


def table(seed, rows=701, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


def test_full_precision_finds_least_squares(seed):
    X, y = table(seed, n=5)
    run = train(
        X,
        y,
        precision=Precision(32, "full"),
        device=EmulatorDevice(),
        epochs=60,
        learning_rate=0.5,
        decay=0.93,
        seed=seed,
        snapshots=True,
    )
    design = np.column_stack([X, np.ones(len(X))])
    best = np.linalg.lstsq(design, y, rcond=None)[0]
    assert run.coef == pytest.approx(best[:-1], abs=0.05)
    prediction = X @ run.coef + run.intercept
    least = np.mean((design @ best - y) ** 2)
    assert np.mean((prediction - y) ** 2) == pytest.approx(least, rel=0.02)
    assert run.loss[-1] == pytest.approx(least, rel=0.05)  # user units squared
    assert run.snapshots.shape == (60, 5) and run.snapshots[-1].tolist() == run.weights.tolist()


def test_double_sampling_estimates_the_same_loss(seed):
    """The loss before anything is learnt is the labels' variance, whatever the bits."""
    X, y = table(seed, rows=3000, n=6)
    options = {"device": EmulatorDevice(), "epochs": 3, "learning_rate": 1e-6, "batch_size": 64, "seed": seed}
    for bits in (2, 4):
        run = train(X, y, precision=Precision(bits), **options)
        assert run.loss == pytest.approx(np.var(y), rel=0.01)


def test_what_a_run_reports(seed):
    X, y = table(seed, n=40)
    run = train(X, y, precision=Precision(4), device=EmulatorDevice(), epochs=3, learning_rate=0.05, seed=seed)
    assert run.device == "emulator" and run.seconds > 0 and run.starts == 1
    assert run.bytes_read == 8 * run.beats
    assert run.bound.raw == 3 * 701 * (40 * 4 + 16) / 64
    assert run.bound.layout == 3 * 701 * (64 * 4 + 16) / 64
    assert run.cycles > run.bound.layout > run.bound.raw
    assert run.settings["bits"] == 4 and run.settings["sets"] == 3 and run.settings["seed"] == seed
    assert run.stalls.memory >= 0 and run.stalls.model >= 0


def test_constant_columns_are_left_out_with_a_warning(seed):
    X, y = table(seed, n=6)
    options = {"precision": Precision(6, "nearest"), "device": EmulatorDevice(), "epochs": 2, "seed": seed}
    with_more = np.insert(X, [2, 4], 7.0, axis=1)
    with pytest.warns(UserWarning, match=r"2 column\(s\) of X are constant"):
        run = train(with_more, y, **options)
    assert run.coef[[2, 5]].tolist() == [0, 0]
    assert np.delete(run.coef, [2, 5]).tolist() == train(X, y, **options).coef.tolist()


def test_saturated_runs_warn(seed):
    X, y = table(seed, n=6)
    with pytest.warns(UserWarning, match="clipped.*reached 8.*lower learning_rate"):
        train(X, y, precision=Precision(2), device=EmulatorDevice(), learning_rate=20, seed=seed)


def test_quiet_when_all_is_well(seed):
    X, y = table(seed, n=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(X, y, precision=Precision(8), device=EmulatorDevice(), learning_rate=0.05, seed=seed, epochs=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"epochs": 65536}, "epochs=65536"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"draws": 0}, "draws=0"),
        ({"draws": "twice"}, "draws='twice'.*once"),
        ({"decay": 0.4}, "decay=0.4"),
        ({"decay": 1.01}, "decay=1.01"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"learning_rate": -1.0}, "above 0"),
        ({"learning_rate": 200.0}, "learning_rate / batch_size.* below 8"),
        ({"learning_rate": 1.0, "alpha": 0.07}, "alpha .* is 0.07.* 0.0625"),
        ({"alpha": -0.1}, "alpha"),
    ],
)
def test_values_that_cannot_be_used(seed, options, message):
    X, y = table(seed, rows=30, n=3)
    with pytest.raises(DataError, match=message):
        train(X, y, precision=Precision(4), device=EmulatorDevice(), **options)


def test_a_table_of_constants(seed):
    with pytest.raises(DataError, match="every column"):
        train(np.ones((5, 3)), np.arange(5.0), precision=Precision(4), device=EmulatorDevice())
