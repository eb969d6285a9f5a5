"""Held-out rows: a share of each class, the same for the same seed, and no row in both parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitlane.data.splits import hold_out
from bitlane.data.tables import Dataset
from bitlane.errors import DataError


def table(labels: list[int]) -> Dataset:
    rows = len(labels)
    return Dataset(np.arange(rows, dtype=float)[:, None], np.array(labels, float), ("a",), "y")


@given(
    labels=st.lists(st.integers(0, 3), min_size=4, max_size=60),
    fraction=st.floats(0.05, 0.9),
    number=st.integers(0, 2**32),
    by_class=st.booleans(),
)
def test_parts(labels: list[int], fraction: float, number: int, by_class: bool) -> None:
    groups = Counter(labels) if by_class else {0: len(labels)}
    wanted = {label: min(round(fraction * count), count - 1) for label, count in groups.items()}
    held = sum(wanted.values())
    if held == 0 or len(labels) - held < 2:
        with pytest.raises(DataError, match="test fraction"):
            hold_out(table(labels), fraction, number, by_class=by_class)
        return
    parts = hold_out(table(labels), fraction, number, by_class=by_class)
    assert parts.held_out is not None
    rows, out = parts.X[:, 0].tolist(), parts.held_out[0][:, 0].tolist()
    assert sorted([*rows, *out]) == [*map(float, range(len(labels)))]
    assert rows == sorted(rows) and out == sorted(out)
    assert parts.y.tolist() == [labels[int(row)] for row in rows]
    found = Counter(parts.held_out[1].tolist())
    assert found == Counter({label: n for label, n in wanted.items() if n}) if by_class else found.total() == held
    again = hold_out(table(labels), fraction, number, by_class=by_class)
    assert again.X.tolist() == parts.X.tolist()


def test_other_seeds_hold_out_other_rows(seed: int) -> None:
    held = {tuple(hold_out(table([0, 1] * 50), 0.3, seed + k, by_class=True).X[:, 0]) for k in range(4)}
    assert len(held) == 4


@pytest.mark.parametrize("fraction", [-0.1, 0.0, 1.0, 2.0, float("nan")])
def test_a_fraction_is_a_share(fraction: float) -> None:
    with pytest.raises(DataError, match="choose a share of the rows between 0 and 1"):
        hold_out(table([0, 1] * 5), fraction, 0, by_class=False)
