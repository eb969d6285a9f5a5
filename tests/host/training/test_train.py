"""Training: the mathematics that it promises, and what it reports."""

import warnings

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.trainings import trained

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import unpack_base, unpack_draws
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.training.train import passes

FULL = Precision(32, "full")


def table(seed, rows=701, n=40, targets=1):
    """A noisy linear table; y is [rows], or [rows, targets] of several."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (rows, n))
    y = X @ rng.normal(size=(n, targets)) + rng.normal(0, 0.3, (rows, targets))
    return X, y[:, 0] if targets == 1 else y


def signs(y):
    """The targets as classes, -1 and 1, about as many of each."""
    return np.where(y > np.median(y, axis=0), 1.0, -1.0)


def textbook(X, y, slope, *, epochs, batch, rate, decay=1.0, prox=lambda w: w, staleness=0):
    """SGD in float64 on scaled columns and an intercept's feature: weights [n + 1]. slope(score, label), prox(w)."""
    v = X - X.mean(axis=0)
    v = np.column_stack([v / np.abs(v).max(axis=0), np.ones(len(X))])
    w = np.zeros(v.shape[1])
    for _ in range(epochs):
        models = [w] * (1 + staleness)  # what the batches of this epoch may read
        for start in range(0, len(v), batch):
            rows = slice(start, start + batch)
            w = w - rate / batch * slope(v[rows] @ models[-1 - staleness], y[rows]) @ v[rows]
            w = np.append(prox(w[:-1]), w[-1])
            models.append(w)
        rate *= decay
    return w


def hinge(scores, y):
    return np.where(y * scores < 1, -y, 0.0)


def logistic(scores, y):
    return -y / (1 + np.exp(y * scores))


def scaled(run):
    """The weights [n] and intercept of a run of margins, as `textbook` gives them."""
    return np.append(run.weights, run.intercept + run.coef @ run.scaling.center)


def test_full_precision_finds_least_squares(seed):
    X, y = table(seed, n=5)
    run = trained(
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
        device=EmulatorDevice(),
        loss=loss,
        learning_rate=0.5,
        batch_size=8,
        staleness=staleness,
        **options,
    )
    expected = textbook(X, y, slope, batch=8, rate=0.5, staleness=staleness, **options)
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
        device=EmulatorDevice(),
        loss="log_loss",
        epochs=4,
        learning_rate=0.5,
        batch_size=8,
        class_weight=(0.5, 2.5),
    )
    factors = np.vectorize(weighted.get)
    expected = textbook(X, y, lambda z, y: factors(y) * logistic(z, y), epochs=4, batch=8, rate=0.5)
    assert scaled(run) == pytest.approx(expected, abs=0.005)


def test_class_weights_of_squares_move_the_intercept(seed):
    """The weighted least squares of labels -1 and 1, whose intercept does not follow from the plain means."""
    X, y = table(seed, n=4)
    y = np.where(y > np.quantile(y, 0.8), 1.0, -1.0)
    options = {"precision": FULL, "device": EmulatorDevice(), "epochs": 60, "learning_rate": 0.2, "decay": 0.93}
    run = trained(X, y, class_weight=(1.0, 4.0), **options)
    root = np.sqrt(np.where(y > 0, 4.0, 1.0))
    design = np.column_stack([X, np.ones(len(X))])
    best = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
    assert np.append(run.coef, run.intercept) == pytest.approx(best, abs=0.03)


def test_penalties_at_full_precision_follow_the_textbook(seed):
    X, y = table(seed, rows=203, n=8)
    y = signs(y)
    options = {"epochs": 5, "learning_rate": 0.5, "batch_size": 8, "loss": "log_loss", "alpha": 0.02}

    def soft(w):
        return np.sign(w) * np.maximum(np.abs(w) - 0.5 * 0.02, 0)

    lasso = trained(X, y, precision=FULL, device=EmulatorDevice(), penalty="l1", **options)
    expected = textbook(X, y, logistic, epochs=5, batch=8, rate=0.5, prox=soft)
    assert scaled(lasso) == pytest.approx(expected, abs=0.005)
    zeros = expected[:-1] == 0
    assert (lasso.coef[zeros & (np.abs(lasso.weights) < 0.005)] == 0).all()
    ridge = trained(X, y, precision=FULL, device=EmulatorDevice(), penalty="l2", **options)
    expected = textbook(X, y, logistic, epochs=5, batch=8, rate=0.5, prox=lambda w: w * (1 - 0.5 * 0.02))
    assert scaled(ridge) == pytest.approx(expected, abs=0.02)  # it shrinks now and then, by 1/64


@pytest.mark.parametrize("sampling", ["double", "nearest", "naive"])
def test_l1_gives_exact_zeros(seed, sampling):
    """Columns that the labels do not depend on get coefficients that are 0 and not nearly so."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 20))
    y = 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(0, 0.1, 2000)
    options = {"precision": Precision(8, sampling), "device": EmulatorDevice(), "learning_rate": 0.3, "decay": 0.8}
    run = trained(X, y, penalty="l1", alpha=0.02, epochs=10, **options)
    assert (run.coef[:2] != 0).all() and np.count_nonzero(run.coef[2:] == 0) >= 12
    assert np.count_nonzero(trained(X, y, epochs=10, **options).coef) >= 18  # by chance one in 3,000 weights is 0


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_bounds_hold_and_spare_the_intercept(seed, loss):
    X, y = table(seed, n=8)
    rare = X[:, 0] - X[:, 1] > 3  # so that the intercept is far below 0; and the second weight wants to be
    y = np.where(rare, 1.0, -1.0) if loss == "log_loss" else y
    run = trained(
        X, y, precision=Precision(8), device=EmulatorDevice(), loss=loss, bounds=(0, 0.25), epochs=5, learning_rate=0.5
    )
    assert (run.weights >= 0).all() and (run.weights <= 0.25).all() and (run.coef >= 0).all()
    assert (run.weights == 0).any() or (run.weights == 0.25).any()
    if loss == "log_loss":
        assert run.intercept + run.coef @ run.scaling.center < -0.25


@pytest.mark.parametrize(("loss", "at_zero"), [("hinge", 1.0), ("log_loss", np.log(2))])
@pytest.mark.parametrize("bits", [2, 4])
def test_the_loss_of_margins_has_no_unit(seed, loss, at_zero, bits):
    X, y = table(seed, n=6)
    run = trained(
        X, signs(y), precision=Precision(bits), device=EmulatorDevice(), loss=loss, learning_rate=1e-4, epochs=2
    )
    assert run.loss == pytest.approx(at_zero, rel=0.01)


@pytest.mark.parametrize("sampling", ["nearest", "naive", "double"])
def test_intercepts_that_are_stored_reach_their_place(seed, sampling):
    """Four coarse bits, nothing but the intercept to learn: it is the log odds in the user's units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(50, 1, (3000, 3))
    y = np.where(np.arange(3000) % 5 == 0, 1.0, -1.0)
    order = rng.permutation(3000)
    run = trained(
        X,
        y[order],
        precision=Precision(4, sampling),
        device=EmulatorDevice(),
        loss="log_loss",
        epochs=12,
        learning_rate=1.0,
        decay=0.7,
    )
    assert np.mean(X @ run.coef + run.intercept) == pytest.approx(np.log(1 / 4), abs=0.1)


# --- several targets -----------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize(("outputs", "passes"), [(1, 5), (2, 3), (5, 1), (7, 1)])
def test_each_target_is_what_it_would_be_alone(seed, loss, outputs, passes):
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
    alone = [trained(X, y[:, target], device=EmulatorDevice(), **options) for target in range(5)]
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


def test_targets_of_one_class_weight_share_a_pass():
    found = passes([(1.0, 1.0), (1.0, 2.0), (1.0, 1.0), (1.0, 1.0)], 2)
    assert [targets.tolist() for targets in found] == [[0, 2], [3], [1]]


def test_one_column_is_one_target(seed):
    X, y = table(seed, n=3)
    options = {"precision": Precision(4), "device": EmulatorDevice(), "epochs": 2}
    assert trained(X, y[:, None], **options).coef.tolist() == trained(X, y, **options).coef.tolist()


# --- beginnings ----------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_beginning_with_a_model(seed, loss):
    X, y = table(seed, n=4, targets=2)
    y = signs(y) if loss == "log_loss" else y
    options = {"precision": Precision(8), "device": emulator(outputs=2), "loss": loss, "learning_rate": 0.3}
    first = trained(X, y, epochs=15, **options)
    begin = {"coef_init": first.coef, "intercept_init": first.intercept}
    still = trained(X, y, epochs=1, **{**options, "learning_rate": 1e-6}, **begin)
    assert still.coef == pytest.approx(first.coef, rel=1e-3, abs=1e-3)
    assert still.intercept == pytest.approx(first.intercept, rel=1e-3, abs=1e-2)
    assert (still.loss < trained(X, y, epochs=1, **{**options, "learning_rate": 1e-6}).loss).all()
    with pytest.raises(DataError, match=r"coef_init and intercept_init have shapes \(1, 4\).*needs \(2, 4\)"):
        trained(X, y, coef_init=first.coef[:1], **options)
    with pytest.warns(UserWarning, match="initial weights beyond 8"):
        trained(X, y, epochs=1, coef_init=1e4 * np.ones((2, 4)), **options)


def test_shuffling_is_the_seeds(seed):
    X, y = table(seed, n=3)
    options = {"precision": Precision(4), "device": EmulatorDevice(), "epochs": 2, "seed": seed}
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 32,))).permutation(len(X))
    shuffled = trained(X, y, shuffle=True, **options)
    assert shuffled.coef == pytest.approx(trained(X[order], y[order], **options).coef)
    assert shuffled.loss.tolist() != trained(X, y, **options).loss.tolist()


def test_double_sampling_estimates_the_same_loss(seed):
    """The loss before anything is learnt is the labels' variance, whatever the bits."""
    X, y = table(seed, rows=3000, n=6)
    options = {"device": EmulatorDevice(), "epochs": 3, "learning_rate": 1e-6, "batch_size": 64, "seed": seed}
    for bits in (2, 4):
        run = trained(X, y, precision=Precision(bits), **options)
        assert run.loss == pytest.approx(np.var(y), rel=0.01)


def test_what_a_run_reports(seed):
    X, y = table(seed, n=40)
    run = trained(X, y, precision=Precision(4), device=EmulatorDevice(), epochs=3, learning_rate=0.05, seed=seed)
    assert run.device == "emulator" and run.seconds > 0 and run.launches == 1
    assert run.bytes_read == 8 * run.beats
    assert run.bound.raw == 3 * 701 * (40 * 4 + 16) / 64
    assert run.bound.layout == 3 * 701 * (64 * 4 + 16) / 64
    assert run.cycles > run.bound.layout > run.bound.raw
    assert run.settings["bits"] == 4 and run.settings["draw_sets"] == 3 and run.settings["seed"] == seed
    assert (run.settings["loss"], run.settings["rows_per_beat"], run.settings["outputs"]) == ("squared_error", 1, 1)
    assert run.passes == 1 and run.first_epoch == 0 and run.snapshots is None
    with pytest.raises(DataError, match="without snapshots"):
        run.models()
    assert run.stalls.memory >= 0 and run.stalls.model >= 0


@pytest.mark.parametrize(("bits", "levels"), [(3, "uniform"), (3, "optimal"), (4, "optimal"), (5, "optimal")])
def test_samples_are_read_as_their_levels(seed, bits, levels):
    """What lies in memory, decoded with `Run.levels`, is the table but for what draws add, without bias."""
    X, y = table(seed, rows=2000, n=40)
    X[:, 5], X[:, 7] = 3.5, np.round(X[:, 7])
    device, written = emulator(level_slots=64), {}

    def keep(buffer, flush=device.flush):
        written[len(buffer.array)] = np.array(buffer.array)
        flush(buffer)

    device.flush = keep
    precision = Precision(bits, codebook=True)
    with pytest.warns(UserWarning, match="constant"):
        run = trained(X, y, precision=precision, device=device, levels=levels, draws="once", epochs=1, batch_size=16)
    geometry = Geometry(39, 2000, precision.base_digits, True, 16, half_digit=precision.half_digit, codebook=True)
    codes, _ = unpack_base(written[geometry.base_words], geometry)
    drawn = unpack_draws(written[geometry.draw_words], geometry)
    assert run.levels.shape == (precision.levels, 40) and (run.levels[:, 5] == 3.5).all()
    own = np.delete(run.levels, 5, axis=1)
    first, second = (own[codes + u, np.arange(39)] for u in (drawn >> 1, drawn & 1))
    exact = np.delete(X, 5, axis=1)
    spread = np.diff(own, axis=0).max(axis=0)
    assert (np.abs(first - exact) <= spread + 1e-9).all() and (first != second).any()
    assert (np.abs(((first + second) / 2 - exact).mean(axis=0)) <= 6 * spread / np.sqrt(2000)).all()


def test_uniform_levels_in_a_table_give_what_digits_do(seed):
    """The same samples and draws; the weights differ by how the lanes round."""
    X, y = table(seed, n=40)
    options = {"epochs": 3, "learning_rate": 0.05, "seed": seed, "shuffle": True}
    digits = trained(X, y, precision=Precision(4), device=EmulatorDevice(), **options)
    tables = trained(X, y, precision=Precision(4, codebook=True), device=emulator(level_slots=64), **options)
    assert digits.levels is None and tables.levels is not None
    assert tables.loss == pytest.approx(digits.loss, rel=1e-4)
    assert tables.weights == pytest.approx(digits.weights, abs=1e-4)
    assert tables.bytes_read - digits.bytes_read == 5 * 64 * 4  # the tables, once


@pytest.mark.parametrize("width", [128, 512])
def test_wider_ports_give_the_same_bits_in_fewer_cycles(seed, width):
    X, y = table(seed, n=40)
    options = {"precision": Precision(4), "epochs": 3, "learning_rate": 0.05, "seed": seed, "batch_size": 20}
    narrow = trained(X, y, device=EmulatorDevice(), **options)
    wide = trained(X, y, device=emulator(width=width), **options)
    assert narrow.saturations == 0
    assert wide.loss.tolist() == narrow.loss.tolist() and wide.coef.tolist() == narrow.coef.tolist()
    assert wide.cycles < narrow.cycles and wide.rows_per_beat == width // 64
    assert wide.bytes_read == wide.beats * width // 8
    assert wide.bound.raw == narrow.bound.raw * 64 / width


def test_constant_columns_are_left_out_with_a_warning(seed):
    X, y = table(seed, n=6)
    options = {"precision": Precision(6, "nearest"), "device": EmulatorDevice(), "epochs": 2, "seed": seed}
    with_more = np.insert(X, [2, 4], 7.0, axis=1)
    with pytest.warns(UserWarning, match=r"2 column\(s\) of X are constant"):
        run = trained(with_more, y, **options)
    assert run.coef[[2, 5]].tolist() == [0, 0]
    assert np.delete(run.coef, [2, 5]).tolist() == trained(X, y, **options).coef.tolist()


def test_saturated_runs_warn(seed):
    X, y = table(seed, n=6)
    with pytest.warns(UserWarning, match="clipped.*reached 8.*lower learning_rate"):
        trained(X, y, precision=Precision(2), device=EmulatorDevice(), learning_rate=20, seed=seed)


def test_margins_that_want_larger_weights_than_there_are_warn(seed):
    """A column whose outlier squeezes all others together."""
    X = np.random.default_rng(seed).normal(size=(701, 1))
    X[0] = 1000
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    with pytest.warns(UserWarning, match="clipped.*scaled weights reached 8.*use a penalty"):
        trained(X, y, precision=Precision(16), device=EmulatorDevice(), loss="hinge", learning_rate=4, batch_size=1)


def test_clipped_dot_products_of_margins_are_no_reason_to_warn(seed):
    """Scores beyond 8 are right answers, and cost nothing."""
    X = np.random.default_rng(seed).uniform(-1, 1, (701, 20))
    coef = np.full((1, 20), 5.0)
    scores = (X - X.mean(axis=0)) @ coef[0]
    assert np.mean(np.abs(scores) > 8) > 0.3
    options = {"precision": Precision(8), "device": EmulatorDevice(), "loss": "hinge", "learning_rate": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = trained(X, np.where(scores > 0, 1.0, -1.0), epochs=3, coef_init=coef, **options)
    assert (run.weights > 4).all()


def test_quiet_when_all_is_well(seed):
    X, y = table(seed, n=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(X, y, precision=Precision(8), device=EmulatorDevice(), learning_rate=0.05, seed=seed, epochs=2)


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
        ({"learning_rate": 1.0, "penalty": "l2", "alpha": 0.02}, "alpha .* is 0.02.* 0.0156"),
        ({"learning_rate": 1.0, "penalty": "l1", "alpha": 1.0}, "alpha .* is 1.*below 1"),
        ({"penalty": "l1", "alpha": -0.1}, "alpha"),
        ({"loss": "hinge"}, "loss='hinge': the labels must be -1 and 1"),
        ({"staleness": 2}, "staleness=2"),
        ({"bounds": (1, 0)}, "bounds"),
        ({"class_weight": (1.0, -1.0)}, "class_weight"),
        ({"levels": "optimal"}, "levels='optimal' needs a precision with codebooks"),
        ({"class_weight": [(1.0, 1.0), (1.0, 1.0)]}, "class_weight"),
    ],
)
def test_values_that_cannot_be_used(seed, options, message):
    X, y = table(seed, rows=30, n=3)
    with pytest.raises(DataError, match=message):
        trained(X, y, precision=Precision(4), device=EmulatorDevice(), **options)


def test_a_table_of_constants(seed):
    with pytest.raises(DataError, match="every column"):
        trained(np.ones((5, 3)), np.arange(5.0), precision=Precision(4), device=EmulatorDevice())
