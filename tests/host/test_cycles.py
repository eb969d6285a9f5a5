"""Predicted cycles: the figures that the RTL counted once, and what holds of every prediction.

That every prediction equals the RTL's count is tested in `tests/sim/test_exact.py`.
"""

import numpy as np
import pytest

from bitlane.contract import CHUNK_MODEL_WORDS, MIN_ROW, UPDATE_LATENCY
from bitlane.cycles import MemoryTiming, predict
from bitlane.layout import Geometry


@pytest.mark.parametrize(
    ("base_digits", "draws", "cycles"),
    [(0, True, 256_857), (1, True, 507_038), (3, True, 1_007_402), (16, False, 4_009_561)],
)
def test_what_the_rtl_counted(base_digits, draws, cycles):
    """10,000 rows of 784 features, batch 64, read latency 60 cycles."""
    assert predict(Geometry(784, 10_000, base_digits, draws), 1, 64, False).cycles == cycles


def random_geometry(rng):
    draws = bool(rng.integers(2))
    return Geometry(int(rng.integers(1, 300)), int(rng.integers(1, 200)), int(rng.integers(not draws, 8)), draws)


def test_epochs_after_the_first_are_alike(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        geometry, batch = random_geometry(rng), int(rng.integers(1, 220))
        counts = predict(geometry, 5, batch, bool(rng.integers(2)))
        lengths = np.diff(counts.epoch_cycles)
        assert len(set(lengths.tolist())) == 1
        assert counts.cycles > counts.epoch_cycles[-1] > lengths[0] * 4
        assert counts.beats == geometry.chunks * CHUNK_MODEL_WORDS + 5 * (geometry.base_words + geometry.draw_words)


def test_a_batch_costs_its_rows_and_one_update(seed):
    """Two rows more in a batch cost their words; halving the batch costs as many updates more."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        geometry = random_geometry(rng)
        if geometry.row_words < MIN_ROW:
            continue
        geometry = Geometry(geometry.features, 64, geometry.base_digits, geometry.draws)
        one, two = (predict(geometry, 2, batch, False) for batch in (64, 32))
        bubble = UPDATE_LATENCY - 1 + geometry.digits - 1 - 1  # a label is taken meanwhile
        assert np.diff(two.epoch_cycles)[0] - np.diff(one.epoch_cycles)[0] == bubble


def test_latency_shows_once(seed):
    rng = np.random.default_rng(seed)
    geometry, batch = random_geometry(rng), int(rng.integers(1, 50))
    near, far = (predict(geometry, 4, batch, False, MemoryTiming(latency, 20)) for latency in (10, 90))
    assert far.cycles - near.cycles == 80
    assert far.stall_memory - near.stall_memory == 80
    assert predict(geometry, 4, batch, False, MemoryTiming(10, 50)).cycles - near.cycles == 30
