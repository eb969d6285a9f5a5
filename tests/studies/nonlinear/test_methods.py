"""The copies that each method reads, and its gradients."""

from itertools import pairwise

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.evaluation.baseline import SLOPES
from bitlane_studies.nonlinear.lattice import Lattice
from bitlane_studies.nonlinear.methods import FAILURE, FULL, RADIUS, Double, Plain, Polynomial, Refetching, methods

SIXTEENTHS = 1 / 16


def dyadic(rng, *shape, unit=2.0**-10):
    """Return numbers in [-1, 1] whose sums of products have no rounding error."""
    return rng.integers(-(1 / unit), 1 / unit + 1, shape) * unit


def hinge(seed, rows=20_000, n=6):
    """Return a generator, rows, labels and weights; many margins are close to the hinge or exactly on it."""
    rng = np.random.default_rng(seed)
    weights = np.round(rng.normal(0, 1, n) / SIXTEENTHS) * SIXTEENTHS
    while np.abs(weights).sum() < 4:  # with small weights hardly a margin reaches the hinge
        weights = 2 * weights + (weights == 0) * SIXTEENTHS
    values = dyadic(rng, rows, n, unit=2.0**-6)
    return rng, values, rng.choice([-1.0, 1.0], rows), weights


@pytest.mark.parametrize("bits", [2, 4, 5, 8])
def test_l1_slopes_are_always_correct(seed, bits):
    rng, values, labels, weights = hinge(seed)
    method = Refetching("l1", bits)
    few, _, full = method.read(values, rng) @ weights
    undecided = method.undecided(few, labels, weights)
    true = labels * full < 1
    assert ((labels * few < 1) != true).any()  # some slopes are wrong without refetching
    assert np.array_equal((labels * few < 1)[~undecided], true[~undecided])
    slopes, fetched = method.slopes(np.stack([few, full, full]), labels, weights)
    assert fetched == undecided.sum()
    assert slopes.sum(axis=0).tolist() == SLOPES["hinge"](full, labels).tolist()
    assert not slopes[0].any() and not slopes[1][undecided].any() and not slopes[2][~undecided].any()


def test_the_l1_bound_is_tight():
    """One feature at the end of its interval has exactly the error of the bound."""
    values, labels, weights = np.array([[1.0]]), np.ones(1), np.ones(1)
    method = Refetching("l1", 3)
    few = method.read(values, np.random.default_rng(0))[0] @ weights
    assert abs(few[0] - 1) == method.lattice.width / 2 and method.undecided(few, labels, weights).all()


@pytest.mark.parametrize("bits", [4, 6])
def test_the_l2_bound_holds_with_its_probability(seed, bits):
    """Many draws of one row exceed the bound with at most its probability, and a quarter of the bound more often."""
    rng = np.random.default_rng(seed)
    method, count = Refetching("l2", bits), 100_000
    values, weights = rng.uniform(-1, 1, 40), np.ones(40)
    weights *= (1.0 + 1e-9) / (values @ weights)  # the margin is just beyond the hinge
    drawn = method.lattice.draws(np.tile(values, (count, 1)), 1, rng)[0] @ weights
    wrong = (drawn < 1) & ~method.undecided(drawn, np.ones(count), weights)
    assert wrong.mean() <= FAILURE
    error = np.abs(drawn - 1) > method.lattice.width * np.linalg.norm(weights) * np.sqrt(np.log(2 / FAILURE) / 2) / 4
    assert error.mean() > FAILURE


@pytest.mark.parametrize("bound", ["l1", "l2"])
def test_more_bits_fetch_fewer_rows(seed, bound):
    rng, values, labels, weights = hinge(seed)
    shares = []
    for bits in (4, 6, 8, 10):
        method = Refetching(bound, bits)
        shares.append(method.slopes(method.read(values, rng) @ weights, labels, weights)[1] / len(labels))
    assert all(more < 0.5 * fewer for fewer, more in pairwise(shares)) and shares[-1] > 0


@pytest.mark.parametrize("bits", [4, 8])
def test_refetching_is_unbiased(seed, bits):
    """The mean gradient of the hinge over many reads is within 4.5 standard errors; with nearest rounding it is not."""
    rng, values, labels, weights = hinge(seed, rows=400)
    true = SLOPES["hinge"](values @ weights, labels) @ values

    def gradients(method, count):
        for _ in range(count):
            copies = method.read(values, rng)
            slopes, _ = method.slopes(copies @ weights, labels, weights)
            yield np.einsum("kr,krn->n", slopes, copies)

    found = np.array([*gradients(Refetching("l1", bits), 1000)])
    assert (np.abs(found.mean(axis=0) - true) < 4.5 * found.std(axis=0) / np.sqrt(1000) + 1e-9).all()
    (nearest,) = gradients(Plain("hinge", Precision(bits, "nearest")), 1)
    assert (np.abs(nearest - true) > 4.5 * found.std(axis=0) / np.sqrt(1000) + 1e-9).any()


def test_double_sampling_is_unbiased_only_for_squared_errors(seed):
    """Over many reads of a row the mean gradient is within 4.5 standard errors of float64, but not for the hinge."""
    rng, count = np.random.default_rng(seed), 40_000
    row, weights, labels = rng.uniform(0.3, 0.7, 6), rng.uniform(0.8, 1.2, 6), np.ones(count)
    weights *= 0.9 / (row @ weights)
    for loss in ("squared_error", "hinge"):
        method = Double(loss, 4)
        copies = method.read(np.tile(row, (count, 1)), rng)
        slopes, _ = method.slopes(copies @ weights, labels, weights)
        gradients = np.einsum("kr,krn->rn", slopes, copies)
        error = gradients.mean(axis=0) - SLOPES[loss](row @ weights, labels[:1]) * row
        near = np.abs(error) < 4.5 * gradients.std(axis=0) / np.sqrt(count)
        assert near.all() if loss == "squared_error" else not near.all()


def test_a_single_draw_is_unbiased(seed):
    rng, count = np.random.default_rng(seed), 20_000
    row = rng.uniform(-1, 1, 8)
    (copy,) = Plain("hinge", Precision(4, "naive")).read(np.tile(row, (count, 1)), rng)
    assert (np.abs(copy.mean(axis=0) - row) < 4.5 * copy.std(axis=0) / np.sqrt(count) + 1e-6).all()


def test_polynomials_saturate_where_the_accelerator_does(seed):
    assert RADIUS == 8
    labels = np.ones(3)
    method = Polynomial(3, 8)
    far, _ = method.slopes(np.full((4, 3), 50.0), labels, np.ones(1))
    edge, _ = method.slopes(np.full((4, 3), 8.0), labels, np.ones(1))
    assert far.tolist() == edge.tolist()
    assert far.sum(axis=0) == pytest.approx(0, abs=0.1)  # like the slope of the sigmoid there


def test_copies_and_their_bits(seed):
    values = np.random.default_rng(seed).uniform(-1, 1, (30, 4))
    rng = np.random.default_rng(seed)
    for method in (*methods("log_loss", 8), *methods("hinge", 8)):
        assert method.bits == 8
        for copy in method.read(values, rng):
            assert copy.shape == values.shape and np.abs(copy - values).max() <= Lattice(2).width
    names = [method.name for method in methods("log_loss", 8)]
    assert names == [
        *("nearest", "stochastic, one draw", "double sampling"),
        *("polynomial, degree 1", "polynomial, degree 3", "polynomial, degree 5"),
    ]
    assert Plain("hinge", FULL).read(values, rng)[0] == pytest.approx(values, abs=2.0**-32)
    degree_three = Polynomial(3, 8).read(values, rng)
    assert len(degree_three) == 4 and np.isin(degree_three * 8, np.arange(-8, 9)).all()  # 4 base bits: steps of 1/8
    with pytest.raises(DataError, match="bits=5"):
        methods("hinge", 5)
