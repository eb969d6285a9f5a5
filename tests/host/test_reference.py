"""The vectorised integer model against the textbook's, bit for bit, and against the mathematics."""

from itertools import pairwise

import numpy as np
import pytest

from bitlane import reference
from bitlane.contract import STEP_FRACTION
from bitlane.fixed import NO_DECAY, mantissa_exponent
from bitlane.layout import Geometry, master_weights, weight_values
from bitlane.quantize import Precision, base_codes, draw_codes
from bitlane.reference import Reference, Settings, run_epochs

from .textbook import Textbook

EPOCHS = 3
CONFIGURATIONS = 400


def random_rows(rng, geometry):
    shape = (geometry.rows, geometry.features)
    codes = rng.integers(0, 1 << 2 * geometry.base_digits, shape, dtype=np.uint64).astype(np.uint32)
    draws = rng.integers(0, 4, shape).astype(np.uint8) if geometry.draws else None
    return codes, draws, rng.integers(-32767, 32768, geometry.rows).astype(np.int16)


def random_run(rng):
    """A configuration from all corners: steps from nothing to far too large, weights at their limits."""
    draws = bool(rng.integers(2))
    base_digits = int(rng.integers(0 if draws else 1, 17 if rng.random() < 0.7 else 3))
    geometry = Geometry(int(rng.integers(1, 40)), int(rng.integers(1, 40)), base_digits, draws)
    exponent = rng.integers(0, 6) if rng.random() < 0.4 else rng.integers(4, 32)
    settings = Settings(
        batch=int(rng.integers(1, geometry.rows + 4)),
        step=int(rng.integers(0, 1 << 16)) | int(exponent) << 16,
        rate=int(rng.integers(0, 1 << 16)) | int(rng.integers(0, 4)) << 16 if rng.random() < 0.6 else 0,
        decay=int(rng.integers(1 << 15, NO_DECAY + 1)),
        shrink=int(rng.integers(2)),
        phase=int(rng.integers(1 << 32)),
    )
    span = 1 << int(rng.choice([10, 20, 28, 31]))
    master = rng.integers(-span, span, geometry.features).astype(np.int32)
    if rng.random() < 0.2:
        master[rng.integers(geometry.features)] = -(1 << 31)
    return geometry, settings, master


def textbook_of(geometry, settings, master):
    return Textbook(
        base_digits=geometry.base_digits,
        draws=geometry.draws,
        batch=settings.batch,
        step=(settings.step & 0xFFFF, settings.step >> 16),
        rate=(settings.rate & 0xFFFF, settings.rate >> 16),
        decay=settings.decay,
        shift=8 if settings.shrink == 0 else 4,
        phase=settings.phase,
        master=master.tolist(),
    )


def test_every_bit_is_the_textbooks(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(CONFIGURATIONS):
        monkeypatch.setattr(reference, "BLOCK", int(rng.choice([1, 100, 1 << 16])))
        geometry, settings, master = random_run(rng)
        samples = [random_rows(rng, geometry) for _ in range(EPOCHS)]
        book = textbook_of(geometry, settings, master)
        for rows, epoch in zip(samples, run_epochs(samples, geometry, settings, master), strict=True):
            codes, draws, labels = rows
            loss = book.epoch(codes.tolist(), (codes if draws is None else draws).tolist(), labels.tolist())
            assert epoch.loss == loss
            assert epoch.master.tolist() == book.master
            assert epoch.saturations == book.saturations
            assert epoch.settings.phase == book.phase
            assert epoch.settings.step == book.step[0] | book.step[1] << 16
            assert not settings.rate or epoch.settings.rate == book.rate[0] | book.rate[1] << 16
        seen |= book.seen
    assert seen == {"z", "r", "s", "d", "w"}, "not every saturation was met: the test is too weak"


@pytest.mark.parametrize(("base_digits", "draws"), [(16, False), (15, True), (16, True), (8, False), (9, True)])
def test_the_widest_rows_are_exact(seed, base_digits, draws):
    """16,384 features at the limits of code and weight, where a dot product takes 70 bits."""
    rng = np.random.default_rng(seed)
    geometry = Geometry(16384, 3, base_digits, draws)
    codes, drawn, labels = random_rows(rng, geometry)
    master = rng.integers(-(1 << 31), 1 << 31, 16384).astype(np.int32)
    codes[0], master[:] = (1 << 2 * base_digits) - 1, np.where(rng.random(16384) < 0.499, 2**31 - 1, -(2**31))
    codes[1] = np.where(master < 0, codes[1], (1 << 2 * base_digits) - 1 - codes[1])
    settings = Settings(batch=2, step=mantissa_exponent(1e-6, STEP_FRACTION))
    book = textbook_of(geometry, settings, master)
    loss = book.epoch(codes.tolist(), (codes if drawn is None else drawn).tolist(), labels.tolist())
    (epoch,) = run_epochs([(codes, drawn, labels)], geometry, settings, master)
    assert (epoch.loss, epoch.saturations) == (loss, book.saturations)
    assert epoch.master.tolist() == book.master


def test_the_dot_product_of_the_widest_row_is_exact(seed):
    """Before saturation, which hides most of it."""
    rng = np.random.default_rng(seed)
    for base_digits in (8, 9, 16):
        codes = rng.integers(0, 1 << 2 * base_digits, (2, 16384), dtype=np.uint64).astype(np.uint32)
        codes[0] = (1 << 2 * base_digits) - 1
        weights = rng.integers(-(1 << 23), 1 << 23, 16384)
        weights[:8000] = -(1 << 23)
        block = reference._Block(codes, None, base_digits)
        bits = 2 * base_digits
        exact = [
            sum((2 * i + 1 - (1 << bits)) * x for i, x in zip(row, weights.tolist(), strict=True))
            for row in codes.tolist()
        ]
        rounded = [(dot + (1 << (bits - 1))) >> bits for dot in exact]
        assert block.rounded_dots(slice(0, 2), weights.astype(np.float64))[0].tolist() == rounded


def test_pieces_of_an_epoch_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        geometry, settings, master = random_run(rng)
        codes, draws, labels = random_rows(rng, geometry)
        (whole,) = run_epochs([(codes, draws, labels)], geometry, settings, master)
        pieces = Reference(geometry, settings, master)
        cuts = [0, *sorted(rng.integers(0, geometry.rows + 1, 3).tolist()), geometry.rows]
        for start, stop in pairwise(cuts):
            rows = slice(start, stop)
            pieces.feed(codes[rows], None if draws is None else draws[rows], labels[rows])
        epoch = pieces.end_epoch()
        assert (epoch.loss, epoch.saturations) == (whole.loss, whole.saturations)
        assert epoch.master.tolist() == whole.master.tolist()


def test_an_epoch_needs_all_its_rows(seed):
    geometry = Geometry(2, 5, 1, False)
    pieces = Reference(geometry, Settings(1, 0), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="5 rows, but 0"):
        pieces.end_epoch()


def float_sgd(X, y, batch, learning_rate, epochs, alpha=0.0):
    """Mini-batch SGD of least squares in float64."""
    w = np.zeros(X.shape[1])
    for _ in range(epochs):
        for start in range(0, len(X), batch):
            rows = X[start : start + batch]
            shrunk = w * (1 - alpha * learning_rate)
            w = shrunk - learning_rate / batch * rows.T @ (rows @ w - y[start : start + batch])
    return w


def test_full_precision_is_float_sgd(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (300, 20))
    y = np.clip(X @ rng.normal(0, 0.1, 20), -1, 1)
    labels = np.rint(32767 * y).astype(np.int16)
    precision = Precision(32, "full")
    geometry = Geometry(20, 300, precision.base_digits, False)
    settings = Settings(batch=16, step=mantissa_exponent(0.2 / 16, STEP_FRACTION))
    samples = [(base_codes(X, precision), None, labels)] * 5
    *_, last = run_epochs(samples, geometry, settings, master_weights(np.zeros(20)))
    expected = float_sgd(X, labels / 32768, 16, 0.2, 5)
    assert np.abs(expected).max() > 0.05
    assert weight_values(last.master) == pytest.approx(expected, abs=2e-5)
    assert last.saturations == 0


def test_shrinking_is_l2(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (2000, 5))
    labels = np.rint(32767 * np.clip(X @ [0.3, -0.2, 0.1, 0, 0.2], -1, 1)).astype(np.int16)
    precision = Precision(32, "full")
    alpha, learning_rate = 0.05, 0.1
    settings = Settings(
        batch=10,
        step=mantissa_exponent(learning_rate / 10, STEP_FRACTION),
        rate=mantissa_exponent(alpha * learning_rate * 16, 16),
        shrink=1,
    )
    samples = [(base_codes(X, precision), None, labels)] * 4
    *_, last = run_epochs(samples, Geometry(5, 2000, 16, False), settings, master_weights(np.zeros(5)))
    with_penalty = float_sgd(X, labels / 32768, 10, learning_rate, 4, alpha)
    without = float_sgd(X, labels / 32768, 10, learning_rate, 4)
    assert np.abs(with_penalty - without).max() > 0.02
    assert weight_values(last.master) == pytest.approx(with_penalty, abs=0.01)


def standard_errors(seed, precision, rounds=4000, n=6, batch=8):
    """By how many standard errors the mean of quantized gradients of one batch misses the exact one.

    Of the component along the weights: naive sampling's bias, each feature's variance times its weight (ZipML,
    section 2.2), adds up there. The codes are fresh each round, the weights far from the optimum.
    """
    rng = np.random.default_rng(seed)
    X = precision.limit * rng.uniform(-0.9, 0.9, (batch, n))
    weights = rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1.0, n)
    labels = np.rint(32767 * rng.uniform(-1, 1, batch)).astype(np.int16)
    geometry = Geometry(n, batch, precision.base_digits, precision.draws)
    step = 0.25
    settings = Settings(batch=batch, step=mantissa_exponent(step, STEP_FRACTION))
    start = master_weights(weights)
    found = np.empty(rounds)
    for i in range(rounds):
        codes = base_codes(X, precision, rng)
        draws = draw_codes(X, precision, rng) if precision.draws else None
        (epoch,) = run_epochs([(codes, draws, labels)], geometry, settings, start)
        assert epoch.saturations == 0
        found[i] = weights @ ((start.astype(np.float64) - epoch.master) / 2.0**28 / step)
    exact = weights @ X.T @ (X @ weights - labels / 32768)
    return (found.mean() - exact) / (found.std() / np.sqrt(rounds))


@pytest.mark.parametrize("bits", [2, 4])
def test_double_sampling_is_unbiased(seed, bits):
    assert abs(standard_errors(seed, Precision(bits, "double"))) < 4


def test_naive_sampling_is_biased(seed):
    """The same measure sees what double sampling cures."""
    assert standard_errors(seed, Precision(2, "naive")) > 4
