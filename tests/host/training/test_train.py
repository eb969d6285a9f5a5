"""Training against a textbook in float64: losses, penalties, sampling and several targets."""

import numpy as np
import pytest
from tests.helpers.emulators import emulator, fastest
from tests.helpers.training_tables import FULL, scaled, signs, table
from tests.helpers.trainings import trained

from bitlane.contract.precision import Precision
from bitlane.contract.settings import Settings
from bitlane.training.passes import passes

BATCH = 8


def textbook(X, y, slope, *, epochs, rate, decay=1.0, prox=lambda w: w, staleness=0):
    """Run SGD in float64 on scaled columns and a constant column for the intercept; return weights [n + 1].

    `slope(score, label)` is the derivative of the loss; `prox(w)` applies the penalty after each batch.
    """
    v = X - X.mean(axis=0)
    v = np.column_stack([v / np.abs(v).max(axis=0), np.ones(len(X))])
    w = np.zeros(v.shape[1])
    for _ in range(epochs):
        models = [w] * (1 + staleness)  # the models that the batches of this epoch may read
        for start in range(0, len(v), BATCH):
            rows = slice(start, start + BATCH)
            w = w - rate / BATCH * slope(v[rows] @ models[-1 - staleness], y[rows]) @ v[rows]
            w = np.append(prox(w[:-1]), w[-1])
            models.append(w)
        rate *= decay
    return w


def hinge(scores, y):
    return np.where(y * scores < 1, -y, 0.0)


def logistic(scores, y):
    return -y / (1 + np.exp(y * scores))


def test_full_precision_finds_least_squares(seed):
    X, y = table(seed, n=5)
    run = trained(
        X,
        y,
        precision=Precision(32, "full"),
        device=fastest(),
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
    coefficients, intercepts = run.models()
    assert coefficients[-1].tolist() == run.coef.tolist() and intercepts[-1] == run.intercept


@pytest.mark.parametrize(("loss", "slope"), [("hinge", hinge), ("log_loss", logistic)])
@pytest.mark.parametrize("staleness", [0, 1])
def test_margins_at_full_precision_follow_the_textbook(seed, loss, slope, staleness):
    X, y = table(seed, rows=203, n=5)
    y = signs(y)
    options = {"epochs": 6, "decay": 0.8}
    run = trained(
        X,
        y,
        precision=FULL,
        device=fastest(),
        loss=loss,
        learning_rate=0.5,
        batch_size=8,
        staleness=staleness,
        **options,
    )
    expected = textbook(X, y, slope, rate=0.5, staleness=staleness, **options)
    assert scaled(run) == pytest.approx(expected, abs=0.05 if loss == "hinge" else 0.005)
    assert np.mean((X @ run.coef + run.intercept > 0) == (y > 0)) > 0.75


def test_class_weights_at_full_precision_follow_the_textbook(seed):
    X, y = table(seed, rows=203, n=5)
    y = signs(y)
    weighted = {1.0: 2.5, -1.0: 0.5}
    run = trained(
        X,
        y,
        precision=FULL,
        device=fastest(),
        loss="log_loss",
        epochs=4,
        learning_rate=0.5,
        decay=1.0,
        batch_size=8,
        class_weight=(0.5, 2.5),
    )
    factors = np.vectorize(weighted.get)
    expected = textbook(X, y, lambda z, y: factors(y) * logistic(z, y), epochs=4, rate=0.5)
    assert scaled(run) == pytest.approx(expected, abs=0.005)


def test_class_weights_of_squares_move_the_intercept(seed):
    """The model is the weighted least squares of labels -1 and 1; its intercept differs from the unweighted one."""
    X, y = table(seed, n=4)
    y = np.where(y > np.quantile(y, 0.8), 1.0, -1.0)
    options = {"precision": FULL, "device": fastest(), "epochs": 60, "learning_rate": 0.2, "decay": 0.93}
    run = trained(X, y, class_weight=(1.0, 4.0), **options)
    root = np.sqrt(np.where(y > 0, 4.0, 1.0))
    design = np.column_stack([X, np.ones(len(X))])
    best = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    assert np.append(run.coef, run.intercept) == pytest.approx(best, abs=0.03)


def test_penalties_at_full_precision_follow_the_textbook(seed):
    X, y = table(seed, rows=203, n=8)
    y = signs(y)
    options = {"epochs": 5, "learning_rate": 0.5, "decay": 1.0, "batch_size": 8, "loss": "log_loss", "alpha": 0.02}

    def soft(w):
        return np.sign(w) * np.maximum(np.abs(w) - 0.5 * 0.02, 0)

    lasso = trained(X, y, precision=FULL, device=fastest(), penalty="l1", **options)
    expected = textbook(X, y, logistic, epochs=5, rate=0.5, prox=soft)
    assert scaled(lasso) == pytest.approx(expected, abs=0.005)
    zeros = expected[:-1] == 0
    assert (lasso.coef[zeros & (np.abs(lasso.weights) < 0.005)] == 0).all()
    ridge = trained(X, y, precision=FULL, device=fastest(), penalty="l2", **options)
    expected = textbook(X, y, logistic, epochs=5, rate=0.5, prox=lambda w: w * (1 - 0.5 * 0.02))
    assert scaled(ridge) == pytest.approx(expected, abs=0.02)  # the hardware shrinks by 1/64 in some batches


@pytest.mark.parametrize("sampling", ["double", "nearest", "naive"])
def test_l1_gives_exact_zeros(seed, sampling):
    """Columns that do not affect the labels get coefficients of exactly 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 20))
    y = 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(0, 0.1, 2000)
    options = {"precision": Precision(8, sampling), "device": fastest(), "learning_rate": 0.3, "decay": 0.8}
    run = trained(X, y, penalty="l1", alpha=0.02, epochs=10, **options)
    assert (run.coef[:2] != 0).all() and np.count_nonzero(run.coef[2:] == 0) >= 12
    assert np.count_nonzero(trained(X, y, epochs=10, **options).coef) >= 18  # by chance 1 of 3,000 is 0


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_bounds_hold_and_spare_the_intercept(seed, loss):
    X, y = table(seed, n=8)
    rare = X[:, 0] - X[:, 1] > 3  # the best intercept is far below 0, and the best second weight is negative
    y = np.where(rare, 1.0, -1.0) if loss == "log_loss" else y
    run = trained(
        X, y, precision=Precision(8), device=fastest(), loss=loss, bounds=(0, 0.25), epochs=5, learning_rate=0.5
    )
    assert (run.weights >= 0).all() and (run.weights <= 0.25).all() and (run.coef >= 0).all()
    assert (run.weights == 0).any() or (run.weights == 0.25).any()
    if loss == "log_loss":
        assert run.intercept + run.coef @ run.scaling.center < -0.25


@pytest.mark.parametrize(("loss", "at_zero"), [("hinge", 1.0), ("log_loss", np.log(2))])
@pytest.mark.parametrize("bits", [2, 4])
def test_the_loss_of_margins_is_not_scaled(seed, loss, at_zero, bits):
    X, y = table(seed, n=6)
    run = trained(X, signs(y), precision=Precision(bits), device=fastest(), loss=loss, learning_rate=1e-4, epochs=2)
    assert run.loss == pytest.approx(at_zero, rel=0.01)


@pytest.mark.parametrize("sampling", ["nearest", "naive", "double"])
def test_stored_intercepts_converge(seed, sampling):
    """The labels do not depend on the features: at four bits the intercept must reach the log odds in user units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(50, 1, (3000, 3))
    y = np.where(np.arange(3000) % 5 == 0, 1.0, -1.0)
    order = rng.permutation(3000)
    run = trained(
        X,
        y[order],
        precision=Precision(4, sampling),
        device=fastest(),
        loss="log_loss",
        epochs=12,
        learning_rate=1.0,
        decay=0.7,
    )
    assert np.mean(X @ run.coef + run.intercept) == pytest.approx(np.log(1 / 4), abs=0.1)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize(("outputs", "passes"), [(1, 5), (2, 3), (5, 1), (7, 1)])
def test_each_target_equals_a_training_of_its_own(seed, loss, outputs, passes):
    X, y = table(seed, n=6, targets=5)
    y = signs(y) if loss == "log_loss" else y * [1, 10, 100, 1, 1]
    options = {"precision": Precision(4), "epochs": 3, "learning_rate": 0.05, "snapshots": True, "seed": seed}
    options |= {"loss": loss, "decay": 0.9}
    heard = []
    device = emulator(outputs=outputs)
    run = trained(X, y, device=device, on_epoch=lambda *epoch: heard.append(epoch), **options)
    assert run.passes == passes and run.launches == passes and [epoch for epoch, _ in heard] == [0, 1, 2] * passes
    assert run.loss.shape == (3, 5) and run.coef.shape == (5, 6) and run.intercept.shape == (5,)
    assert run.snapshots.shape == (3, 5, 6) and run.models()[1].shape == (3, 5)
    assert heard[-1][1] == pytest.approx(run.loss[-1, (passes - 1) * outputs :].mean())
    alone = [trained(X, y[:, target], device=fastest(), **options) for target in range(5)]
    for target, other in enumerate(alone):
        assert run.weights[target].tolist() == other.weights.tolist()
        assert run.loss[:, target].tolist() == other.loss.tolist()
        assert run.snapshots[:, target].tolist() == other.snapshots.tolist()
        assert run.coef[target].tolist() == other.coef.tolist() and run.intercept[target] == other.intercept
    if outputs == 1:
        assert run.cycles == sum(other.cycles for other in alone)
        assert run.beats == sum(other.beats for other in alone)
        assert run.epoch_cycles.tolist() == sum(other.epoch_cycles for other in alone).tolist()
        assert run.bound.raw == sum(other.bound.raw for other in alone)
    assert run.bound.raw == passes * 3 * 701 * (run.settings["features"] * 4 + 16 * outputs) / 64
    assert run.cycles > run.bound.layout > run.bound.raw


def test_targets_with_equal_registers_share_a_pass():
    found = passes([Settings(step, step) for step in (1, 2, 1, 1)], 2)
    assert [targets.tolist() for targets in found] == [[0, 2], [3], [1]]


def test_a_single_column_of_labels_is_one_target(seed):
    X, y = table(seed, n=3)
    options = {"precision": Precision(4), "device": fastest(), "epochs": 2}
    assert trained(X, y[:, None], **options).coef.tolist() == trained(X, y, **options).coef.tolist()


def test_double_sampling_estimates_the_same_loss(seed):
    """At zero weights the estimated loss is the variance of the labels, for any number of bits."""
    X, y = table(seed, rows=3000, n=6)
    options = {"device": fastest(), "epochs": 3, "learning_rate": 1e-6, "batch_size": 64, "seed": seed}
    for bits in (2, 4):
        run = trained(X, y, precision=Precision(bits), **options)
        assert run.loss == pytest.approx(np.var(y), rel=0.01)
