"""From a data set to a trained model: scaling, encoding, and as many passes and launches as it takes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import STEP_FRACTION
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import master_weights
from bitlane.contract.prng import SEED_BITS
from bitlane.contract.settings import Settings
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.driver.fit import check_fit, check_objective
from bitlane.encoded.column_codes import ColumnCodes
from bitlane.errors import DataError
from bitlane.levels.codebooks import fit_codebook
from bitlane.quantization.ranges import TableRanges
from bitlane.quantization.row_table import reordered
from bitlane.quantization.scaling import WEIGHT_LIMIT, Floats, Matrix, Scaling
from bitlane.quantization.stochastic import model_cut, scaled_gradient_cut
from bitlane.support.phases import PhaseClock
from bitlane.support.rng import generator
from bitlane.support.user_warnings import warn_user

from .accumulator import ResultAccumulator
from .checkpoint import Checkpoint
from .double_buffer import run_launches
from .fingerprint import fingerprint
from .kept_samples import KeptSamples, samples_key, warn_not_kept
from .learning_rate import with_learning_rate
from .losses import SQUARE_LOSSES
from .objective import Objective
from .options import AUTO, FEW_BITS, TrainingOptions
from .passes import TrainingRows, passes, start_of_pass
from .plan import ExecutionPlan
from .result import OnEpoch, TrainingResult
from .ridge import class_balances, draw_ridges, ridge_that_fits, warn_without_ridge
from .table_scaling import scaling_of, stored_codes, table_ranges, warn_of_far_labels, with_clipped
from .weight_range import LARGEST_WEIGHT, with_weight_range

_logger = logging.getLogger(__name__)

SATURATED = 1e-3  # clipped values for each row read, above which a training warns
ROW_ORDER = 1 << 32  # generator of the row order; the generators of draw sets are numbered from 0
ROUNDING = ROW_ORDER + 1  # generator of the seed of random rounding
FEW_ROWS = 64  # of a stream: up to here the scales are far from those of the rows that follow


@dataclass(frozen=True, eq=False)
class InitialModel:
    """Coefficients that a training begins with instead of 0, in user units.

    Attributes
    ----------
    coef : ndarray of float64, shape (targets, n), or None
    intercept : ndarray of float64, shape (targets,), or None
        Not used without a stored intercept: it then follows from the means of the columns.
    ranges : TableRanges, optional
        What the scaling is made from: the ranges of the data, or of more rows, with those of the data among them.
    column_codes : ColumnCodes, optional
        Scales of the columns, instead of those that suit the ranges; an encoded table has its own.
    """

    coef: Floats | None = None
    intercept: Floats | None = None
    ranges: TableRanges | None = None
    column_codes: ColumnCodes | None = None

    def rescaled(self, old_scaling: Scaling, scaling: Scaling) -> InitialModel:
        """Return the model with the same scaled weights in the columns whose scales have grown.

        What is predicted at the centres before, near the rows so far, stays.
        """
        assert self.coef is not None and self.intercept is not None
        grown = (old_scaling.scale > 0) & (scaling.scale > old_scaling.scale)
        shrinkage = np.divide(old_scaling.scale, scaling.scale, out=np.ones_like(scaling.scale), where=grown)
        coef = self.coef * shrinkage
        return replace(self, coef=coef, intercept=self.intercept + (self.coef - coef) @ old_scaling.center)


def train(  # noqa: PLR0913  # five of them are options by name
    X: Matrix,
    y: Matrix,
    options: TrainingOptions,
    device: Device,
    *,
    start: InitialModel | Checkpoint | None = None,
    until: int | None = None,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
    kept: KeptSamples | None = None,
) -> TrainingResult:
    """Train linear models by mini-batch SGD on ``mean(loss) + alpha * R(w)``; see `objective.Objective`.

    The weights, residuals and margins of this objective are scaled (`quantization.scaling`). The gradient of a sample
    is that of double sampling with both orders averaged (ZipML, eq. 6), or that of its single stored copy. The result
    does not depend on the capacity of the device: data that does not fit goes in several launches, with the same bits.

    Each target is a separate model. As many targets share a pass over the data as the device has outputs.

    Parameters
    ----------
    X : ndarray of integers or floats, shape (rows, n)
        Finite, with at least one column that is not constant.
    y : ndarray of integers or floats, shape (rows,) or (rows, targets)
        Finite; -1 and 1 for losses of margins.
    options : TrainingOptions
    device : Device
        An open device whose build can run the data; see `driver.fit.check_fit`.
    start : InitialModel or Checkpoint, optional
        Coefficients to begin with instead of 0, or a checkpoint of the same options (but for `epochs`) and data: the
        training then gives the bits of one that never stopped.
    until : int, optional
        Epochs after which the training pauses: its checkpoint is one within a training of ``options.epochs``.
    on_epoch : callable, optional
        Called as ``on_epoch(epoch, loss)`` after each epoch of each pass: its number, from 0 (resumed: from where it
        continues), and its loss, the mean over the targets of the pass.
    snapshots : bool, default=False
        Whether to keep the weights of each epoch.
    kept : KeptSamples, optional
        Samples of trainings before on the device, which later ones read without encoding and copying.

    Raises
    ------
    DataError
        A value that cannot be used.
    DeviceError
        The device failed.
    """
    if options.shards > 1:
        raise DataError(f"shards={options.shards}: train them with bitlane.training.several.train_on_several")
    driver = Driver(device)
    clock = PhaseClock()
    with clock.during("prepare"):
        first, rows = prepare(X, y, options, [driver], start)
        state = first.up_to(until)
        run = train_rows(state, rows, driver, on_epoch=on_epoch, snapshots=snapshots, clock=clock, kept=kept)
        warn_if_saturated(run)
    return replace(run, seconds=sum(clock.seconds.values()), phases=clock.seconds)


def prepare(
    X: Matrix,
    y: Matrix,
    options: TrainingOptions,
    drivers: Sequence[Driver],
    start: InitialModel | Checkpoint | None = None,
) -> tuple[Checkpoint, TrainingRows]:
    """Return the state before the first epoch of a training, and its rows in the order in which they are read.

    Parameters
    ----------
    X, y, options, start
        As for `train`.
    drivers : sequence of Driver
        Devices that have to fit the data.

    Raises
    ------
    DataError
        A value that cannot be used, or data that a device cannot run.
    """
    targets = np.asarray(y).reshape(len(y), -1)
    _check_targets(targets, options)
    first = _first_state(X, targets, options, start)
    for driver in drivers:
        check_fit(driver.config, geometry_of(first, len(X), driver), options.staleness, driver.device.name)
        for settings in first.settings:
            check_objective(driver.config, settings, driver.device.name)
    if not isinstance(start, Checkpoint):
        first = replace(first, levels=fit_codebook(X, first.scaling, options.precision, options.levels))
    if options.shuffle:
        order = generator(options.seed, ROW_ORDER).permutation(len(X))
        X, targets = reordered(X, order), targets[order]
    return first, TrainingRows(X, targets)


def train_rows(
    checkpoint: Checkpoint,
    rows: TrainingRows,
    driver: Driver,
    *,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
    clock: PhaseClock | None = None,
    kept: KeptSamples | None = None,
) -> TrainingResult:
    """Train on rows that `prepare` returned, or on some of them, from a state up to the epochs of its options.

    Parameters
    ----------
    checkpoint : Checkpoint
    rows : TrainingRows
    driver : Driver
    on_epoch, snapshots, kept
        As for `train`.
    clock : PhaseClock, optional
        Counts the phases of `run_launches`.

    Raises
    ------
    DataError
        The device has no room for a batch.
    DeviceError
        The device failed.
    """
    clock = clock or PhaseClock()
    options, plan = checkpoint.options, execution_plan(checkpoint, len(rows.X), driver, snapshots)
    totals = ResultAccumulator(checkpoint, plan, on_epoch)
    _logger.info(
        "training on %s: %d rows, %d stored features, epochs %d to %d",
        *(driver.device.name, plan.geometry.rows, plan.geometry.features, plan.first_epoch, options.epochs),
    )
    parts = passes(checkpoint.settings, driver.config.outputs)
    if kept is not None and len(parts) > 1:
        warn_not_kept(f"the targets take {len(parts)} passes; train those of one pass at a time")
    for chosen in parts:
        _train_pass(rows, chosen, checkpoint, plan, driver, totals, clock, kept)
    return replace(totals.result(driver.device.name), seconds=sum(clock.seconds.values()), phases=clock.seconds)


def execution_plan(checkpoint: Checkpoint, rows: int, driver: Driver, snapshots: bool) -> ExecutionPlan:
    """Return how a training of this number of rows, from a state up to the epochs of its options, is cut."""
    options = checkpoint.options
    return ExecutionPlan(
        geometry=geometry_of(checkpoint, rows, driver),
        epochs=options.epochs,
        draw_sets=options.draw_sets,
        shared_base=options.precision.sampling != "naive",
        snapshots=snapshots,
        capacity=driver.device.capacity_bytes,
        first_epoch=checkpoint.epoch,
    )


def geometry_of(checkpoint: Checkpoint, rows: int, driver: Driver) -> Geometry:
    """Return the shape of an epoch over this number of rows on a device."""
    options, config = checkpoint.options, driver.config
    return Geometry.of(
        options.precision,
        features=checkpoint.scaling.stored_features,
        rows=rows,
        batch=options.batch_size,
        rows_per_beat=config.rows_per_beat,
        outputs=config.outputs,
        shards=config.shards,
        ports=config.ports,
    )


def _check_targets(targets: Matrix, options: TrainingOptions) -> None:
    if options.objective.margins and not np.isin(targets, (-1, 1)).all():
        raise DataError(f"loss={options.objective.loss!r}: the labels must be -1 and 1")
    if len(options.class_weight) not in (1, targets.shape[1]):
        raise DataError(
            f"class_weight has {len(options.class_weight)} pairs, but y has {targets.shape[1]} targets: "
            "pass one pair, or one for each target"
        )


def _first_state(
    X: Matrix, targets: Matrix, options: TrainingOptions, start: InitialModel | Checkpoint | None
) -> Checkpoint:
    """The state before the first epoch, or the checkpoint to resume."""
    if isinstance(start, Checkpoint):
        start.check(options, fingerprint(X, targets))
        if options.learning_rate == AUTO:
            options = replace(options, learning_rate=start.options.learning_rate)
        return replace(start, options=options)
    return _fresh_state(X, targets, options, start or InitialModel())


def _fresh_state(X: Matrix, targets: Matrix, options: TrainingOptions, initial: InitialModel) -> Checkpoint:
    """The state before the first epoch of a training that begins with an initial model."""
    ranges = initial.ranges or table_ranges(X, targets)
    scaling = scaling_of(ranges, options, initial.column_codes or stored_codes(X, options))
    features = len(scaling.active)
    if not features:
        raise DataError("every column of X is constant: at least one must vary")
    if features < X.shape[1]:
        warn_user(f"{X.shape[1] - features} column(s) of X are constant: their weights are 0")
    scaling = with_clipped(scaling, X, ranges.features, options)
    if options.objective.loss in SQUARE_LOSSES:
        warn_of_far_labels(targets, ranges.labels)
    automatic = options.learning_rate == AUTO
    (wanted,) = draw_ridges(options, [options.precision], X, targets, scaling)
    options = with_learning_rate(options, X, targets, scaling, wanted)
    weights = _initial_weights(scaling, initial)
    options, scaling = with_weight_range(options, automatic, X, targets, scaling, float(np.abs(weights).max()))
    warn_without_ridge(options, wanted, len(X))
    ridge = ridge_that_fits(options, wanted)
    ridges = [ridge_that_fits(options, ridge * share) for share in class_balances(options, targets)]
    settings = first_settings(options, scaling, ridges)
    master = master_weights(np.ldexp(weights, -scaling.weight_exponent))
    return Checkpoint(0, master, settings, options, scaling, fingerprint(X, targets), ridge=ridge)


def first_settings(options: TrainingOptions, scaling: Scaling, ridges: Sequence[float]) -> tuple[Settings, ...]:
    """Return the registers of each target, with its ridge, at the start of a training whose rate is a number."""
    return tuple(_settings(options, options.objective.with_ridge(ridge), i, scaling) for i, ridge in enumerate(ridges))


def _settings(options: TrainingOptions, objective: Objective, target: int, scaling: Scaling) -> Settings:
    """The registers of a target at the start of a training."""
    assert not isinstance(options.learning_rate, str)
    settings = objective.settings(
        options.learning_rate,
        options.batch_size,
        options.decay,
        options.staleness,
        options.class_weight_of(target),
        bool(scaling.intercept_value),
        scaling.weight_exponent,
        float(scaling.label_unit[target]),
    )
    if not options.random_rounding:
        return settings
    larger = max(settings.step, settings.step_negative, key=lambda step: decode_float(step, STEP_FRACTION))
    return replace(
        settings,
        model_cut=model_cut(options.model_bits),
        scaled_gradient_cut=scaled_gradient_cut(options.gradient_bits, larger),
        seed=int(generator(options.seed, ROUNDING).integers(1 << SEED_BITS)),
    )


def _initial_weights(scaling: Scaling, initial: InitialModel) -> Floats:
    """Scaled weights [targets, s] of an initial model."""
    targets, n = len(scaling.label_scale), len(scaling.scale)
    coef = np.zeros((targets, n)) if initial.coef is None else initial.coef
    intercept = np.zeros(targets) if initial.intercept is None else initial.intercept
    if coef.shape != (targets, n) or intercept.shape != (targets,):
        raise DataError(
            f"coef_init and intercept_init have shapes {coef.shape} and {intercept.shape}, "
            f"but the data needs {(targets, n)} and {(targets,)}"
        )
    if initial.coef is None and initial.intercept is None:
        return np.zeros((targets, scaling.stored_features))
    weights = scaling.weights(coef, intercept)
    if np.abs(weights).max(initial=0.0) > LARGEST_WEIGHT:
        warn_user(f"initial weights beyond {LARGEST_WEIGHT:g} in scaled units were clipped")
    return weights


def _train_pass(
    rows: TrainingRows,
    targets: NDArray[np.intp],
    first: Checkpoint,
    plan: ExecutionPlan,
    driver: Driver,
    totals: ResultAccumulator,
    clock: PhaseClock,
    kept: KeptSamples | None,
) -> None:
    """Train some of the targets from `first` on, and add the results to `totals`."""
    encoder, state = start_of_pass(rows, targets, first, plan.geometry.outputs)
    totals.begin(targets)
    key = None if kept is None else samples_key(first, plan, driver, targets, rows.first)
    try:
        for launch, result in run_launches(driver, plan, encoder, state, totals.on_epoch, clock, kept, key):
            totals.add(launch, result)
            _logger.info("finished a launch: %d epochs of %d rows", launch.epochs, launch.geometry.rows)
    except RuntimeError as error:
        if isinstance(error.__cause__, StopIteration):  # of on_epoch, which the generator turned into this
            raise error.__cause__ from None
        raise


def warn_if_saturated(result: TrainingResult) -> None:
    """Warn of a training that clipped many values."""
    last = result.checkpoint()
    rows = result.geometry.rows * (last.epoch - result.first_epoch)
    if result.saturations <= SATURATED * rows:
        return
    clipped, limit = f"{result.saturations} values were clipped in {rows} rows read", last.scaling.weight_limit
    largest = np.abs(result.stored_weights).max(initial=0.0)
    if last.options.objective.loss == "squared_hinge" and largest < limit / 2:
        few = last.options.precision.bits < FEW_BITS
        warn_user(
            f"{clipped}: margins were below {1 - WEIGHT_LIMIT:g}, where the slope of squared_hinge stops growing: use "
            + ("more bits (bits=8)" if few else "a lower learning_rate")
            + " or loss='modified_huber'"
        )
    elif last.options.objective.margins:
        warn_user(
            f"{clipped}: scaled weights reached {limit:g}, and larger ones cannot be held: use a penalty, or limit "
            "outliers in X"
        )
    else:
        warn_user(
            f"{clipped}: scaled weights reached {limit:g} or residuals {WEIGHT_LIMIT:g}, so training is likely to "
            "diverge: lower learning_rate, or raise alpha or bits"
        )
