"""The RTL equals the reference: every weight bit, loss word, state register and counter; cycles as predicted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss
from bitlane.contract.packing import pack_base
from bitlane.contract.state import ModelState
from bitlane_verify.equivalence.random_jobs import TESTED, random_job, random_settings
from bitlane_verify.equivalence.rig import EquivalenceRig, Variant

RUNS = (100, pytest.param(400, marks=pytest.mark.slow))  # of each configuration


def name(config: AcceleratorConfig) -> str:
    return f"{config.width}x{config.outputs}" + config.table_lanes * " table" + config.random_rounding * " random"


@pytest.fixture(scope="module", params=TESTED, ids=name)
def bench(request):
    bench = EquivalenceRig([request.param])
    yield bench
    bench.close()


@pytest.mark.parametrize("runs", RUNS)
def test_random_runs(bench, seed, runs):
    """1 to 512 features, all digits and modes, partial batches and beats, stalls; stop at the first difference."""
    for number in range(seed, seed + runs):
        assert bench.run(number) == ""


def test_a_changed_bit_is_detected(bench, seed):
    """The comparison can fail: one bit of one label differs in the memory of the RTL."""
    rng = np.random.default_rng(seed)
    variant = bench.variant(rng)
    job = random_job(rng, variant.config)
    settings = dataclasses.replace(job.state.settings, loss=Loss.SQUARES)
    job = dataclasses.replace(job, state=ModelState(np.zeros_like(job.state.master), settings))
    device = bench.rtl[variant]

    class Flipped:
        def __getattr__(self, name):
            return getattr(device, name)

        def flush(self, buffer):
            if buffer.array.size == sum(words.size for words in job.base_regions):
                buffer.array[0] ^= np.uint64(1)
            device.flush(buffer)

    bench.rtl[variant] = Flipped()
    try:
        assert "loss" in bench.compare(job, variant)
    finally:
        bench.rtl[variant] = device


@pytest.mark.parametrize("config", TESTED, ids=name)
@pytest.mark.parametrize("latency", [1, 2, 15, 61, 99, 150])
def test_cycles_at_any_latency(seed, config, latency):
    """Cycles match the prediction for every latency that the prefetch buffers cover, also with one batch per epoch."""
    rng = np.random.default_rng(seed)
    timing = MemoryTiming(latency, int(rng.choice([1, 2, 3, rng.integers(1, 90)])))
    bench = EquivalenceRig([config], timings=[timing])
    for _ in range(10):
        job = random_job(rng, config, features=300, rows=200, batch=int(rng.choice([1, 3, 50, 500])))
        assert bench.compare(job, Variant(config, timing)) == ""
    bench.close()


@pytest.mark.parametrize(
    ("features", "digits", "staleness"),
    [(16384, 4, 0), (16384, 7, 0), (8192, 15, 1)],
)
def test_largest_model(seed, features, digits, staleness):
    """The default build with all features at s = 8, at its longest row, and with two models."""
    config = AcceleratorConfig()
    variant = Variant(config, MemoryTiming())
    bench = EquivalenceRig([config], 64 << 20, [variant.timing])
    rng = np.random.default_rng(seed)
    geometry = Geometry(features, 6, digits, False, batch=3)
    shape = geometry.rows, geometry.features
    codes = rng.integers(0, 4**digits, size=shape).astype(np.uint32)
    labels = rng.integers(-32768, 32768, size=(geometry.rows, 1)).astype(np.int16)
    settings = dataclasses.replace(random_settings(rng, two_models=False), staleness=staleness)
    job = dataclasses.replace(
        random_job(rng, config),
        geometry=geometry,
        base_regions=[pack_base(codes, labels, geometry)],
        draw_regions=[],
        state=ModelState(rng.integers(-(1 << 28), 1 << 28, size=(1, geometry.features)).astype(np.int32), settings),
    )
    assert config.max_row_words // geometry.chunks == (15 if staleness else 7)
    assert bench.compare(job, variant) == ""
    bench.close()
