"""Groups cover a vector and never span two runs; shards are contiguous and of equal size up to one group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.properties import runs

from bitlane.compress.codecs.groups import GROUP, Groups, shard_groups


@given(runs(3 * GROUP))
def test_groups_cover_every_value_once_and_span_no_two_runs(lengths):
    groups = Groups.of(*lengths)
    assert groups.count == sum(lengths)
    assert all(1 <= length <= GROUP for length in groups.lengths)
    assert set(np.cumsum([0, *lengths])) <= set(groups.starts.tolist())
    assert len(groups) == sum(-(-length // GROUP) for length in lengths)


def test_each_group_starts_at_a_byte_boundary():
    groups = Groups.of(GROUP + 3, 9)
    assert groups.code_bytes(3).tolist() == [192, 2, 4]


@given(runs(20 * GROUP, most=3), st.integers(1, 8))
def test_shards_are_in_order_and_differ_by_at_most_a_group(lengths, ranks):
    groups = Groups.of(*lengths)
    shards = shard_groups(groups, ranks)
    assert len(shards) == ranks
    assert [shard.begin for shard in shards[1:]] == [shard.end for shard in shards[:-1]]
    assert (shards[0].begin, shards[-1].end) == (0, groups.count)
    assert np.concatenate([shard.groups.lengths for shard in shards]).tolist() == groups.lengths.tolist()
    assert all(shard.groups.count == shard.end - shard.begin for shard in shards)
    assert max(abs(shard.end - shard.begin - groups.count / ranks) for shard in shards) <= GROUP


@given(st.lists(st.integers(2, 8), min_size=1, max_size=60), st.integers(1, 8))
def test_shards_of_groups_with_different_bits_are_of_equal_size_in_bits(widths, ranks):
    groups = replace(Groups.of(len(widths) * GROUP - 7), widths=np.array(widths, np.uint8))
    shards = shard_groups(groups, ranks)
    assert np.concatenate([shard.groups.widths for shard in shards]).tolist() == widths
    assert [shard.begin for shard in shards[1:]] == [shard.end for shard in shards[:-1]]
    bits = [int((shard.groups.lengths * shard.groups.widths).sum()) for shard in shards]
    assert max(abs(each - sum(bits) / ranks) for each in bits) <= max(widths) * GROUP


def test_an_empty_vector_has_no_groups():
    assert len(Groups.of(0)) == 0
    assert [shard.end for shard in shard_groups(Groups.of(0), 3)] == [0, 0, 0]
