"""The reference equals the textbook bit for bit, for any division into rows, rows per beat and outputs."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from tests.helpers.sgd_textbook import round_dot, textbooks

from bitlane.contract.fixed_point import NO_DECAY, encode_float
from bitlane.contract.formats import STEP_FRACTION
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.reference import blocks
from bitlane.reference import machine as reference
from bitlane.reference.machine import Reference, run_epochs

EPOCHS = 3
ROUNDS = 5  # largest number of runs of every mode
COLUMNS = (1, 2, 4, 8)


def random_rows(rng, geometry):
    shape = (geometry.rows, geometry.features)
    codes = rng.integers(0, 1 << geometry.base_bits, shape, dtype=np.uint64).astype(np.uint32)
    draws = rng.integers(0, 4, shape).astype(np.uint8) if geometry.draws else None
    return codes, draws, rng.integers(-32767, 32768, (geometry.rows, geometry.outputs)).astype(np.int16)


def random_step(rng):
    """Return a random step register, from zero to far too large."""
    exponent = rng.choice([0, rng.integers(0, 6), rng.integers(4, 32)], p=[0.15, 0.25, 0.6])
    return int(rng.integers(0, 1 << 16)) | int(exponent) << 16


def random_run(rng, loss=None, prox=None, staleness=None, rows_per_beat=None, table=False):
    """Return a random configuration with corner cases: small shapes, weights at their limits. None means random."""
    extreme = rng.random() < 0.1  # two very different draws and the largest step, so that scaled gradients saturate
    draws = table or extreme or bool(rng.integers(2))
    base_bits = int(rng.integers(1, 4)) if table else 0
    geometry = Geometry(
        features=int(rng.integers(1, 40)),
        rows=int(rng.integers(1, 60)),
        base_digits=base_bits // 2
        if table or extreme
        else int(rng.integers(0 if draws else 1, 17 if rng.random() < 0.7 else 3)),
        draws=draws,
        batch=int(rng.choice([rng.integers(1, 64), rng.integers(1, 9)])),
        rows_per_beat=rows_per_beat or int(rng.choice(COLUMNS)),
        outputs=int(rng.integers(1, 4)),
        half_digit=bool(base_bits % 2),
        codebook=table,
    )
    step = 0xFFFF if extreme else random_step(rng)
    low, high = sorted(int(end) for end in rng.integers(-(1 << 15), 1 << 15, 2) >> rng.integers(16))
    settings = Settings(
        step=step,
        step_negative=step if rng.random() < 0.5 else random_step(rng),
        penalty_step=int(rng.integers(0, 1 << 16)) | int(rng.integers(0, rng.choice([4, 32]))) << 16,
        decay=int(rng.integers(1 << 15, NO_DECAY + 1)),
        phase=int(rng.integers(1 << 32)),
        loss=Loss(int(rng.integers(3))) if loss is None else loss,
        prox=Prox(int(rng.integers(4))) if prox is None else prox,
        bounds=(low, high),
        unpenalized_intercept=bool(rng.integers(2)),
        staleness=int(rng.integers(2)) if staleness is None else staleness,
        weight_exponent=int(rng.choice([0, rng.integers(-8, 8)])),
        model_cut=some_cut(rng),
        scaled_gradient_cut=some_cut(rng),
        seed=int(rng.integers(1 << 32)),
    )
    span = 1 << int(28 if extreme else rng.choice([10, 20, 28, 31]))
    master = rng.integers(-span, span, (geometry.outputs, geometry.features)).astype(np.int32)
    if rng.random() < 0.2:
        master[:, rng.integers(geometry.features)] = -(1 << 31)
    return geometry, settings, master


def some_cut(rng):
    """Return a random cut of the random rounding, often 0 (no rounding)."""
    return int(rng.choice([0, 0, rng.integers(1, 28)]))


def random_levels(rng, geometry):
    """Return sorted random levels: anywhere, only at the ends, or close together."""
    span = 1 << int(rng.choice([4, 16, 17]))
    levels = rng.integers(-span, span, (geometry.levels, geometry.features))
    if rng.random() < 0.3:
        levels = np.where(levels < 0, -span, span - 1)
    return np.sort(levels, axis=0).astype(np.int32)


def register(parts):
    return parts[0] | parts[1] << 16


def check_epoch(epoch, books, rows):
    """Assert that an epoch of the reference equals the epoch of the textbooks on the same rows."""
    codes, draws, labels = (None if part is None else part.tolist() for part in rows)
    of_outputs = zip(*labels, strict=True)
    loss = [
        book.epoch(codes, draws or codes, list(of_output)) for book, of_output in zip(books, of_outputs, strict=True)
    ]
    assert epoch.loss.tolist() == loss
    assert epoch.state.master.tolist() == [book.master for book in books]
    assert epoch.saturations == sum(book.saturations for book in books)
    after = epoch.state.settings
    for book in books:
        assert (after.phase, after.seed) == (book.phase, book.seed)
        assert [after.step, after.step_negative, after.penalty_step] == [
            register(number) for number in (book.step, book.step_negative, book.penalty_step)
        ]


@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", [False, True], ids=["digits", "table"])
@pytest.mark.parametrize("loss", Loss)
def test_the_reference_equals_the_textbook_bit_for_bit(seed, monkeypatch, loss, table, rounds):
    """Every mode runs `rounds` times, and further runs follow until every event has occurred."""
    rng = np.random.default_rng(seed)
    values = {"s", "d", "w", "l2", "l1", "box", "rounded"}
    values |= {"z", "r"} if loss == Loss.SQUARES else set()
    values |= {"c"} if table else set()
    seen = set()
    for number, prox, staleness, rows_per_beat in product(range(ROUNDS), Prox, (0, 1), COLUMNS):
        if number >= rounds and seen == values:
            break
        monkeypatch.setattr(reference, "BLOCK", int(rng.choice([1, 100, 1 << 16])))
        geometry, settings, master = random_run(rng, loss, prox, staleness, rows_per_beat, table)
        levels = random_levels(rng, geometry) if table else None
        samples = [random_rows(rng, geometry) for _ in range(EPOCHS)]
        books = textbooks(geometry, settings, master, levels)
        for rows, epoch in zip(
            samples, run_epochs(samples, geometry, ModelState(master, settings), levels), strict=True
        ):
            check_epoch(epoch, books, rows)
        seen |= set().union(*(book.seen for book in books))
    assert seen == values, "some events did not occur: the test is too weak"


@pytest.mark.parametrize(("base_digits", "draws"), [(16, False), (15, True), (16, True), (8, False), (9, True)])
def test_the_widest_rows_are_exact(seed, base_digits, draws):
    """With 16,384 features, codes and weights at their limits a dot product needs 70 bits."""
    rng = np.random.default_rng(seed)
    geometry = Geometry(16384, 4, base_digits, draws, batch=3, rows_per_beat=2)
    rows = random_rows(rng, geometry)
    codes = rows[0]
    master = rng.integers(-(1 << 31), 1 << 31, 16384).astype(np.int32)
    codes[0], master[:] = (1 << 2 * base_digits) - 1, np.where(rng.random(16384) < 0.499, 2**31 - 1, -(2**31))
    codes[1] = np.where(master < 0, codes[1], (1 << 2 * base_digits) - 1 - codes[1])
    step = encode_float(1e-6, STEP_FRACTION)
    settings = Settings(step, step, penalty_step=0x9000, prox=Prox.L1)
    books = textbooks(geometry, settings, master[None])
    (epoch,) = run_epochs([rows], geometry, ModelState(master[None], settings))
    check_epoch(epoch, books, rows)


def test_the_dot_product_of_the_widest_row_is_exact(seed):
    """The test compares the dot product before saturation, which would hide most errors."""
    rng = np.random.default_rng(seed)
    for base_digits in (8, 9, 16):
        codes = rng.integers(0, 1 << 2 * base_digits, (2, 16384), dtype=np.uint64).astype(np.uint32)
        codes[0] = (1 << 2 * base_digits) - 1
        weights = rng.integers(-(1 << 23), 1 << 23, (16384, 2))
        weights[:8000] = -(1 << 23)
        block = blocks.DigitBlock(codes, None, base_digits)
        bits = 2 * base_digits
        exact = [
            [
                sum((2 * i + 1 - (1 << bits)) * x for i, x in zip(row, model, strict=True))
                for model in weights.T.tolist()
            ]
            for row in codes.tolist()
        ]
        for exponent in (-8, int(rng.integers(-7, 7)), 7):
            rounded = [[round_dot(dot, bits, exponent) for dot in dots] for dots in exact]
            assert block.rounded_dots(slice(0, 2), weights.astype(np.float64), exponent)[0].tolist() == rounded


def test_the_dot_product_of_the_widest_row_of_levels_is_exact(seed):
    """With 16,384 features at their limits the sums exceed 2**53; one sum is a unit below a rounding boundary."""
    rng = np.random.default_rng(seed)
    levels = np.tile(np.array([[-(1 << 17)], [0], [(1 << 17) - 1]]), 16384)
    weights = np.full((16384, 1), -(1 << 23))
    weights[:: 1 << 10] += rng.integers(1, 1 << 20, (16, 1))
    levels[:, 0], weights[0] = 1, (1 << 15) - 1
    codes = np.zeros((3, 16384), np.uint32)
    draws = np.zeros((3, 16384), np.uint8)
    codes[1], draws[1] = 1, 3
    codes[2], draws[2] = rng.integers(0, 2, 16384), rng.integers(0, 4, 16384)
    block = blocks.CodebookBlock(codes, draws, levels.astype(np.float64))
    exponent = int(rng.choice([-8, 0, 7]))
    dots = block.rounded_dots(slice(0, 3), weights.astype(np.float64), exponent)
    for found, bits in zip(dots, (draws >> 1, draws & 1), strict=True):
        chosen = np.take_along_axis(levels, (codes + bits).astype(np.intp), axis=0).tolist()
        exact = [sum(a * x for a, x in zip(row, weights[:, 0].tolist(), strict=True)) for row in chosen]
        assert found[:, 0].tolist() == [round_dot(dot, 16, exponent) for dot in exact]


def test_the_division_of_an_epoch_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        geometry, settings, master = random_run(rng)
        codes, draws, labels = random_rows(rng, geometry)
        (whole,) = run_epochs([(codes, draws, labels)], geometry, ModelState(master, settings))
        pieces = Reference(geometry, ModelState(master, settings))
        cuts = sorted(geometry.group_start(int(row)) for row in rng.integers(0, geometry.rows + 1, 3))
        for start, stop in pairwise([0, *cuts, geometry.rows]):
            rows = slice(start, stop)
            pieces.feed(codes[rows], None if draws is None else draws[rows], labels[rows])
        epoch = pieces.end_epoch()
        assert (epoch.loss.tolist(), epoch.saturations) == (whole.loss.tolist(), whole.saturations)
        assert epoch.state.master.tolist() == whole.state.master.tolist()


def test_a_piece_must_not_end_inside_a_group(seed):
    geometry = Geometry(3, 10, 1, False, batch=5, rows_per_beat=4)
    codes, _, labels = random_rows(np.random.default_rng(seed), geometry)
    for rows in (3, 6, 7):
        with pytest.raises(ValueError, match="inside a group of 4"):
            Reference(geometry, ModelState(np.zeros((1, 3), np.int32), Settings(1, 1))).feed(
                codes[:rows], None, labels[:rows]
            )


def test_an_epoch_needs_all_its_rows():
    geometry = Geometry(2, 5, 1, False, batch=1)
    pieces = Reference(geometry, ModelState(np.zeros((1, 2), np.int32), Settings(0, 0)))
    with pytest.raises(ValueError, match="5 rows, but got 0"):
        pieces.end_epoch()


def test_rows_per_beat_changes_only_saturation(seed):
    """Sums over a group are exact: without saturation, rows in parallel and rows in sequence give equal results."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        geometry, settings, _ = random_run(rng, rows_per_beat=1)
        step = int(rng.integers(1 << 15, 1 << 16)) | 14 << 16
        settings = replace(settings, step=step, step_negative=step, scaled_gradient_cut=0)
        master = rng.integers(-(1 << 27), 1 << 27, (geometry.outputs, geometry.features)).astype(np.int32)
        samples = [random_rows(rng, geometry) for _ in range(2)]
        narrow, *wide = (
            list(run_epochs(samples, replace(geometry, rows_per_beat=rows_per_beat), ModelState(master, settings)))
            for rows_per_beat in COLUMNS
        )
        assert all(
            epoch.state.master.tolist() == expected.state.master.tolist()
            and epoch.loss.tolist() == expected.loss.tolist()
            for epochs in wide
            for epoch, expected in zip(epochs, narrow, strict=True)
            if expected.saturations == 0
        )


def test_outputs_are_independent_runs(seed):
    rng = np.random.default_rng(seed)
    geometry, settings, _ = random_run(rng)
    geometry = replace(geometry, outputs=5)
    master = rng.integers(-(1 << 31), 1 << 31, (5, geometry.features)).astype(np.int32)
    codes, draws, labels = random_rows(rng, geometry)
    *_, together = run_epochs([(codes, draws, labels)] * 2, geometry, ModelState(master, settings))
    clipped = 0
    for output in range(5):
        one = (codes, draws, labels[:, output : output + 1])
        alone = replace(geometry, outputs=1)
        *_, epoch = run_epochs([one] * 2, alone, ModelState(master[output : output + 1], settings))
        assert epoch.loss[0] == together.loss[output]
        assert epoch.state.master[0].tolist() == together.state.master[output].tolist()
        clipped += epoch.saturations
    assert clipped == together.saturations
