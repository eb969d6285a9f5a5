"""Options of training: initial models, seeds, levels, port widths, warnings, and errors for invalid values."""

import warnings

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST, emulator, fastest
from tests.helpers.training_tables import signs, table
from tests.helpers.trainings import trained

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import unpack_base, unpack_draws
from bitlane.contract.precision import Precision
from bitlane.errors import DataError


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_training_starts_from_an_initial_model(seed, loss):
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
    with pytest.warns(UserWarning, match="initial weights beyond 1024"):
        trained(X, y, epochs=1, coef_init=1e8 * np.ones((2, 4)), **options)


def test_the_seed_determines_the_shuffled_order(seed):
    X, y = table(seed, n=3)
    options = {"precision": Precision(4), "device": fastest(), "epochs": 2, "seed": seed}
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1 << 32,))).permutation(len(X))
    shuffled = trained(X, y, shuffle=True, **options)
    assert shuffled.coef == pytest.approx(trained(X[order], y[order], **options).coef)
    assert shuffled.loss.tolist() != trained(X, y, **options).loss.tolist()


def test_the_result_reports_the_run(seed):
    X, y = table(seed, n=40)
    run = trained(X, y, precision=Precision(4), device=fastest(), epochs=3, learning_rate=0.05, seed=seed)
    assert run.device == FASTEST and run.seconds > 0 and run.launches == 1
    assert run.bytes_read == 8 * run.beats
    assert run.bound.raw == 3 * 701 * (40 * 4 + 16) / 64
    assert run.bound.layout == 3 * 701 * (64 * 4 + 16) / 64
    assert run.cycles > run.bound.layout > run.bound.raw
    assert run.settings["bits"] == 4 and run.settings["draw_sets"] == 3 and run.settings["seed"] == seed
    assert (run.settings["loss"], run.settings["rows_per_beat"], run.settings["outputs"]) == ("squared_error", 1, 1)
    assert run.passes == 1 and run.first_epoch == 0 and run.snapshots is None
    with pytest.raises(DataError, match="the run has no snapshots"):
        run.models()
    assert run.stalls.memory >= 0 and run.stalls.model >= 0


@pytest.mark.parametrize(("bits", "levels"), [(3, "uniform"), (3, "optimal"), (4, "optimal"), (5, "optimal")])
def test_stored_samples_decode_to_their_levels(seed, bits, levels):
    """The samples in memory, decoded with the levels of the result, equal the data up to unbiased draws."""
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


def stored(device):
    """A list of every array that the host writes to the device's memory, in order."""
    written = []

    def keep(buffer, flush=device.flush):
        written.append(np.array(buffer.array))
        flush(buffer)

    device.flush = keep
    return written


def test_uniform_levels_in_a_codebook_match_digit_lanes(seed):
    """Samples and draws are equal; the weights differ because the lanes round differently.

    A value within a rounding of float32 of its draw's threshold may fall to either side: one draw in about 20 tables.
    """
    X, y = table(seed, n=40)
    options = {"epochs": 3, "learning_rate": 0.05, "seed": seed, "shuffle": True}
    devices = fastest(), emulator(level_slots=64)
    memories = [stored(device) for device in devices]
    digits = trained(X, y, precision=Precision(4), device=devices[0], **options)
    tables = trained(X, y, precision=Precision(4, codebook=True), device=devices[1], **options)
    assert digits.levels is None and tables.levels is not None
    samples = [
        [words for words in memory if len(words) > len(X)] for memory in memories
    ]  # digits and draws: all else is smaller
    assert [len(words) for words in samples[0]] == [len(words) for words in samples[1]] and samples[0]
    other = sum(np.unpackbits((a ^ b).view(np.uint8)).sum() for a, b in zip(*samples, strict=True))
    assert other <= 12  # bits of three draws
    assert tables.loss == pytest.approx(digits.loss, rel=1e-5 + 1e-3 * other)
    assert tables.weights == pytest.approx(digits.weights, abs=1e-5 + 5e-4 * other)
    assert tables.bytes_read - digits.bytes_read == 5 * 64 * 4  # the tables, once


@pytest.mark.parametrize("width", [128, 512])
def test_wider_ports_give_the_same_bits_in_fewer_cycles(seed, width):
    X, y = table(seed, n=40)
    options = {"precision": Precision(4), "epochs": 3, "learning_rate": 0.05, "seed": seed, "batch_size": 20}
    narrow = trained(X, y, device=fastest(), **options)
    wide = trained(X, y, device=emulator(width=width), **options)
    assert narrow.saturations == 0
    assert wide.loss.tolist() == narrow.loss.tolist() and wide.coef.tolist() == narrow.coef.tolist()
    assert wide.cycles < narrow.cycles and wide.rows_per_beat == width // 64
    assert wide.bytes_read == wide.beats * width // 8
    assert wide.bound.raw == narrow.bound.raw * 64 / width


def test_constant_columns_are_omitted_with_a_warning(seed):
    X, y = table(seed, n=6)
    options = {"precision": Precision(6, "nearest"), "device": fastest(), "epochs": 2, "seed": seed}
    with_more = np.insert(X, [2, 4], 7.0, axis=1)
    with pytest.warns(UserWarning, match=r"2 column\(s\) of X are constant"):
        run = trained(with_more, y, **options)
    assert run.coef[[2, 5]].tolist() == [0, 0]
    assert np.delete(run.coef, [2, 5]).tolist() == trained(X, y, **options).coef.tolist()


def test_saturated_runs_warn(seed):
    X, y = table(seed, n=6)
    with pytest.warns(UserWarning, match="clipped.*reached 8.*lower learning_rate"):
        trained(X, y, precision=Precision(2), device=fastest(), learning_rate=20, seed=seed)


def test_margins_that_need_weights_beyond_the_largest_range_warn(seed, monkeypatch):
    """An outlier scales all other values of its column down."""
    X = np.random.default_rng(seed).normal(size=(701, 1))
    X[0] = 1000
    monkeypatch.setattr("bitlane.training.weight_range._exponent", lambda largest: 0)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    with pytest.warns(UserWarning, match="clipped.*scaled weights reached 8, .*use a penalty"):
        device, precision = fastest(), Precision(16)
        trained(X, y, precision=precision, device=device, loss="hinge", learning_rate=4, batch_size=1, clip=None)


def test_clipped_scores_of_margins_do_not_warn(seed):
    """Scores beyond 8 are correct classifications with zero loss."""
    X = np.random.default_rng(seed).uniform(-1, 1, (701, 20))
    coef = np.full((1, 20), 5.0)
    scores = (X - X.mean(axis=0)) @ coef[0]
    assert np.mean(np.abs(scores) > 8) > 0.3
    options = {"precision": Precision(8), "device": fastest(), "loss": "hinge", "learning_rate": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = trained(X, np.where(scores > 0, 1.0, -1.0), epochs=3, coef_init=coef, **options)
    assert (run.weights > 4).all()


def test_a_good_training_does_not_warn(seed):
    X, y = table(seed, n=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(X, y, precision=Precision(8), device=fastest(), learning_rate=0.05, seed=seed, epochs=2)


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
def test_invalid_values_are_refused(seed, options, message):
    X, y = table(seed, rows=30, n=3)
    with pytest.raises(DataError, match=message):
        trained(X, y, precision=Precision(4), device=fastest(), **options)


def test_constant_data_is_refused(seed):
    with pytest.raises(DataError, match="every column"):
        trained(np.ones((5, 3)), np.arange(5.0), precision=Precision(4), device=fastest())
