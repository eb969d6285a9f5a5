"""Error feedback: nothing is lost, the limit holds, the largest go and the smallest give way."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.row_codecs import UNIT, GradientChunk, decode_chunks, encode_chunks
from bitlane.sparse.workers.error_feedback import ErrorFeedback, Ledger, largest_of
from bitlane.sparse.workers.pushing import Pusher, PushSettings
from bitlane.sparse.workers.residuals import ResidualTable

VALUES = 3


def minibatches(seed: int, count: int, largest: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keys of which some come often, and gradients that are multiples of `UNIT`."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        keys = np.unique((1 / draw.uniform(1e-3, 1, 40)).astype(np.uint64))
        units = np.rint(draw.normal(size=(len(keys), VALUES)) * largest * (1 << 20) * draw.random((len(keys), 1)))
        found.append((draw.permutation(keys), (units * UNIT).astype(np.float32)))
    return found


@pytest.mark.parametrize("values", ["ternary", "fixed"])
@pytest.mark.parametrize("rows", [0, 10, 1000])
@pytest.mark.parametrize("largest", [1e-4, 4.0])  # 4: sums pass 2^24 units, where float32 has gaps
def test_what_came_in_was_sent_or_is_kept(values: str, rows: int, largest: float, seed: int) -> None:
    pusher = Pusher(PushSettings("topk", 0.2, rows, values, debug=True), VALUES, seed)
    received: dict[int, np.ndarray] = {}
    applied: dict[int, np.ndarray] = {}

    def apply(chunks: list) -> None:
        keys, gradients = decode_chunks(encode_chunks(chunks, pack_keys=True), VALUES)
        assert len(set(keys.tolist())) == len(keys)
        for key, row in zip(keys.tolist(), gradients.astype(np.float64), strict=True):
            applied[key] = applied.get(key, np.zeros(VALUES)) + row

    for keys, gradients in minibatches(seed, 60, largest):
        for key, row in zip(keys.tolist(), gradients.astype(np.float64), strict=True):
            received[key] = received.get(key, np.zeros(VALUES)) + row
        apply(pusher.choose(keys, gradients))
        assert pusher.residual_rows <= rows
    last = pusher.flush()
    assert sum(len(chunk.keys) for chunk in last) <= rows and pusher.residual_rows == 0
    apply(last)
    for key, row in received.items():  # float64 adds these without an error; above 2^24 units float32 rounds each sum
        allowed = 0 if largest < 1 else 60 * 2 * UNIT
        assert np.abs(applied.get(key, np.zeros(VALUES)) - row).max() <= allowed, key


def test_the_largest_are_sent_and_the_smallest_give_way() -> None:
    feedback = ErrorFeedback(2, (1,), 0.2, False, True)
    keys = np.arange(10, 15, dtype=np.uint64)
    units = np.array([[50], [-900], [3], [-40], [7]])
    assert feedback.add(keys, units) == -1
    _, fixed = feedback.choose(keys, units)
    assert dict(zip(fixed.keys.tolist(), fixed.rows[:, 0].tolist(), strict=True)) == {11: -900, 12: 3, 14: 7}
    assert sorted(feedback.table.keys.tolist()) == [10, 13] and feedback.evicted == 2
    again, units = np.array([13, 20], np.uint64), np.array([[-20], [55]])
    assert feedback.add(again, units) == -1 and units.tolist() == [[-60], [55]]
    _, fixed = feedback.choose(again, units)
    assert dict(zip(fixed.keys.tolist(), fixed.rows[:, 0].tolist(), strict=True)) == {13: -60}
    assert sorted(feedback.table.keys.tolist()) == [10, 20]


def test_rows_of_popular_keys_stay() -> None:
    feedback = ErrorFeedback(3, (1,), 0.01, False, True)
    for clock in range(
        20
    ):  # key 1 always comes, with small gradients; the others once, with large ones; at first all are as popular
        keys = np.array([1, *range(100 + 10 * clock, 110 + 10 * clock)], np.uint64)
        units = np.array([[1], *([[1000 + i] for i in range(10)])])
        feedback.add(keys, units)
        feedback.choose(keys, units)
    kept = feedback.table.rows[feedback.table.find(np.array([1], np.uint64))]
    assert kept.tolist() == [[19]]  # in the first clock, all were as popular


def test_a_row_that_is_ternary_and_finds_no_room_is_sent_once() -> None:
    feedback = ErrorFeedback(0, (2,), 1.0, True, True)
    units = np.array([[17, 3], [16, 0]])  # 17 is no scale, so a rest stays; 16 is one
    feedback.add(np.array([1, 2], np.uint64), units)
    ternary, fixed = feedback.choose(np.array([1, 2], np.uint64), units)
    assert fixed.keys.tolist() == [1] and fixed.rows.tolist() == [[17, 3]]
    assert ternary.keys.tolist() == [2] and ternary.units().tolist() == [[16, 0]]


def test_rows_above_2_24_units_are_sent_with_all_bits() -> None:
    feedback = ErrorFeedback(5, (1,), 1.0, True, True)
    units = np.array([[(1 << 25) + 3], [1 << 24]])
    feedback.add(np.array([1, 2], np.uint64), units)
    ternary, fixed = feedback.choose(np.array([1, 2], np.uint64), units)
    assert ternary.keys.tolist() == [2] and fixed.keys.tolist() == [1]
    assert fixed.gradients()[0, 0] == ((1 << 25) + 4) * UNIT  # the float32 next to 2^25 + 3


def test_debug_finds_a_lost_row(seed: int) -> None:
    feedback = ErrorFeedback(100, (1, VALUES - 1), 0.1, True, True)
    for number, (keys, gradients) in enumerate(minibatches(seed, 2, 1e-3)):
        units = np.rint(gradients / UNIT).astype(np.int64)
        feedback.add(keys, units)
        if number == 0:
            feedback.choose(keys, units)
            feedback.table.rows[feedback.table.count - 1, 0] += 1
    with pytest.raises(BitlaneError, match="lost gradients"):
        feedback.choose(keys, units)


def test_largest_of(seed: int) -> None:
    sizes = np.random.default_rng(seed).random(50)
    for count in (0, 1, 20, 50, 60):
        found = largest_of(sizes, count)
        assert sorted(sizes[found]) == sorted(sizes)[50 - min(count, 50) :]


def books(sent: int, stored: int) -> tuple[Ledger, ResidualTable]:
    """7 + 8 units came in for a key; some were sent and some are stored."""
    ledger, table, key = Ledger(), ResidualTable(4, 1), np.array([9], np.uint64)
    for units in (7, 8):
        ledger.receive(key, np.array([[units]]))
    if sent:
        ledger.send([GradientChunk("fixed", key, np.array([[sent]], np.int32))])
    if stored:
        table.insert(key, np.array([[stored]], np.int32))
    return ledger, table


@pytest.mark.parametrize(("sent", "stored"), [(15, 0), (0, 15), (5, 10), (-5, 20)])
def test_the_ledger_passes_right_sums(sent: int, stored: int) -> None:
    ledger, table = books(sent, stored)
    ledger.check(table)


@pytest.mark.parametrize(("sent", "stored"), [(14, 0), (0, 16), (15, 15), (0, 0)])
def test_the_ledger_refuses_wrong_sums(sent: int, stored: int) -> None:
    ledger, table = books(sent, stored)
    with pytest.raises(BitlaneError, match="lost gradients of key 9"):
        ledger.check(table)
