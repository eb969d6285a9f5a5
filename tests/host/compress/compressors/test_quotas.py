"""Quotas: their sum, agreement with a common threshold, ties and empty parts."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.compress.compressors.quotas import POINTS, Tail, quotas, reported_counts
from bitlane.errors import BitlaneError


def quotas_of(parts: list[np.ndarray], wanted: int) -> list[int]:
    """Return the quotas of parts, from tails that are packed and unpacked."""
    counts = reported_counts(wanted)
    tails = []
    for part in parts:
        nonzero = part[part != 0].astype(np.float32)
        near = nonzero[np.argsort(-np.abs(nonzero), kind="stable")[:wanted]]
        tails.append(Tail.unpack(Tail.of(near, counts).pack()))
    return quotas(tails, counts, wanted)


def exact(parts: list[np.ndarray], wanted: int) -> list[int]:
    """Return how many of the `wanted` largest values of all parts lie in each part."""
    magnitudes = np.abs(np.concatenate(parts))
    of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return np.bincount(of[np.argsort(-magnitudes)[:wanted]], minlength=len(parts)).tolist()


def test_reported_counts() -> None:
    assert reported_counts(0).tolist() == [1]
    assert reported_counts(1).tolist() == [1]
    assert reported_counts(5).tolist() == [1, 2, 3, 4, 5]
    for wanted in (50, 1000, 10**7):
        counts = reported_counts(wanted)
        assert counts[0] == 1 and counts[-1] == wanted and len(counts) <= POINTS and (np.diff(counts) > 0).all()


def test_few_values_are_distributed_exactly(seed: int) -> None:
    """Up to five values every count is reported."""
    rng = np.random.default_rng(seed)
    for wanted in range(1, 6):
        for _ in range(50):
            parts = [rng.standard_normal(30).astype(np.float32) for _ in range(4)]
            assert quotas_of(parts, wanted) == exact(parts, wanted)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8, 16])
@pytest.mark.parametrize("wanted", [100, 5000])
def test_a_common_threshold(seed: int, ranks: int, wanted: int) -> None:
    """At most 5 % of the values differ from those above a common threshold, with very different scales."""
    rng = np.random.default_rng(seed)
    draws = [lambda n: rng.standard_normal(n), lambda n: rng.laplace(size=n), lambda n: rng.standard_t(3, n)]
    for draw in draws:
        for spread in (0.0, 1.0):
            parts = [draw(20_000) * 10 ** rng.normal(0, spread) * 1e-5 for _ in range(ranks)]
            found, right = quotas_of(parts, wanted), exact(parts, wanted)
            assert sum(found) == wanted
            assert sum(abs(a - b) for a, b in zip(found, right, strict=True)) / 2 <= 0.05 * wanted + 1


def test_one_part_has_all_large_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal(5000) * scale for scale in (1e-6, 1.0, 1e-6, 1e-6)]
    assert quotas_of(parts, 1000) == [0, 1000, 0, 0]


def test_ties_are_distributed() -> None:
    parts = [np.full(300, -0.5), np.full(100, 0.5), np.zeros(50), np.full(400, 0.25)]
    assert quotas_of(parts, 200) == [133, 67, 0, 0]  # the reported counts are 200 and 100
    assert quotas_of(parts, 400) == [300, 100, 0, 0]
    assert quotas_of(parts, 401) == [300, 100, 0, 1]


@pytest.mark.parametrize("wanted", [1, 7, 100])
def test_fewer_values_than_wanted(wanted: int) -> None:
    nothing = np.zeros(0)
    assert quotas_of([nothing, nothing], wanted) == [0, 0]
    assert quotas_of([nothing, np.ones(1), np.zeros(9)], wanted) == [0, 1, 0]
    assert quotas_of([np.ones(60), nothing, np.ones(40)], 100) == [60, 0, 40]
    assert sum(quotas_of([np.ones(60), nothing, np.ones(41)], 100)) == 100


def test_quotas_do_not_exceed_the_available_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        parts = [rng.integers(-3, 4, rng.integers(0, 60)) * rng.choice([1e-30, 1.0, 7.0]) for _ in range(6)]
        held, wanted = [int((part != 0).sum()) for part in parts], int(rng.integers(0, 200))
        found = quotas_of(parts, wanted)
        assert all(0 <= quota <= most for quota, most in zip(found, held, strict=True))
        assert sum(found) == min(wanted, sum(held))


@pytest.mark.parametrize("magnitudes", [[1.0, 2.0], [1.0, np.nan], [1.0, -1.0]])
def test_invalid_tails_are_rejected(magnitudes: list[float]) -> None:
    packed = Tail(2, np.float32(magnitudes)).pack()
    with pytest.raises(BitlaneError, match="not descending"):
        Tail.unpack(packed)
