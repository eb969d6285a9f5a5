"""The layout of rows: blocks of values, each with its state."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import Layout, ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad


def test_blocks_lie_side_by_side_each_with_its_state() -> None:
    layout = Layout([ParameterBlock(1, FTRL()), ParameterBlock(3, SGD()), ParameterBlock(4, AdaGrad(), 0.5, "uniform")])
    assert (layout.values, layout.width, layout.starts) == (8, 2 + 3 + 8, (0, 2, 5))
    assert layout.plan.tolist() == [[0, 0, 1, 0, 0], [2, 1, 3, 2, 0], [5, 4, 4, 1, 1]]


def test_settings_have_the_dtype_of_the_rows() -> None:
    layout = Layout([ParameterBlock(1, FTRL(0.1, 2, 3, 4)), ParameterBlock(2, AdaGrad(0.5, 6, 7, 8), 0.25)])
    for dtype in (np.float32, np.float64):
        expected = np.array([[0.1, 2, 3, 4, 0, 0], [0.5, 0, 7, 8, 6, 0.25]], dtype)
        assert np.array_equal(layout.settings(dtype), expected) and layout.settings(dtype).dtype == dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, SGD()), "size of a block=0"),
        ((1, SGD(), -0.1), "initial_scale must be finite and at least 0; got -0.1"),
        ((1, SGD(), float("nan")), "initial_scale"),
        ((1, SGD(), 0.1, "zeros"), "initial must be one of normal, uniform; got 'zeros'"),
    ],
)
def test_a_bad_block_is_refused(arguments, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ParameterBlock(*arguments)


def test_a_row_needs_a_block() -> None:
    with pytest.raises(DataError, match="at least one block"):
        Layout([])
