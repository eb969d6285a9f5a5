"""Predicted cycles against a cycle-by-cycle simulation of the schedule, and properties of all predictions.

`tests/verify/equivalence/test_exact.py` tests that the predictions equal the counts of the RTL.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bitlane.contract.cycles import MemoryTiming, predict, publish_latency
from bitlane.contract.geometry import Geometry
from bitlane.contract.latencies import update_latency
from bitlane.contract.layout import PORTS, record_words


def loads_of(geometry):
    """Return the number of beats of the models and of the levels."""
    return (geometry.outputs + geometry.levels) * geometry.chunks * 16 // geometry.rows_per_beat


def tokens_of(geometry, epochs):
    """Return the beats of a run in order: (stream, is a digit, ends its batch, ends its epoch)."""
    tokens = [(0, False, False, False)] * loads_of(geometry)
    for _ in range(epochs):
        for group in range(geometry.groups):
            if group % (4 * geometry.shards) == 0:
                tokens += [(0, False, False, False)] * geometry.outputs
            row = []
            for chunk in range(geometry.chunks):
                row += (
                    [0] * (geometry.half_digit and chunk % 2 == 0) + [0] * geometry.base_digits + [1] * geometry.draws
                )
            epoch_ends = group == geometry.groups - 1
            batch_ends = epoch_ends or (group + 1) % geometry.batch_groups == 0
            tokens += [(stream, True, False, False) for stream in row[:-1]]
            tokens.append((row[-1], True, batch_ends, epoch_ends))
    return tokens


def arrivals(tokens, geometry, begin, latency):
    """Return the first cycle in which each beat can be taken.

    A stream requests a burst of 16 beats when the schedule reaches the first of them. Memory sends one beat a cycle.
    """
    sizes = {0: geometry.base_beats, 1: geometry.draw_beats}
    left = {0: loads_of(geometry), 1: 0}  # beats of the region not yet requested; models and codebooks come first
    asked_for = {0: [], 1: []}
    bus_free = 0
    times = []
    for number, (stream, *_) in enumerate(tokens):
        if not asked_for[stream]:
            left[stream] = left[stream] or sizes[stream]
            beats = min(16, left[stream])
            left[stream] -= beats
            first = max(begin + number + 1 + latency, bus_free)
            asked_for[stream] = [first + beat for beat in range(beats)]
            bus_free = first + beats
        times.append(asked_for[stream].pop(0) + (2 if geometry.ports == 1 else 3))  # a credit takes one more
    return times


def simulated(geometry, epochs, snapshots, staleness, timing):
    """Return the counters of a run, simulated cycle by cycle."""
    chunks, table = geometry.chunks, geometry.codebook
    begin = 1 + max(geometry.base_row_words, chunks).bit_length()
    first_chunk = geometry.half_digit + geometry.base_digits + geometry.draws
    publish = update_latency(geometry.rows_per_beat, table) + first_chunk - 1
    if geometry.shards > 1:  # two registers each way, and a cycle a level of adders
        publish += 4 + {2: 1, 4: 2, 8: 3}[geometry.shards]
    crossing = 0 if geometry.ports == 1 else 4  # two registers to the ports, and two back
    waits = chunks // 2 if geometry.base_bits == 1 else 0
    tail = geometry.row_words + waits - first_chunk
    chunk_beats = 16 // geometry.rows_per_beat
    loads, words = loads_of(geometry), geometry.rows_per_beat * geometry.shards
    port_words = words // geometry.ports
    record_beats = record_words(geometry.outputs, port_words) // port_words
    tokens = tokens_of(geometry, epochs)
    ready = arrivals(tokens, geometry, begin, timing.read_latency)
    number, cycle, pause_ends, draw_ends, go = 0, begin, 0, 0, 0
    publications = []  # the first cycles in which a batch's update can be read
    memory = model = 0
    stamps = []
    while number < len(tokens):
        stream, digit, batch_ends, epoch_ends = tokens[number]
        draw = table and stream == 1
        unpublished = sum(cycle < publication for publication in publications)
        too_soon = cycle < pause_ends or (draw and cycle < draw_ends)
        if digit and (unpublished > staleness or cycle < go or too_soon):
            model += 1
        elif cycle < ready[number]:
            memory += 1
        else:
            number += 1
            if number == loads:
                go = cycle + crossing + 6 + (geometry.rows_per_beat - 1).bit_length()
            if draw:
                draw_ends = cycle + 2
            if batch_ends and chunks == 1:
                pause_ends = cycle + 2
            if batch_ends:
                publications.append(cycle + publish)
            if epoch_ends:
                stamps.append(cycle + crossing + publish - 1 + tail)
                stored = geometry.outputs * chunks * (chunk_beats + 2)
                stored *= snapshots or len(stamps) == epochs
                go = stamps[-1] + stored + record_beats + 2 + 2
        cycle += 1
    return go - 2 + max(timing.write_latency, 2) + 1, stamps, len(tokens), memory, model


def counted(counts):
    return counts.cycles, counts.epoch_cycles.tolist(), counts.beats, counts.stall_memory, counts.stall_model


def random_geometry(rng, most_rows=100, table_bits=0):
    """Return a random geometry, with uniform levels or with codebooks and codes of `table_bits` bits."""
    draws = table_bits > 0 or bool(rng.integers(2))
    shards = int(rng.choice([1, 1, 2, 4, 8]))
    rows_per_beat = int(rng.choice([1, 2, 4, 8]))
    rows = int(rng.integers(1, most_rows))
    batch = rng.choice([rng.integers(1, rows + 10), rng.integers(1, 3 * rows_per_beat + 1)])
    features = rng.choice([1, 33, rng.integers(1, 300)])
    digits, half = divmod(table_bits, 2) if table_bits else (int(rng.choice([1, 2, rng.integers(not draws, 16)])), 0)
    outputs = int(rng.choice([1, 2, 3, 15]))
    return Geometry(
        int(features),
        rows,
        digits,
        draws,
        int(batch),
        rows_per_beat,
        outputs,
        half_digit=bool(half),
        codebook=table_bits > 0,
        shards=shards,
        ports=int(rng.choice([ports for ports in PORTS if rows_per_beat * shards // ports in (1, 2, 4, 8)])),
    )


@pytest.mark.parametrize("table_bits", [0, 1, 2, 3])
def test_predictions_equal_the_simulated_schedule(seed, table_bits):
    rng = np.random.default_rng(seed)
    for staleness, _ in product((0, 1), range(60)):
        geometry = random_geometry(rng, table_bits=table_bits)
        timing = MemoryTiming(int(rng.choice([1, 7, 60, 150])), int(rng.integers(1, 40)))
        epochs, snapshots = int(rng.integers(1, 4)), bool(rng.integers(2))
        counts = predict(geometry, epochs, snapshots, staleness, timing)
        assert counted(counts) == simulated(geometry, epochs, snapshots, staleness, timing), geometry


@pytest.mark.parametrize("rows_per_beat", [1, 4])
@pytest.mark.parametrize(
    "words",
    [{"base_digits": 1}, {"base_digits": 3}]
    + [{"base_digits": bits // 2, "draws": True, "half_digit": bits % 2 == 1, "codebook": True} for bits in (1, 2, 3)],
    ids=["2 bits", "6 bits", "codebook, 1 bit", "codebook, 2 bits", "codebook, 3 bits"],
)
def test_many_short_batches_are_predicted(seed, rows_per_beat, words):
    """There are enough batches for their pattern to repeat, for every phase of the label beats."""
    rng = np.random.default_rng(seed)
    for batch_groups, features in product((1, 2, 3, 5, 6), (3, 40)):
        batch = batch_groups * rows_per_beat - int(rng.integers(rows_per_beat))
        shape = {"rows": 60 * batch + int(rng.integers(batch)), "batch": batch, "rows_per_beat": rows_per_beat}
        geometry = Geometry(features, **{"draws": False} | shape | words)
        for staleness in (0, 1):
            counts = predict(geometry, 2, False, staleness)
            assert counted(counts) == simulated(geometry, 2, False, staleness, MemoryTiming()), geometry


@pytest.mark.parametrize(
    ("base_digits", "draws", "cycles"),
    [(0, True, 256_466), (1, True, 506_647), (3, True, 1_007_011), (16, False, 4_009_174)],
)
def test_cycles_of_an_epoch_with_784_features(base_digits, draws, cycles):
    """The data has 10,000 rows of 784 features; batch 64, read latency 60 cycles."""
    assert predict(Geometry(784, 10_000, base_digits, draws, 64), 1, False).cycles == cycles


@pytest.mark.parametrize(("table_bits", "cycles_a_row"), [(1, 50), (2, 50), (3, 63)])
def test_cycles_of_an_epoch_on_table_lanes(table_bits, cycles_a_row):
    """A row has 25 chunks; with one base bit: 13 half-digit words, 25 draw words and a wait before every second one."""
    geometry = Geometry(784, 6400, table_bits // 2, True, 6400, half_digit=table_bits % 2 == 1, codebook=True)
    length = np.diff(predict(geometry, 2, False).epoch_cycles)[0]
    assert 6400 * cycles_a_row + 1600 <= length < 6400 * cycles_a_row + 1600 + 150
    assert geometry.layout_bound == 6400 * {1: 38, 2: 50, 3: 63}[table_bits] + 1600


def test_all_epochs_after_the_first_take_equal_time(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        geometry = random_geometry(rng)
        counts = predict(geometry, 5, bool(rng.integers(2)), int(rng.integers(2)))
        lengths = np.diff(counts.epoch_cycles)
        assert len(set(lengths[:-1].tolist())) == 1
        assert counts.cycles > counts.epoch_cycles[-1] > lengths[0] * 4


def test_a_batch_costs_its_rows_and_one_update(seed):
    """Half the batch size adds one update per extra batch with staleness 0, and no cycles with staleness 1."""
    rng = np.random.default_rng(seed)
    compared = 0
    while compared < 50:
        geometry = random_geometry(rng)
        compared += 1
        geometry = replace(geometry, rows=64 * geometry.rows_per_beat, batch=64 * geometry.rows_per_beat)
        half = replace(geometry, batch=32 * geometry.rows_per_beat)
        one, two = (np.diff(predict(each, 2, False).epoch_cycles)[0] for each in (geometry, half))
        bubble = publish_latency(geometry) - 1
        assert two - one == bubble - geometry.outputs  # the labels are taken during the update
        stale = np.diff(predict(half, 2, False, staleness=1).epoch_cycles)[0]
        assert stale == one  # a label comes in the pause between two batches of rows of one chunk


def test_staleness_leaves_no_bubble(seed):
    """With more than two chunks an epoch takes its beats, the last update and the record."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        geometry = random_geometry(rng)
        geometry = replace(geometry, features=int(rng.integers(64 * geometry.shards + 1, 1000)))
        if geometry.batch_groups * geometry.row_words <= publish_latency(geometry):
            continue
        counts = predict(geometry, 3, False, 1)
        drain = update_latency(geometry.rows_per_beat, shards=geometry.shards) - 1 + geometry.row_words - 1
        record = geometry.record_words // (geometry.words_per_beat // geometry.ports) + 2 + 2 - 1
        labels = geometry.outputs  # the labels are taken during the drain
        crossing = 0 if geometry.ports == 1 else 4  # to several ports and back
        assert np.diff(counts.epoch_cycles)[0] == geometry.beats - labels + drain + record + crossing


def test_memory_latency_is_paid_once_per_run(seed):
    rng = np.random.default_rng(seed)
    geometry, staleness = random_geometry(rng), int(rng.integers(2))
    near, far = (predict(geometry, 4, False, staleness, MemoryTiming(latency, 20)) for latency in (10, 90))
    assert far.cycles - near.cycles == 80
    assert far.stall_memory - near.stall_memory == 80
    slow = predict(geometry, 4, False, staleness, MemoryTiming(10, 50))
    assert slow.cycles - near.cycles == 30


def test_long_epochs_are_predicted_quickly():
    geometry = Geometry(30, (1 << 24) - 1, 1, False, 3)
    for staleness in (0, 1):
        counts = predict(geometry, 1000, False, staleness)
        assert counts.stall_memory == predict(replace(geometry, rows=300), 1, False, staleness).stall_memory


def rate(features: int, batch: int, staleness: int, rows_per_beat: int, shards: int = 1, ports: int = 1) -> float:
    """Return the predicted rows a cycle of a long epoch at 4 bits."""
    rows = 60_000
    geometry = Geometry(features, rows, 1, True, batch, rows_per_beat, shards=shards, ports=ports)
    first, second = predict(geometry, 2, False, staleness).epoch_cycles
    return float(rows / (second - first))


@pytest.mark.parametrize(
    ("features", "staleness", "least"), [(2048, 0, 13.0), (2048, 1, 15.9), (8192, 0, 15.0), (8192, 1, 15.9)]
)
def test_sixteen_ports_of_256_bits_are_as_quick_as_planned(features: int, staleness: int, least: float) -> None:
    """8 shards with 8 rows each, against one build of 256 bits."""
    assert rate(features, 64, staleness, 8, 8, 16) / rate(features, 64, staleness, 4) > least
