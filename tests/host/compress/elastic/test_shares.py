"""The rows of members: disjoint within a round, even over many, and equal wherever they are computed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bitlane.compress import DataShare
from bitlane.compress.elastic.settings import Place
from bitlane.compress.elastic.shares import permuted
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


def rows_of_round(share, number, members):
    steps = range(number * share.every, (number + 1) * share.every)
    return [
        int(row) for rank in range(members) for step in steps for row in share.batch_rows(Place(step, rank, members))
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 1000])
def test_it_is_a_permutation(count, seed):
    assert sorted(permuted(np.arange(count), count, seed % 2**32)) == list(range(count))


def test_members_share_no_row_in_a_round(seed):
    rng = random.Random(seed)
    every, batch, members = rng.randint(1, 5), rng.randint(1, 7), rng.randint(1, 5)
    share = DataShare(every * batch * members + rng.randint(0, 50), batch, every, seed % 2**32)
    found = rows_of_round(share, rng.randint(0, 10**6), members)
    assert len(set(found)) == len(found) and max(found) < share.rows


def test_a_small_data_set_is_gone_through_evenly(seed):
    share = DataShare(rows=7, batch=3, every=7, seed=seed % 2**32)
    counts = np.bincount(rows_of_round(share, 2, 2), minlength=7)
    assert set(counts) == {6}  # 2 x 7 x 3 rows


def test_rounds_draw_anew_and_all_rows_equally_often(seed):
    share, rounds = DataShare(rows=50, batch=5, every=2, seed=seed % 2**32), 400
    drawn = [rows_of_round(share, number, 3) for number in range(rounds)]
    counts = np.bincount(np.concatenate(drawn), minlength=50)
    expected, deviation = rounds * 30 / 50, (rounds * 0.6 * 0.4) ** 0.5
    assert abs(counts - expected).max() < 5.5 * deviation
    assert len({tuple(each) for each in drawn}) == rounds


def test_a_joiner_computes_what_others_do_not_have():
    share = DataShare(rows=100, batch=4, every=3, seed=1)
    before, after = (set(rows_of_round(share, 5, members)) for members in (2, 3))
    assert before < after


@pytest.mark.parametrize(("name", "value"), [("rows", 0), ("batch", 0), ("every", 1.5), ("seed", -1)])
def test_wrong_numbers_are_refused(name, value):
    with pytest.raises(DataError, match=f"{name}={value}"):
        DataShare(**{"rows": 5, "batch": 1, "every": 1, name: value})
