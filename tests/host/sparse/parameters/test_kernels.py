"""The steps of the optimizers against scalar textbooks: to the bit in float64, 1e-6 in float32."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_textbook import BOOKS

from bitlane.sparse.parameters.layout import Layout, ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.rows import encode_row, read_weights, update_rows

UPDATES, WEIGHTS = 10_000, 100


def book_of(optimizer):
    own = {
        "ftrl": ("alpha", "beta"),
        "adagrad": ("learning_rate", "initial_accumulator"),
        "sgd": ("learning_rate", "decay"),
    }
    return BOOKS[optimizer.name](**{name: getattr(optimizer, name) for name in (*own[optimizer.name], "l1", "l2")})


class Weights:
    """Rows of one block each, outside a table."""

    def __init__(self, optimizer, dtype, first, size=1):
        self.layout = Layout([ParameterBlock(size, optimizer)])
        self.plan, self.settings = self.layout.plan, self.layout.settings(dtype)
        self.rows = np.zeros((len(first), self.layout.width), dtype)
        for row, weights in zip(self.rows, np.asarray(first, dtype), strict=True):
            encode_row(row, weights, self.plan, self.settings)

    def step(self, slots, gradients, rows_seen=0):
        gradients = np.asarray(gradients, self.rows.dtype)
        update_rows(self.rows, np.asarray(slots), self.plan, self.settings, gradients, rows_seen)

    @property
    def weights(self):
        weights = np.empty((len(self.rows), self.layout.values), self.rows.dtype)
        read_weights(self.rows, np.arange(len(self.rows)), self.plan, self.settings, weights)
        return weights


OPTIMIZERS = [
    FTRL(0.1, 1.0, 0.0, 0.0),
    FTRL(0.05, 0.5, 0.3, 0.2),
    AdaGrad(0.1, 1.0, 0.0, 0.0),
    AdaGrad(0.05, 0.5, 0.01, 0.02),
    SGD(0.1, 0.0, 0.0, 0.0),
    SGD(0.1, 1e-3, 0.01, 0.02),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ten_thousand_random_updates_are_the_textbooks(optimizer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = rng.integers(0, WEIGHTS, UPDATES)
    gradients = rng.uniform(-1, 1, UPDATES).astype(np.float32)
    gradients[rng.random(UPDATES) < 0.05] = 0
    first = np.where(rng.random(WEIGHTS) < 0.5, 0, rng.normal(size=WEIGHTS) * 0.1).astype(np.float32)
    books = [book_of(optimizer) for _ in range(WEIGHTS)]
    for book, weight in zip(books, first, strict=True):
        book.start_at(float(weight))
    wide, narrow = (Weights(optimizer, dtype, first[:, None]) for dtype in (np.float64, np.float32))
    started = np.array([book.weight for book in books])
    assert np.array_equal(wide.weights[:, 0], started)
    for seen, (slot, gradient) in enumerate(zip(slots.tolist(), gradients.tolist(), strict=True)):
        books[slot].step(gradient, seen)
        wide.step([slot], [[gradient]], seen)
        narrow.step([slot], [[gradient]], seen)
    expected = np.array([book.weight for book in books])
    assert np.array_equal(wide.weights[:, 0], expected)
    assert np.abs(narrow.weights[:, 0] - expected).max() <= 1e-6 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("optimizer", [FTRL(l1=2.0), AdaGrad(l1=2.0), SGD(l1=2.0)])
def test_l1_holds_weights_at_zero_against_smaller_gradients(optimizer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = Weights(optimizer, np.float32, np.zeros((1, 8)), size=8)
    for seen in range(50):
        block.step([0], [np.append(rng.uniform(-0.02, 0.02, 7), -10)], seen)
    weights = block.weights[0]
    assert (weights[:7] == 0).all() and weights[7] > 0


@pytest.mark.parametrize("optimizer", [FTRL(l1=0.1, l2=0.1), AdaGrad(l1=0.1, l2=0.1), SGD(l1=0.1, l2=0.1)])
def test_a_gradient_of_zero_changes_no_bit(optimizer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = Weights(optimizer, np.float32, rng.normal(size=(3, 4)), size=4)
    block.step([0, 1, 2], rng.normal(size=(3, 4)))
    before = block.rows.copy()
    for zero in (0.0, -0.0):
        block.step([0, 1, 2], np.full((3, 4), zero))
    assert block.rows.tobytes() == before.tobytes()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_weights_come_back(optimizer, seed: int) -> None:
    first = np.random.default_rng(seed).normal(size=(20, 3)) * 0.3
    first[:, 0] = 0
    block = Weights(optimizer, np.float64, first, size=3)
    assert np.allclose(block.weights, first, rtol=1e-13, atol=1e-15)  # of sums with the l1 penalty
    assert (block.weights[:, 0] == 0).all()


@pytest.mark.parametrize("optimizer", [FTRL(), AdaGrad(), SGD()])
def test_not_a_number_is_not_hidden(optimizer) -> None:
    block = Weights(optimizer, np.float32, np.zeros((1, 1)))
    block.step([0], [[np.nan]])
    assert np.isnan(block.weights).all()


def test_a_slot_of_minus_one_is_left_out() -> None:
    block = Weights(SGD(), np.float32, np.ones((2, 1)))
    block.step([-1, 1], [[1.0], [1.0]])
    assert block.weights[:, 0].tolist() == [1.0, np.float32(1) - np.float32(0.1)]
