"""Cycles on the RTL: efficiency against the layout bound, also with a slow memory, and latency of an update."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.geometry import Geometry
from bitlane.contract.latencies import update_latency
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.benchmarks import throughput
from bitlane_verify.benchmarks.throughput import geometry_of, measured_cycles, random_job, short_memory_rows, why_slow
from bitlane_verify.equivalence.random_jobs import SMALL

TIMING = MemoryTiming(60)


@pytest.fixture(scope="module")
def rtl():
    with RtlDevice(timing=TIMING) as device:
        yield device


@pytest.mark.parametrize("digits", [1, 2, 5, 16])
def test_latency_to_the_updated_model(digits):
    """From the last beat of a batch to the first digit with the new model: 21 cycles, 1 more for each further digit.

    The same four rows as one batch, and as two between which no label is read.
    """
    cycles = []
    with RtlDevice(SMALL, timing=TIMING) as device:
        for batch in (4, 2):
            geometry = Geometry(300, 4, digits, draws=False, batch=batch)
            outcome = Driver(device).run(random_job(geometry, 2, staleness=0))
            cycles.append(np.diff(outcome.epoch_cycles)[0])
    waited = cycles[1] - cycles[0]
    assert waited + 1 == 21 + digits - 1
    assert update_latency(1, table_lanes=False) == 21


@pytest.mark.parametrize(
    ("shape", "staleness", "least"),
    [
        ((64, 4, 16), 1, 0.98),
        ((64, 32, 16), 1, 0.98),
        ((90, 2, 16), 1, 0.98),
        ((1000, 2, 64), 1, 0.98),
        ((784, 4, 64), 0, 0.98),
        ((8, 4, 64), 1, 0.98),
        ((32, 2, 64), 1, 0.98),
        ((64, 2, 64), 1, 0.98),
        ((90, 2, 32), 0, 0.84),
    ],
)
def test_efficiency(rtl, shape, staleness, least):
    geometry = geometry_of(shape)
    cycles = measured_cycles(rtl, geometry, staleness, TIMING)
    assert least <= geometry.layout_bound / cycles <= 1


@pytest.fixture(scope="module")
def tables():
    """A device with table lanes, whose tests are slow; `tests/verify/equivalence/test_exact.py` has quick ones."""
    with RtlDevice(throughput.TABLE, timing=TIMING) as device:
        yield device


@pytest.mark.slow
@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_latency_to_the_updated_model_with_tables(tables, base_bits):
    """29 cycles, and 1 for each further word of the first chunk."""
    cycles = []
    for batch in (4, 2):
        base_digits, half = divmod(base_bits, 2)
        geometry = Geometry(300, 4, base_digits, True, batch, half_digit=half == 1, codebook=True)
        outcome = Driver(tables).run(random_job(geometry, 2, staleness=0))
        cycles.append(np.diff(outcome.epoch_cycles)[0])
    waited = cycles[1] - cycles[0]
    assert waited + 1 == 29 + {1: 2, 2: 2, 3: 3}[base_bits] - 1
    assert update_latency(1, table_lanes=True) == 29


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bits", "staleness", "least"),
    [(4, 1, 0.98), (4, 0, 0.98), (5, 1, 0.98), (5, 0, 0.98), (3, 1, 0.75)],
)
def test_efficiency_of_tables(tables, bits, staleness, least):
    """With three bits, two of three words are draw words, which take two cycles each."""
    geometry = geometry_of((784, bits, 64), table_lanes=True)
    cycles = measured_cycles(tables, geometry, staleness, TIMING)
    assert least <= geometry.layout_bound / cycles <= 1


@pytest.mark.parametrize("shape", [(90, 2, 64), (784, 4, 64)])
def test_efficiency_of_a_slow_memory(rtl, shape):
    """At three random beats in four cycles, 0.97 of the beats carry samples, start and end included."""
    [(*_, offered, used)] = short_memory_rows(rtl, [shape], 1)
    assert 0.74 < float(offered) < 0.76
    assert 0.97 <= float(used) <= 1


def test_unpredicted_cycles_are_an_error(rtl):
    rtl.disturb(Disturbance(stall_r=0.5))
    with pytest.raises(DeviceError, match="epochs end at"):
        measured_cycles(rtl, geometry_of((64, 4, 16)), 1, TIMING)
    rtl.disturb(Disturbance())


def test_reasons_for_a_slow_shape():
    assert "then 20 cycles" in why_slow(geometry_of((90, 2, 16)), 0)
    assert "12 beats is shorter than the 21" in why_slow(geometry_of((90, 2, 4)), 1)
    assert "than the 24" in why_slow(geometry_of((90, 2, 32), 8), 1)


def test_wider_ports_process_more_rows():
    """Batches of 64 rows: 8 times the rows per cycle within 3 %, but for a batch that is shorter than the update."""
    rows = list(throughput.width_rows([64]))
    assert len(rows) == len(throughput.FEATURES) * len(throughput.BITS)
    short = [row for row in rows if float(row[-2]) < 0.97 * 8]
    assert [row[:3] for row in short] == [("64", "2", "64")] and "is shorter than" in short[0][-1]
    assert all(float(ratio) <= 8 for *_, ratio, _ in rows)


def test_the_smallest_batches():
    """With staleness 1 batches, with their labels, are about as long as the update."""
    for features, bits in ((90, 4), (64, 2), (8, 4)):
        least = throughput.least_batch(features, bits, 1, 1)
        assert least is not None and 20 < least * (geometry_of((features, bits, least)).row_words + 0.25) <= 28
    assert throughput.least_batch(784, 4, 1, 1) == 1
    assert throughput.least_batch(784, 4, 8, 1) == 8


def test_shapes_have_complete_batches():
    for shape in throughput.shapes(throughput.FEATURES, throughput.BITS, [16, 64]):
        geometry = geometry_of(shape, 8)
        assert geometry.rows % geometry.batch == 0
        assert geometry.digits * 2 == shape[1]
        assert dataclasses.replace(geometry, rows_per_beat=1) == geometry_of(shape)
