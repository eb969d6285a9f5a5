"""Cycles an epoch on the RTL, against what the memory could carry: `python -m bitlane_verify.benchmarks.throughput`.

Tables of efficiency, the layout bound over the cycles of an epoch, for both values of staleness and many shapes of
data; of the share that is used of a memory that offers three beats in four cycles, at random; and of what a wider port
gives. Samples are random words: cycles do not depend on what the bits are. Every cycle count is compared with
`bitlane.contract.cycles.predict`, and a run that differs ends the program.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict, publish_latency
from bitlane.contract.formats import MASTER_OFFSET
from bitlane.contract.geometry import Geometry
from bitlane.contract.latencies import DRAW_CYCLES
from bitlane.contract.layout import DIGIT_BITS
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane.support.text import align_columns
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance

NARROW = (8, 16, 32)  # features: rows of one chunk
FEATURES = (64, 90, 128, 784, 1000)
BITS = (2, 4, 8, 32)
TABLE_STORED_BITS = (3, 4, 5)
BATCHES = (16, 32, 64)
BEATS = 60_000  # of a measured epoch, about
LONG = 2_000_000  # of a predicted epoch
LEAST_ROWS = 256
OFFERED = 0.75  # share of the cycles in which the slow memory has a beat
GOAL = 0.98
MOST_ROWS = 512  # of the batches tried
TABLE = AcceleratorConfig(max_features=2048, row_buffer_beats=512, level_slots=512)
WIDE = AcceleratorConfig(512)

HEADINGS = (
    *("staleness", "features", "s", "batch", "rows", "cycles/epoch"),
    *("layout bound", "bound/cycles", "raw bound", "raw/cycles", "below 0.98 because"),
)

Shape = tuple[int, int, int]  # features, stored bits, batch
Row = tuple[str, ...]  # of a table


def geometry_of(shape: Shape, rows_per_beat: int = 1, beats: int = BEATS, table_lanes: bool = False) -> Geometry:
    """Return an epoch of about `beats` beats at 64 bits: double sampling, or full precision with 32 bits."""
    features, bits, batch = shape
    draws = bits < 32
    base_digits, half = divmod(bits - DIGIT_BITS * draws, DIGIT_BITS)
    geometry = Geometry(features, 1, base_digits, draws, batch, half_digit=half == 1, codebook=table_lanes)
    batches = -(-max(beats // geometry.row_words, LEAST_ROWS) // batch)
    return dataclasses.replace(geometry, rows=batches * batch, rows_per_beat=rows_per_beat)


def random_job(geometry: Geometry, epochs: int, staleness: int) -> Job:
    """Return a job of random words, with a step so small that the weights stay in range."""
    chosen = np.random.default_rng(0)

    def words(count: int) -> np.ndarray:
        return chosen.integers(0, 1 << 64, count, np.uint64)

    step = 1 << 15 | 20 << 16
    return Job(
        geometry,
        base_regions=[words(geometry.base_words)],
        draw_regions=[words(geometry.draw_words)] if geometry.draws else [],
        state=ModelState(
            np.full((1, geometry.features), MASTER_OFFSET, np.int32), Settings(step, step, staleness=staleness)
        ),
        epochs=epochs,
        levels=np.zeros((geometry.levels, geometry.features), np.int32) if geometry.codebook else None,
    )


def epoch_cycles(geometry: Geometry, staleness: int) -> int:
    """Return the predicted cycles from the end of one epoch to the end of the next."""
    return int(np.diff(predict(geometry, 2, False, staleness).epoch_cycles)[0])


def measured_cycles(device: RtlDevice, geometry: Geometry, staleness: int, timing: MemoryTiming) -> int:
    """Return the measured cycles of an epoch on the RTL. Raises DeviceError if they differ from the prediction."""
    outcome = Driver(device).run(random_job(geometry, 2, staleness))
    expected = predict(geometry, 2, False, staleness, timing)
    ends = outcome.epoch_cycles.tolist()
    if ends != expected.epoch_cycles.tolist():
        raise DeviceError(
            f"{geometry}, staleness {staleness}: epochs end at {ends}; predicted: {expected.epoch_cycles}"
        )
    return int(ends[1] - ends[0])


def why_slow(geometry: Geometry, staleness: int) -> str:
    """Return the reason why an epoch is below the goal."""
    if geometry.codebook and not geometry.base_digits:
        return f"a row has {geometry.chunks} draw words in {geometry.row_words}, and each takes {DRAW_CYCLES} cycles"
    latency = publish_latency(geometry)
    batch = geometry.batch_groups * geometry.row_words
    if staleness == 0:
        return f"a batch of {batch} beats, then {latency - 1} cycles until its model can be read"
    return f"a batch of {batch} beats is shorter than the {latency} cycles until a model can be read"


def efficiency_rows(
    device: RtlDevice, shapes: Sequence[Shape], staleness: int, timing: MemoryTiming, table_lanes: bool = False
) -> Iterator[Row]:
    """Return a row of the table for each shape; `table_lanes`: with table lanes."""
    for shape in shapes:
        geometry = geometry_of(shape, table_lanes=table_lanes)
        cycles = measured_cycles(device, geometry, staleness, timing)
        efficiency = geometry.layout_bound / cycles
        yield (
            str(staleness),
            *map(str, shape),
            f"{geometry.rows:,}",
            f"{cycles:,}",
            f"{geometry.layout_bound:,.0f}",
            f"{efficiency:.4f}",
            f"{geometry.raw_bound:,.0f}",
            f"{geometry.raw_bound / cycles:.4f}",
            "" if efficiency >= GOAL else why_slow(geometry, staleness),
        )


def short_memory_rows(device: RtlDevice, shapes: Sequence[Shape], staleness: int) -> Iterator[Row]:
    """Return for each shape the beats of the layout over those that a slow memory offered, with start and end."""
    device.disturb(Disturbance(seed=1, stall_r=1 - OFFERED))
    for shape in shapes:
        geometry = geometry_of(shape)
        before = device.counters
        outcome = Driver(device).run(random_job(geometry, 2, staleness))
        slots = device.counters.read_slots - before.read_slots
        cycles = outcome.counters.cycles
        used = 2 * geometry.layout_bound / slots
        yield (str(staleness), *map(str, shape), f"{cycles:,}", f"{slots:,}", f"{slots / cycles:.4f}", f"{used:.4f}")
    device.disturb(Disturbance())


def width_rows(batches: Sequence[int]) -> Iterator[Row]:
    """Return the predicted rows per cycle at each width over those at 64 bits, with staleness 1."""
    for features in FEATURES:
        for bits in BITS:
            for batch in batches:
                narrow, *wide = (geometry_of((features, bits, batch), rows, LONG) for rows in (1, 2, 4, 8))
                cycles = epoch_cycles(narrow, 1)
                ratios = [cycles / epoch_cycles(geometry, 1) for geometry in wide]
                short = "" if ratios[-1] >= 0.97 * 8 else why_slow(wide[-1], 1)
                yield (str(features), str(bits), str(batch), *(f"{ratio:.3f}" for ratio in ratios), short)


def least_batch(features: int, bits: int, rows_per_beat: int, staleness: int) -> int | None:
    """Return the smallest batch of complete beats that reaches the goal by prediction, or None above `MOST_ROWS`."""
    for batch in range(rows_per_beat, MOST_ROWS + 1, rows_per_beat):
        geometry = geometry_of((features, bits, batch), rows_per_beat, LONG)
        if geometry.layout_bound >= GOAL * epoch_cycles(geometry, staleness):
            return batch
    return None


def least_batch_rows() -> Iterator[Row]:
    """Return the smallest batches for each port, staleness and number of features."""
    for rows_per_beat in (1, 8):
        for staleness in (0, 1):
            for features in FEATURES:
                least = (least_batch(features, bits, rows_per_beat, staleness) for bits in BITS)
                yield (
                    str(64 * rows_per_beat),
                    str(staleness),
                    str(features),
                    *(str(batch or "none") for batch in least),
                )


def shapes(features: Sequence[int], bits: Sequence[int], batches: Sequence[int]) -> list[Shape]:
    """Return all combinations."""
    return [(n, s, batch) for n in features for s in bits for batch in batches]


def print_wide(timing: MemoryTiming) -> None:
    """Print the measured rows per cycle of a 512-bit port; its simulator takes minutes to build."""
    cells: list[Row] = [("features", "s", "batch", "rows/cycle at 64", "rows/cycle at 512", "ratio")]
    with RtlDevice(WIDE, timing=timing) as device:
        for shape in shapes(FEATURES, BITS, [256]):
            narrow, wide = geometry_of(shape), geometry_of(shape, 8)
            slow, fast = epoch_cycles(narrow, 1), measured_cycles(device, wide, 1, timing)
            rates = (f"{narrow.rows / slow:.4f}", f"{wide.rows / fast:.4f}")
            cells.append((*map(str, shape), *rates, f"{slow / fast:.3f}"))
    print("\nA 512-bit port, measured on the RTL, staleness 1 (64 bits: as predicted)")
    print(align_columns(cells))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Cycles an epoch on the RTL, against the bounds.")
    parser.add_argument("--latency", type=int, default=60, help="cycles of a read (default: 60)")
    parser.add_argument("--wide", action="store_true", help="also measure a port of 512 bits")
    arguments = parser.parse_args()
    timing = MemoryTiming(arguments.latency)
    grid = shapes(NARROW, BITS, BATCHES) + shapes(FEATURES, BITS, BATCHES)
    with RtlDevice(timing=timing) as device:
        print(f"One 64-bit port, read latency {arguments.latency} cycles; all cycles as predicted")
        cells: list[Row] = [HEADINGS, *efficiency_rows(device, grid, 1, timing)]
        cells += efficiency_rows(device, [(n, s, batch) for n, s, batch in grid if n in (8, 90, 784)], 0, timing)
        print(align_columns(cells), flush=True)
        print(f"\nThe same with a memory that has a beat in {OFFERED:.0%} of the cycles, at random; two epochs")
        cells = [("staleness", "features", "s", "batch", "cycles", "beats offered", "offered/cycles", "bound/offered")]
        some = [(n, s, 64) for n in FEATURES for s in BITS]
        cells += short_memory_rows(device, some, 1)
        cells += short_memory_rows(device, [(784, 4, 64)], 0)
        print(align_columns(cells), flush=True)
    print("\nTable lanes, with the memory of the first table")
    grid = shapes((90, 784), TABLE_STORED_BITS, (16, 64))
    with RtlDevice(TABLE, timing=timing) as device:
        cells = [HEADINGS, *(row for stale in (1, 0) for row in efficiency_rows(device, grid, stale, timing, True))]
        print(align_columns(cells), flush=True)
    print("\nThe smallest batch with bound/cycles of 0.98, as predicted")
    cells = [("port bits", "staleness", "features", *(f"s={bits}" for bits in BITS)), *least_batch_rows()]
    print(align_columns(cells), flush=True)
    print("\nRows a cycle over those of a 64-bit port, staleness 1, as predicted")
    cells = [
        ("features", "s", "batch", "128 bits", "256 bits", "512 bits", "below 7.76 because"),
        *width_rows((8, 32, 64)),
    ]
    print(align_columns(cells), flush=True)
    if arguments.wide:
        print_wide(timing)


if __name__ == "__main__":
    main()
