"""Dense parameters: one matrix, read and updated as a whole."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from tests.helpers.sparse_textbook import TextbookAdaGrad, TextbookFTRL, TextbookSGD

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad

CASES = [
    (FTRL(0.1, 1, 0.2, 0.1), TextbookFTRL(0.1, 1, 0.2, 0.1)),
    (AdaGrad(0.1), TextbookAdaGrad(0.1)),
    (SGD(0.1, 0.01), TextbookSGD(0.1, 0.01)),
]


@pytest.mark.parametrize(("optimizer", "book"), CASES)
def test_steps_are_the_textbooks(optimizer, book, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(2, 3)).astype(np.float32)
    matrix = Matrix((2, 3), optimizer, first)
    assert np.allclose(matrix.pull(), first, rtol=1e-6)
    book = copy(book)
    book.start_at(float(first[1, 2]))
    for seen in range(50):
        gradient = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
        matrix.push(gradient, seen)
        book.step(float(gradient[1, 2]), seen)
    assert matrix.pull()[1, 2] == pytest.approx(book.weight, abs=1e-5)


def test_a_state_is_a_copy_and_brings_everything_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(3, 4)).astype(np.float32)
    matrix, other = Matrix((4,), AdaGrad()), Matrix((4,), AdaGrad())
    matrix.push(gradients[0])
    state = matrix.state()
    matrix.push(gradients[1])
    other.restore(state)
    other.push(gradients[1])
    assert np.array_equal(other.pull(), matrix.pull())


def test_pull_is_a_copy() -> None:
    matrix = Matrix((2,), SGD())
    matrix.pull()[:] = 1
    assert not matrix.pull().any()


def test_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match=r"initial weights must have the shape \[2\]; got \[3\]"):
        Matrix((2,), SGD(), np.zeros(3, np.float32))
    with pytest.raises(DataError, match=r"gradient must have the shape \[2\]; got \[2, 1\]"):
        Matrix((2,), SGD()).push(np.zeros((2, 1), np.float32))
    with pytest.raises(DataError, match=r"state must be float32 \[4\]; got float32 \[2\]"):
        Matrix((2,), AdaGrad()).restore(Matrix((2,), SGD()).state())
