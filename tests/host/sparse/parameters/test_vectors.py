"""Vectors inside compiled functions: each lane as a scalar of numpy, sums in a fixed order."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bitlane.sparse.parameters.vectors import (
    lanes_in,
    lanes_of,
    load,
    shrink,
    square_root,
    store,
    total,
    where_nonzero,
    zeros,
)


def everything(lanes: int):
    """A function that writes the result of every operation on vectors of `lanes`."""

    @numba.njit
    def compute(x, y, mask, threshold, out):
        zero = zeros(x, lanes)
        a, b, m = load(x, 1, zero), load(y, 1, zero), load(mask, 1, zero)
        store(out, 0, a + b)
        store(out, lanes, a - b)
        store(out, 2 * lanes, a * b)
        store(out, 3 * lanes, a / b)
        store(out, 4 * lanes, threshold * a + (b - threshold))
        store(out, 5 * lanes, square_root(b))
        store(out, 6 * lanes, shrink(a, threshold))
        store(out, 7 * lanes, shrink(a, b))
        store(out, 8 * lanes, where_nonzero(m, a, b))
        store(out, 9 * lanes, zero)
        return total(a), lanes_in(zero)

    return compute


def halved(values):
    """The sum in the order of `total`: the halves, lane by lane; the odd lanes last."""
    values, odd = list(values), []
    while len(values) > 1:
        if len(values) % 2:
            odd.append(values.pop())
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    rest = odd[0] if odd else None
    for each in odd[1:]:
        rest = rest + each
    return values[0] if rest is None else values[0] + rest


@pytest.mark.parametrize(("lanes", "dtype"), [(1, np.float32), (4, np.float32), (7, np.float32), (16, np.float64)])
def test_each_lane_is_a_scalar(lanes: int, dtype, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, mask = (rng.normal(size=lanes + 2).astype(dtype) for _ in range(3))
    y = np.abs(y) + dtype(0.1)
    mask[rng.random(lanes + 2) < 0.5] = 0
    threshold, out = dtype(0.5), np.empty(10 * lanes, dtype)
    found, count = everything(lanes)(x, y, mask, threshold, out)
    a, b, m = x[1:-1], y[1:-1], mask[1:-1]

    def soft(limit):
        return np.where(np.abs(a) <= limit, 0, np.copysign(np.abs(a) - limit, a))

    expected = [
        a + b, a - b, a * b, a / b, threshold * a + (b - threshold), np.sqrt(b),
        soft(threshold), soft(b), np.where(m != 0, a, b), np.zeros(lanes),
    ]  # fmt: skip
    assert count == lanes
    assert np.array_equal(out.reshape(10, lanes), np.array(expected, dtype))
    assert found == halved(a)


def test_not_a_number_stays() -> None:
    x = np.full(6, np.nan, np.float32)
    out = np.zeros(40, np.float32)
    everything(4)(x, x, x, np.float32(1), out)
    assert np.isnan(out[:36]).all()


def test_lanes_divide_the_size() -> None:
    found = {size: lanes_of(size) for size in range(1, 300)}
    assert all(size % lanes == 0 and lanes <= 16 for size, lanes in found.items())
    assert [found[size] for size in (1, 4, 8, 10, 16, 17, 24, 32, 100)] == [1, 4, 8, 10, 16, 1, 12, 16, 10]
