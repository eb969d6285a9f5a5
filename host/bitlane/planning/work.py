"""The work of a training, from sizes alone: launches, cycles, bytes read and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.draws import GROUP_SETS, DrawSet
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ValueType
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.driver.encoding import region_words, set_runs
from bitlane.driver.fit import check_fit
from bitlane.driver.job import PAGE
from bitlane.errors import DataError
from bitlane.training.on_device import DeviceEncoding, encoding_that_fits
from bitlane.training.options import TrainingOptions
from bitlane.training.plan import ExecutionPlan

BUILD = "the build"  # in messages: there is no device yet


@dataclass(frozen=True)
class TrainingSize:
    """The size of a training.

    Parameters
    ----------
    rows : int
    features : int
        Stored features of a row: columns that are not constant, and an intercept that is stored.
    targets : int, default=1
        Models: as many as the device has outputs share a pass over the data.
    value_type : ValueType, optional
        Type of the raw values, if an encoder in hardware reads it.
    """

    rows: int
    features: int
    targets: int = 1
    value_type: ValueType | None = None


@dataclass(frozen=True)
class WorkEstimate:
    """What a training takes on a build whose memory never stalls.

    Attributes
    ----------
    geometry : Geometry
        Shape of an epoch.
    passes, launches : int
        Passes over the data, and starts of the accelerator in all of them.
    cycles : int
        Clock cycles of all launches.
    encoding_cycles : int
        Clock cycles of the encoder before them, at least; 0 if the host encodes.
    bytes_read : int
        Bytes of the beats of all launches.
    buffer_bytes : int
        Bytes that the buffers take on the device, at most at a time.
    buffer_bytes_at_once : int
        The same if all epochs were one launch.
    """

    geometry: Geometry
    passes: int
    launches: int
    cycles: int
    encoding_cycles: int
    bytes_read: int
    buffer_bytes: int
    buffer_bytes_at_once: int


def estimate_work(
    size: TrainingSize, options: TrainingOptions, config: AcceleratorConfig, capacity: int, snapshots: bool = False
) -> WorkEstimate:
    """Return what a training takes.

    Parameters
    ----------
    size : TrainingSize
    options : TrainingOptions
    config : AcceleratorConfig
        The build.
    capacity : int
        Bytes that buffers may take on the device.
    snapshots : bool, default=False
        Whether the weights of each epoch are stored, as `bitlane train` does.

    Raises
    ------
    DataError
        The build cannot run the training. The message says what would fit.
    """
    geometry = Geometry.of(
        options.precision,
        size.features,
        size.rows,
        options.batch_size,
        config.rows_per_beat,
        config.outputs,
        config.shards,
        config.ports,
    )
    check_fit(config, geometry, options.staleness, BUILD)
    if options.random_rounding and not config.random_rounding:
        raise DataError("rounding weights or gradients at random needs a build with random rounding")
    if options.objective.more_objectives and not isinstance(config, SoftwareConfig):
        raise DataError("a build has no further losses and no elastic net: they need a device in software")
    shared = options.precision.sampling != "naive"
    plan = ExecutionPlan(geometry, options.epochs, options.draw_sets, shared, snapshots, capacity)
    encoding = None if size.value_type is None else encoding_that_fits(config, plan, size.value_type)
    at_once = plan.bytes_needed(geometry, plan.epochs, snapshots)
    if encoding is not None:
        plan = encoding.plan
    passes, shapes = -(-size.targets // config.outputs), [*_launch_shapes(plan)]
    counts = [
        predict(
            shape.geometry, shape.epochs, shape.snapshots, options.staleness, random_rounding=config.random_rounding
        )
        for shape in shapes
    ]
    beats = sum(shape.times * count.beats for shape, count in zip(shapes, counts, strict=True))
    return WorkEstimate(
        geometry=geometry,
        passes=passes,
        launches=passes * sum(shape.times for shape in shapes),
        cycles=passes * sum(shape.times * count.cycles for shape, count in zip(shapes, counts, strict=True)),
        encoding_cycles=passes * _encoding_cycles(encoding, config.encoder),
        bytes_read=passes * beats * config.beat_bytes,
        buffer_bytes=_buffer_bytes(plan, shapes[0], sum(shape.times for shape in shapes), encoding),
        buffer_bytes_at_once=at_once,
    )


@dataclass(frozen=True)
class _LaunchShape:
    """Launches that are alike."""

    geometry: Geometry
    epochs: int
    snapshots: bool
    times: int


def _launch_shapes(plan: ExecutionPlan) -> Iterator[_LaunchShape]:
    """Yield the launches of a pass, the largest first."""
    geometry = plan.geometry
    if plan.launch_epochs:
        full, rest = divmod(plan.epochs, plan.launch_epochs)
        yield _LaunchShape(geometry, plan.launch_epochs, plan.snapshots, full)
        if rest:
            yield _LaunchShape(geometry, rest, plan.snapshots, 1)
        return
    full, rest = divmod(geometry.rows, plan.launch_rows)
    yield _LaunchShape(replace(geometry, rows=plan.launch_rows), 1, False, full * plan.epochs)
    if rest:
        yield _LaunchShape(replace(geometry, rows=rest), 1, False, plan.epochs)


def _buffer_bytes(plan: ExecutionPlan, largest: _LaunchShape, launches: int, encoding: DeviceEncoding | None) -> int:
    """Return the bytes of the buffers: of a launch, of the samples of the next one, and of the raw rows."""
    geometry, epochs = largest.geometry, largest.epochs
    launch = plan.bytes_needed(geometry, epochs, largest.snapshots)
    sets = min(plan.draw_sets, epochs)
    if encoding is not None:  # its draw regions are further apart
        regions = sets * geometry.draws
        apart = _pages(regions * region_words(geometry)) - _pages(regions * geometry.draw_words)
        return launch + apart + _pages(encoding.encoding.source_words)
    if launches == 1 or not plan.double_buffered:
        return launch
    base = (1 if plan.shared_base else sets) * geometry.base_words
    return launch + _pages(base) + _pages(sets * geometry.draw_words)


def _pages(words: int) -> int:
    """Return the bytes that a buffer of this many words takes."""
    return -(-words * WORD_BYTES // PAGE) * PAGE


def _encoding_cycles(how: DeviceEncoding | None, sets_at_a_time: int) -> int:
    """Return the cycles of the encoder in a pass: base region and first draw sets, then draw sets for each launch."""
    if how is None:
        return 0
    plan, geometry, value_type = how.plan, how.plan.geometry, how.encoding.value_type

    @cache
    def cycles(writes_base: bool, sets: int) -> int:
        return predict_encoding(geometry, value_type, writes_base, sets).least if writes_base or sets else 0

    total = 0
    for first in range(0, plan.epochs, plan.launch_epochs):
        sets = [DrawSet(*divmod(number, GROUP_SETS)) for number in plan.launch_sets(first) * geometry.draws]
        for run in set_runs(sets, sets_at_a_time):
            total += cycles(first + run.start == 0, len(run))
    return total
