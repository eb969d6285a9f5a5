"""Groups cover a vector, share no run, and are dealt out evenly."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.compress.codecs.groups import GROUP, Groups, owned


def test_groups_cover_every_value_once_and_span_no_two_runs(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        runs = rng.integers(0, 3 * GROUP, rng.integers(1, 6)).tolist()
        groups = Groups.of(*runs)
        assert groups.count == sum(runs)
        assert all(1 <= length <= GROUP for length in groups.lengths)
        assert set(np.cumsum([0, *runs])) <= set(groups.starts.tolist())
        assert len(groups) == sum(-(-run // GROUP) for run in runs)


def test_a_group_begins_with_a_byte_of_its_own():
    groups = Groups.of(GROUP + 3, 9)
    assert groups.code_bytes(3).tolist() == [192, 2, 4]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_parts_are_in_order_and_differ_by_at_most_a_group(ranks, seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        groups = Groups.of(*rng.integers(0, 20 * GROUP, 3).tolist())
        parts = owned(groups, ranks)
        assert len(parts) == ranks
        assert [part.begin for part in parts[1:]] == [part.end for part in parts[:-1]]
        assert (parts[0].begin, parts[-1].end) == (0, groups.count)
        assert np.concatenate([part.groups.lengths for part in parts]).tolist() == groups.lengths.tolist()
        assert all(part.groups.count == part.end - part.begin for part in parts)
        assert max(abs(part.end - part.begin - groups.count / ranks) for part in parts) <= GROUP


def test_an_empty_vector_has_no_groups():
    assert len(Groups.of(0)) == 0
    assert [part.end for part in owned(Groups.of(0), 3)] == [0, 0, 0]
