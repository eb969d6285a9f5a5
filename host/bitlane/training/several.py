"""Trainings on several devices: targets are spread over them, or rows are trained in shards and averaged.

If one device needs at least as many passes over the data as there are devices, each pass runs on one of the devices. A
target then has the bits that it has on one device.

Otherwise the rows, in the order in which they are read, are cut into as many shards as there are devices, of complete
batches. In a round all shards begin with the same weights and run `average_every` epochs. Then the master weights are
averaged in exact integers, each shard weighted by its rows, and rounded to the nearest integer, halves upwards. Draws,
batches and scales are those of one device, and so are the registers at the end of a round. Shard k begins a round with
the seed of random rounding behind all batches of the shards before it, so that no two batches of a round share one.

The bits depend on the number of shards, and not on the devices that train them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.prng import after_batches
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.phases import PhaseClock
from bitlane.support.user_warnings import warn_user

from .checkpoint import Checkpoint, advanced
from .device_pool import DevicePool, DeviceTask, Done
from .options import TrainingOptions
from .passes import TrainingRows, passes
from .result import Bound, OnEpoch, Stalls, TrainingResult, joined
from .train import InitialModel, prepare, train_rows, warn_if_saturated

Passes = list[NDArray[np.intp]]


def train_on_several(  # noqa: PLR0913  # all but the first have defaults
    X: Matrix,
    y: Matrix,
    options: TrainingOptions,
    devices: Sequence[Device],
    *,
    start: InitialModel | Checkpoint | None = None,
    until: int | None = None,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
    on_device_failure: str = "raise",
) -> TrainingResult:
    """Train as `train.train` does, on several devices.

    The result counts the cycles of the busiest device; beats, stalls, saturations and launches of all devices add up.

    Parameters
    ----------
    X, y, start, until, snapshots
        As for `train.train`. A checkpoint can be resumed with any number of devices; its number of shards remains.
    options : TrainingOptions
        The number of shards follows from devices and targets, or from the checkpoint; that of the options is not used.
    devices : sequence of Device
        Open devices of the same build.
    on_epoch : callable, optional
        As for `train.train`; with shards, called after each round for each of its epochs.
    on_device_failure : {"raise", "continue"}, default="raise"
        "continue": the other devices do the work of a device that fails, with a warning and the same bits.

    Raises
    ------
    DataError
        A value that cannot be used, devices of different builds, or fewer batches than shards.
    DeviceError
        A device failed. The message names it and its share of the work.
    """
    clock = PhaseClock()
    drivers = [Driver(device) for device in devices]
    pool = DevicePool(drivers, on_device_failure)
    if isinstance(start, Checkpoint):
        options = replace(options, shards=start.options.shards)
    with clock.during("prepare"):
        first, rows = prepare(X, y, options, drivers, start)
    options = first.options
    cut = passes(first.settings, drivers[0].config.outputs)
    if not isinstance(start, Checkpoint):
        options = replace(options, shards=1 if len(cut) >= len(drivers) else len(drivers))
        first = replace(first, options=options)
    first = first.up_to(until)
    if (used := options.shards if options.shards > 1 else len(cut)) < len(drivers):
        warn_user(f"{used} of {len(drivers)} devices have work: the checkpoint has as many passes or shards")
    with clock.during("train"):
        run = (_train_shards if options.shards > 1 else _train_passes)(first, rows, cut, pool, on_epoch, snapshots)
    warn_if_saturated(run)
    names = ", ".join(device.name for device in devices)
    return replace(run, device=names, seconds=sum(clock.seconds.values()), phases=clock.seconds)


def _train_passes(
    first: Checkpoint, rows: TrainingRows, cut: Passes, pool: DevicePool, on_epoch: OnEpoch | None, snapshots: bool
) -> TrainingResult:
    """Train each pass over the data on one of the devices."""
    tasks = []
    for targets in cut:
        state, own = _of_targets(first, targets), TrainingRows(rows.X, rows.y[:, targets], rows.first)
        name = f"target{'s' * (len(targets) > 1)} {', '.join(map(str, targets))}"
        tasks.append(_task(name, state, own, on_epoch, snapshots))
    done = pool.run(tasks)
    master, settings = first.master.copy(), [*first.settings]
    epochs = first.options.epochs - first.epoch
    loss = np.zeros((epochs, len(settings)))
    masters = np.zeros((epochs, *master.shape), np.int32) if snapshots else None
    for targets, run in zip(cut, done.results, strict=True):
        last = run.checkpoint()
        loss[:, targets], master[targets] = run.loss.reshape(epochs, -1), last.master
        for target, registers in zip(targets, last.settings, strict=True):
            settings[target] = registers
        if masters is not None:
            masters[:, targets] = run._masters
    last = replace(first, epoch=first.options.epochs, master=master, settings=tuple(settings))
    return replace(_summed(done, loss, first, last, masters), passes=len(cut))


def _of_targets(state: Checkpoint, targets: NDArray[np.intp]) -> Checkpoint:
    """The state of some of the targets."""
    options = state.options
    if len(options.class_weight) > 1:
        options = replace(options, class_weight=tuple(options.class_weight[i] for i in targets))
    return replace(
        state,
        master=state.master[targets],
        settings=tuple(state.settings[i] for i in targets),
        options=options,
        scaling=state.scaling.for_targets(targets, len(targets)),
    )


def _train_shards(
    first: Checkpoint, rows: TrainingRows, cut: Passes, pool: DevicePool, on_epoch: OnEpoch | None, snapshots: bool
) -> TrainingResult:
    """Train the shards of the rows in rounds, and average them after each."""
    options = first.options
    shards = _shard_rows(len(rows.X), options.batch_size, options.shards)
    runs: list[TrainingResult] = []
    state = first
    while state.epoch < options.epochs:
        end = min(state.epoch + options.average_every, options.epochs)
        run = _round(replace(state, options=replace(options, epochs=end)), rows, shards, pool, snapshots)
        runs.append(run)
        state = run.checkpoint()
        if on_epoch is not None:
            for targets in cut:
                for epoch, loss in enumerate(run.loss.reshape(len(run.bits), -1)[:, targets], run.first_epoch):
                    on_epoch(epoch, float(loss.mean()))
    return joined(runs)


def _shard_rows(rows: int, batch: int, shards: int) -> list[range]:
    """The rows of each shard: complete batches, as equal as possible; the last batch may have fewer rows."""
    batches = -(-rows // batch)
    if batches < shards:
        raise DataError(
            f"X has {batches} batch{'es' * (batches > 1)} of {batch} rows, but there are {shards} shards: "
            "lower batch_size, or use fewer devices"
        )
    bounds = [min(k * batches // shards * batch, rows) for k in range(shards + 1)]
    return [range(*bounds[k : k + 2]) for k in range(shards)]


def _round(
    first: Checkpoint, rows: TrainingRows, shards: list[range], pool: DevicePool, snapshots: bool
) -> TrainingResult:
    """Train all shards from the same weights, and average them."""
    options = first.options
    epochs, tasks = options.epochs - first.epoch, []
    for number, shard in enumerate(shards, 1):
        before = epochs * shard.start // options.batch_size
        settings = tuple(replace(each, seed=after_batches(each.seed, before)) for each in first.settings)
        name = f"shard {number} of {len(shards)}, rows {shard.start} to {shard.stop - 1}"
        tasks.append(_task(name, replace(first, settings=settings), rows.some_rows(shard), None, snapshots))
    done = pool.run(tasks)
    counts = [len(shard) for shard in shards]
    losses = np.array([run.loss.reshape(epochs, -1) for run in done.results])
    batches = -(-len(rows.X) // options.batch_size)
    last = replace(
        first,
        epoch=options.epochs,
        master=weighted_mean(np.array([run.checkpoint().master for run in done.results]), counts),
        settings=tuple(advanced(each, epochs, batches) for each in first.settings),
    )
    masters = weighted_mean(np.array([run._masters for run in done.results]), counts) if snapshots else None
    run = _summed(done, np.average(losses, axis=0, weights=counts), first, last, masters)
    return replace(run, geometry=replace(run.geometry, rows=len(rows.X)))


def weighted_mean(masters: NDArray[np.int32], rows: Sequence[int]) -> NDArray[np.int32]:
    """Return the mean of master weights, int32 [shards, ...], weighted by the rows of each shard: int32 [...].

    It is the nearest integer to the exact mean, halves upwards.
    """
    weights = np.array(rows, np.int64)
    sums = np.tensordot(weights, masters.astype(np.int64), axes=1)
    total = weights.sum()
    mean: NDArray[np.int32] = ((2 * sums + total) // (2 * total)).astype(np.int32)
    return mean


def _task(name: str, first: Checkpoint, rows: TrainingRows, on_epoch: OnEpoch | None, snapshots: bool) -> DeviceTask:
    def run(driver: Driver, report: OnEpoch) -> TrainingResult:
        return train_rows(first, rows, driver, on_epoch=report, snapshots=snapshots)

    return DeviceTask(name, run, on_epoch)


def _summed(
    done: Done, loss: Floats, first: Checkpoint, last: Checkpoint, masters: NDArray[np.int32] | None
) -> TrainingResult:
    """The result of tasks that ran side by side, with this loss [epochs, targets] and these states."""
    runs, epochs = done.results, len(loss)
    beats = sum(run.beats for run in runs)
    return replace(
        runs[0],
        loss=loss[:, 0] if loss.shape[1] == 1 else loss,
        epoch_bytes=np.full(epochs, beats * runs[0].geometry.beat_bytes // epochs),
        cycles=int(done.busiest(lambda run: run.cycles)),
        encoding_cycles=int(done.busiest(lambda run: run.encoding_cycles)),
        epoch_cycles=done.busiest(lambda run: run.epoch_cycles),
        beats=beats,
        stalls=sum((run.stalls for run in runs), Stalls(0, 0)),
        bound=Bound(float(done.busiest(lambda run: run.bound.raw)), float(done.busiest(lambda run: run.bound.layout))),
        saturations=sum(run.saturations for run in runs),
        launches=sum(run.launches for run in runs),
        _first=first,
        _last=last,
        _masters=masters,
    )
