"""Sparse parameters: pulled as weights, pushed as gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_textbook import TextbookAdaGrad, TextbookFTRL, TextbookSGD

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.tables.sketch import Admission


def numbered(*keys: int):
    return np.array(keys, np.uint64)


def test_pull_gives_zeros_for_absent_keys_and_inserts_none() -> None:
    parameters = SparseParameters([ParameterBlock(3, SGD(), 0.1)])
    assert not parameters.pull(numbered(1, 2)).any()
    assert len(parameters.table) == 0


def test_pull_inserts_when_asked() -> None:
    parameters = SparseParameters([ParameterBlock(3, SGD(), 0.1)], seed=3)
    created = parameters.pull(numbered(1, 2), create=True)
    assert created.all() and len(parameters.table) == 2
    assert np.array_equal(parameters.pull(numbered(2, 9, 1)), [created[1], [0, 0, 0], created[0]])


def test_admission_refuses_and_pull_gives_zeros() -> None:
    parameters = SparseParameters([ParameterBlock(3, SGD(), 0.1)], admission=Admission(2))
    assert not parameters.pull(numbered(7), create=True).any()
    parameters.push(numbered(7), np.ones((1, 3), np.float32))
    assert parameters.pull(numbered(7), create=True).all()
    assert len(parameters.table) == 1


def test_pushes_are_the_textbooks_in_every_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = [
        ParameterBlock(1, FTRL(0.1, 1, 0.2, 0.1)),
        ParameterBlock(2, AdaGrad(0.2)),
        ParameterBlock(3, SGD(0.1, 0.01)),
    ]
    parameters = SparseParameters(blocks)
    keys = numbered(5, 2**64 - 1, 0)
    parameters.pull(keys, create=True)
    books = [
        [
            TextbookFTRL(0.1, 1, 0.2, 0.1),
            *(TextbookAdaGrad(0.2) for _ in "ab"),
            *(TextbookSGD(0.1, 0.01) for _ in "abc"),
        ]
        for _ in keys
    ]
    for seen in range(0, 200, 7):
        chosen = rng.permutation(3)[:2]
        gradients = rng.uniform(-1, 1, (2, 6)).astype(np.float32)
        parameters.push(keys[chosen], gradients, seen)
        for which, row in zip(chosen, gradients.tolist(), strict=True):
            for book, gradient in zip(books[which], row, strict=True):
                book.step(gradient, seen)
    expected = [[book.weight for book in row] for row in books]
    assert np.allclose(parameters.pull(keys), expected, atol=1e-5)


def test_gradients_of_absent_keys_are_left_out() -> None:
    parameters = SparseParameters([ParameterBlock(1, SGD(1.0))])
    parameters.pull(numbered(1), create=True)
    parameters.push(numbered(2, 1), np.array([[5.0], [0.5]], np.float32))
    assert parameters.pull(numbered(1, 2))[:, 0].tolist() == [-0.5, 0.0]


def test_gradients_of_another_shape_are_refused() -> None:
    parameters = SparseParameters([ParameterBlock(2, SGD())])
    with pytest.raises(DataError, match=r"2 keys need gradients \[2, 2\]; got \[2, 3\]"):
        parameters.push(numbered(1, 2), np.zeros((2, 3), np.float32))


def test_rows_without_a_weight_can_be_swept() -> None:
    parameters = SparseParameters([ParameterBlock(1, FTRL(0.1, 1.0, l1=1.0))])
    keys = numbered(1, 2, 3)
    parameters.pull(keys, create=True)
    parameters.push(keys, np.array([[0.5], [2.0], [-3.0]], np.float32))
    before = parameters.pull(keys)
    assert (before[:, 0] != 0).tolist() == [False, True, True]
    assert parameters.table.sweep(parameters.has_weight) == 1
    assert np.array_equal(parameters.pull(keys), before)


def test_squared_gradients_are_sums_of_what_was_pushed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parameters = SparseParameters(
        [ParameterBlock(1, FTRL()), ParameterBlock(2, AdaGrad(initial_accumulator=0.5)), ParameterBlock(1, SGD())]
    )
    gradients = rng.uniform(-1, 1, (20, 2, 4)).astype(np.float32)
    for each in gradients:
        parameters.push(numbered(5, 9), each, create=True)
    found = parameters.squared_gradients(parameters.peek(numbered(9, 5, 7)))
    expected = np.square(gradients.astype(np.float64)).sum(axis=0)
    expected[:, 3] = 1
    np.testing.assert_allclose(found[[1, 0]], expected, rtol=1e-5)
    assert found[2].tolist() == [0, 0, 0, 1]
