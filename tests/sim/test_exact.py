"""The RTL equals the reference: every weight bit, loss word, state register and counter; cycles as predicted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.cycles import MemoryTiming
from bitlane.layout import Geometry, pack_base
from bitlane_hw.config import AcceleratorConfig
from bitlane_sim.soak import Bench, random_job

RUNS_A_PART = 300
PARTS = 4  # 1,200 runs


@pytest.fixture(scope="module")
def bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_random_runs(bench, seed, part):
    """Features 1 to 300, all digits, with and without draws, partial batches, stalls; what differs names its seed."""
    wrong = [found for i in range(RUNS_A_PART) if (found := bench.run(seed + i))]
    assert wrong == []


def test_a_changed_bit_is_seen(bench, seed):
    """The comparison can fail: one bit of one label changed in the RTL's memory alone."""
    rng = np.random.default_rng(seed)
    job = random_job(rng)
    job = dataclasses.replace(job, master=np.zeros_like(job.master))
    timing = bench.timing(rng)
    device = bench.rtl[timing]

    class Flipped:
        def __getattr__(self, name):
            return getattr(device, name)

        def flush(self, buffer):
            if buffer.array.size == sum(words.size for words in job.base):
                buffer.array[0] ^= np.uint64(1)
            device.flush(buffer)

    bench.rtl[timing] = Flipped()
    try:
        assert "loss" in bench.compare(job, timing)
    finally:
        bench.rtl[timing] = device


@pytest.mark.parametrize("latency", [1, 2, 15, 61, 99, 150])
def test_cycles_at_any_latency(seed, latency):
    """Cycles are predicted for every latency that the prefetch buffers cover, one batch an epoch included."""
    rng = np.random.default_rng(seed)
    timing = MemoryTiming(latency, int(rng.choice([1, 2, 3, rng.integers(1, 90)])))
    bench = Bench(timings=[timing])
    for _ in range(10):
        job = random_job(rng, rows=200)
        job = dataclasses.replace(job, batch=int(rng.choice([1, 3, 50, 500])))
        assert bench.compare(job, timing) == ""
    bench.close()


@pytest.mark.parametrize("digits", [4, 7])
def test_largest_model(seed, digits):
    """16,384 features on the default build: at s = 8, and at the longest row that it takes."""
    config = AcceleratorConfig()
    timing = MemoryTiming()
    bench = Bench(config, 64 << 20, [timing])
    rng = np.random.default_rng(seed)
    geometry = Geometry(config.max_features, 6, digits, False)
    shape = geometry.rows, geometry.features
    codes = rng.integers(0, 4**digits, size=shape).astype(np.uint32)
    labels = rng.integers(-32768, 32768, size=geometry.rows).astype(np.int16)
    job = dataclasses.replace(
        random_job(rng),
        geometry=geometry,
        base=[pack_base(codes, labels, geometry)],
        draws=[],
        master=rng.integers(-(1 << 28), 1 << 28, size=geometry.features).astype(np.int32),
    )
    assert bench.compare(job, timing) == ""
    assert config.max_row_words // config.max_chunks == 7
    bench.close()
