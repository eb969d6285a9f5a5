"""From a table to a trained model: scaling, quantizing, packing, and as many passes and starts as it takes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import STEP_FRACTION, WEIGHT
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import MAX_EPOCHS, MAX_ROWS
from bitlane.contract.packing import master_weights
from bitlane.contract.prng import SEED_BITS
from bitlane.contract.settings import Settings
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.errors import DataError
from bitlane.levels.codebooks import fit_codebook
from bitlane.quantization.precision import Precision
from bitlane.quantization.scaling import Floats, Matrix, Scaling, fit_scaling, intercept_value
from bitlane.quantization.stochastic import model_cut, scaled_gradient_cut
from bitlane.support.rng import generator

from .checkpoint import Checkpoint
from .double_buffer import DoubleBuffer
from .fingerprint import fingerprint
from .launches import ModelState, launches
from .objective import Bounds, ClassWeights, Objective
from .options import TrainingOptions
from .plan import ExecutionPlan
from .result import OnEpoch, TrainingResult
from .samples import SampleEncoder
from .totals import ResultAccumulator

_REACH = -float(WEIGHT.minimum) * 2.0**-WEIGHT.fraction  # scaled weights lie within it
SATURATED = 1e-3  # clipped values a row read, from which on a run warns
ROW_ORDER = 1 << 32  # the generator of the row order, apart from those of the draws, which are numbered from 0
ROUNDING = ROW_ORDER + 1  # and that of the seed of random rounding
ALIKE: ClassWeights = (1.0, 1.0)


def train(
    X: Matrix,
    y: Matrix,
    *,
    precision: Precision,
    device: Device,
    levels: str = "uniform",
    draws: str | int = "epoch",
    epochs: int = 20,
    batch_size: int = 16,
    learning_rate: float = 0.1,
    decay: float = 1.0,
    loss: str = "squared_error",
    penalty: str | None = None,
    alpha: float = 0.0,
    bounds: Bounds | None = None,
    staleness: int = 0,
    model_bits: int | None = None,
    gradient_bits: int | None = None,
    class_weight: ClassWeights | Sequence[ClassWeights] = ALIKE,
    fit_intercept: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    coef_init: Floats | None = None,
    intercept_init: Floats | None = None,
    resume: Checkpoint | None = None,
    on_epoch: OnEpoch | None = None,
    snapshots: bool = False,
) -> TrainingResult:
    """Trains linear models by mini-batch SGD on `mean(loss) + alpha R(w)`, see `objective.Objective`.

    The weights, residuals and margins of this objective are scaled (`scaling.py`). The gradient of a sample is that
    of double sampling with both orders averaged (ZipML, eq. 6), or of its one stored copy. The result does not
    depend on the capacity of the device: what does not fit goes in several starts, with the same bits.

    Targets are trained each by itself, as many in a pass over the data as the device has outputs.

    Parameters
    ----------
    X: integers or floats [rows, n], finite, not all columns constant.
    y: integers or floats [rows] or [rows, targets], finite; -1 and 1 for hinge and log_loss.
    precision: of the stored samples.
    device: an open device; with a table, of table lanes.
    levels: "uniform", or, of a precision with a table, "optimal": see `levels.tables.level_table`.
    draws: random sets that the epochs go through in turn: "once" (1), "epoch" (a new one each) or a number.
        Set k is drawn from `SeedSequence(seed, spawn_key=(k,))`. Nearest and full sampling draw nothing.
    epochs, batch_size: 1 or more. A partial last batch steps by its share of a batch.
    learning_rate: below `8 * batch_size`; of a batch's mean gradient.
    decay: factor on the learning rate after each epoch, 0.5 to 1.
    loss, penalty, alpha, bounds: see `Objective`. `alpha * learning_rate` must be below 1 with "l1", below 1/64 with
        "l2". Bounds are those of scaled weights; as all scales are positive, 0 and infinity mean the same for
        coefficients in user units.
    staleness: 0: a batch reads the weights that all batches before it left; 1: those of one batch earlier.
    model_bits, gradient_bits: end-to-end low precision, see `rounding`; None for none. They need a device with random
        rounding, whose words follow from `SeedSequence(seed, spawn_key=(2**32 + 1,))`.
    class_weight: factors on the gradients of rows with a negative label and of the others, or one such pair a
        target; targets of different pairs cannot share a pass.
    fit_intercept: whether there is one. Columns are centered then. For squared_error labels are centered too,
        and the intercept follows; otherwise, and with class weights, it is the weight of a feature that is always 1,
        which neither penalty nor bounds touch.
    shuffle: whether rows are put in random order first, drawn from `SeedSequence(seed, spawn_key=(2**32,))`.
    seed: 0 or more.
    coef_init, intercept_init: float64 [targets, n] and [targets], user units, to begin with instead of 0. An
        intercept that follows from the means does so from the beginning.
    resume: a checkpoint to go on from, to `epochs` in all; every other parameter that bits depend on, and the data,
        must be those of the training that it was taken from.
    on_epoch: called with the number of each epoch, from 0 (resumed: from where it goes on), and its loss, in every
        pass; the mean loss of the pass's targets where they are several.
    snapshots: whether to keep the weights of each epoch.

    Raises
    ------
    DataError: a value that cannot be used.
    DeviceError: the device failed.
    """
    began = time.perf_counter()
    targets = np.asarray(y).reshape(len(y), -1)
    objective = Objective(loss, penalty, float(alpha), bounds)
    if objective.margins and not np.isin(targets, (-1, 1)).all():
        raise DataError(f"loss={loss!r}: the labels must be -1 and 1")
    options = TrainingOptions(
        bits=precision.bits,
        sampling=precision.sampling,
        levels=levels,
        codebook=precision.codebook,
        draws=draws,
        batch_size=_whole("batch_size", batch_size, MAX_ROWS),
        learning_rate=float(learning_rate),
        decay=float(decay),
        loss=loss,
        penalty=penalty,
        alpha=float(alpha),
        bounds=None if bounds is None else (bounds[0], bounds[1]),
        staleness=staleness,
        model_bits=model_bits,
        gradient_bits=gradient_bits,
        class_weight=_pairs(class_weight, targets.shape[1]),
        fit_intercept=bool(fit_intercept),
        shuffle=bool(shuffle),
        seed=int(seed),
    )
    epochs = _whole("epochs", epochs, MAX_EPOCHS)
    sets = _sets(draws, precision, epochs)
    first = _beginning(X, targets, options, coef_init, intercept_init)
    if resume is not None:
        if coef_init is not None or intercept_init is not None:
            raise DataError("resume goes on with the weights of the checkpoint: leave coef_init and intercept_init out")
        resume.check(options, first.fingerprint, epochs)
        first = resume
    accelerator = Driver(device)
    plan = ExecutionPlan(
        geometry=Geometry(
            features=first.scaling.stored_features,
            rows=len(X),
            base_digits=precision.base_digits,
            draws=precision.draws,
            batch=options.batch_size,
            rows_per_beat=accelerator.rows_per_beat,
            outputs=accelerator.outputs,
            half_digit=precision.half_digit,
            codebook=precision.codebook,
        ),
        epochs=epochs,
        draw_sets=sets,
        shared_base=precision.sampling != "naive",
        snapshots=snapshots,
        capacity=device.capacity_bytes,
        first_epoch=first.epoch,
    )
    accelerator.check_fit(plan.geometry, options.staleness)
    if resume is None:
        first = replace(first, levels=fit_codebook(X, first.scaling, precision, levels))
    if shuffle:
        order = generator(options.seed, ROW_ORDER).permutation(len(X))
        X, targets = X[order], targets[order]
    totals = ResultAccumulator(first, plan, on_epoch)
    for some in passes(options.class_weight, accelerator.outputs):
        _train_pass(X, targets, some, first, plan, accelerator, totals)
    _warn_if_saturated(totals.counters.saturations, len(X) * (epochs - first.epoch), objective.margins)
    return totals.run(device.name, time.perf_counter() - began)


def passes(class_weight: Sequence[ClassWeights], outputs: int) -> list[NDArray[np.intp]]:
    """Which targets, of these class weights each, go through the data together: int [1 to outputs] each."""
    together: dict[ClassWeights, list[int]] = {}
    for target, pair in enumerate(class_weight):
        together.setdefault(pair, []).append(target)
    return [
        np.array(alike[start : start + outputs], np.intp)
        for alike in together.values()
        for start in range(0, len(alike), outputs)
    ]


def _beginning(
    X: Matrix, targets: Matrix, options: TrainingOptions, coef_init: Floats | None, intercept_init: Floats | None
) -> Checkpoint:
    """The state before the first epoch."""
    precision, objective = options.precision, options.objective
    apart = objective.margins or any(pair != ALIKE for pair in options.class_weight)
    one = intercept_value(precision) if apart and options.fit_intercept else 0.0
    scaling = fit_scaling(
        X, targets, options.fit_intercept, precision.limit, margins=objective.margins, intercept_value=one
    )
    features = len(scaling.active)
    if not features:
        raise DataError("every column of X is constant: there is nothing to learn from")
    if features < X.shape[1]:
        warnings.warn(f"{X.shape[1] - features} column(s) of X are constant: their weights are 0", stacklevel=5)
    settings = tuple(
        _rounding(
            objective.settings(
                options.learning_rate,
                options.batch_size,
                options.decay,
                options.staleness,
                pair,
                free=bool(scaling.intercept_value),
            ),
            options,
        )
        for pair in options.class_weight
    )
    master = _initial_weights(scaling, coef_init, intercept_init)
    return Checkpoint(0, master, settings, options, scaling, fingerprint(X, targets))


def _rounding(settings: Settings, options: TrainingOptions) -> Settings:
    """The settings with random rounding, where there is any."""
    if not options.random:
        return settings
    return replace(
        settings,
        model_cut=model_cut(options.model_bits),
        scaled_gradient_cut=scaled_gradient_cut(
            options.gradient_bits, max(settings.step, settings.step_negative, key=_step)
        ),
        seed=int(generator(options.seed, ROUNDING).integers(1 << SEED_BITS)),
    )


def _step(register: int) -> float:
    return decode_float(register, STEP_FRACTION)


def _initial_weights(scaling: Scaling, coef: Floats | None, intercept: Floats | None) -> NDArray[np.int32]:
    """Stored master weights int32 [targets, s] that stand for a model in user units."""
    targets, n = len(scaling.label_scale), len(scaling.scale)
    if coef is None and intercept is None:
        return master_weights(np.zeros((targets, scaling.stored_features)))
    coef = np.zeros((targets, n)) if coef is None else coef
    intercept = np.zeros(targets) if intercept is None else intercept
    if coef.shape != (targets, n) or intercept.shape != (targets,):
        raise DataError(
            f"coef_init and intercept_init have shapes {coef.shape} and {intercept.shape}, "
            f"but the data asks for {(targets, n)} and {(targets,)}"
        )
    weights = scaling.weights(coef, intercept)
    if np.abs(weights).max(initial=0.0) > _REACH:
        warnings.warn(f"initial weights beyond {_REACH:g} in scaled units were clipped", stacklevel=6)
    return master_weights(weights)


def _train_pass(
    X: Matrix,
    y: Matrix,
    targets: NDArray[np.intp],
    first: Checkpoint,
    plan: ExecutionPlan,
    accelerator: Driver,
    totals: ResultAccumulator,
) -> None:
    """Trains some of the targets from `first` on, and adds what came of it to `totals`."""
    outputs = plan.geometry.outputs
    labels = np.zeros((len(y), outputs))
    labels[:, : len(targets)] = y[:, targets]
    master = master_weights(np.zeros((outputs, plan.geometry.features)))
    master[: len(targets)] = first.master[targets]
    scaling, options = first.scaling.for_targets(targets, outputs), first.options
    samples = SampleEncoder(X, labels, scaling, options.precision, options.seed, first.levels)
    state = ModelState(master, first.settings[targets[0]])
    totals.begin(targets)
    with DoubleBuffer(accelerator, launches(plan, samples), plan.ahead) as conveyor:
        while conveyor.launch is not None:
            start = conveyor.launch
            on_epoch = totals.on_epoch if start.covers_all_rows else None
            outcome = accelerator.run(start.job(plan, state), on_epoch, conveyor.buffers, conveyor.fetch)
            totals.add(start, outcome)
            state = state.after(outcome)
            conveyor.advance()


# --- checks ---
def _whole(name: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
        raise DataError(f"{name}={value!r}: it must be a whole number from 1 to {most}")
    return int(value)


def _sets(draws: str | int, precision: Precision, epochs: int) -> int:
    """Random sets that are made: more than one for what is random alone, and none that no epoch reads."""
    if isinstance(draws, str):
        if draws not in ("once", "epoch"):
            raise DataError(f"draws={draws!r}: choose 'once', 'epoch' or a number of sets")
        draws = 1 if draws == "once" else epochs
    sets = _whole("draws", draws, MAX_EPOCHS)
    return min(sets, epochs) if precision.sampling in ("double", "naive") else 1


def _pairs(class_weight: ClassWeights | Sequence[ClassWeights], targets: int) -> tuple[ClassWeights, ...]:
    """The class weights of each target; DataError for a negative one, or pairs for another number of targets."""
    weights = np.array(class_weight, np.float64)
    if weights.shape not in ((2,), (targets, 2)) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise DataError(f"class_weight={class_weight!r}: it must be two numbers, 0 or more, or two a target")
    return tuple((float(low), float(high)) for low, high in np.broadcast_to(weights, (targets, 2)))


def _warn_if_saturated(saturations: int, rows: int, margins: bool) -> None:
    if saturations > SATURATED * rows:
        happened = f"{saturations} values were clipped in {rows} rows read: scaled weights "
        if margins:
            happened += (
                f"reached {_REACH:g}, and larger ones are not held: use a penalty, or tame columns with outliers"
            )
        else:
            happened += (
                f"or residuals reached {_REACH:g}, so training is likely to diverge: "
                "lower learning_rate, or raise alpha or bits"
            )
        warnings.warn(happened, stacklevel=5)
