"""What both estimators share: parameters, training, and linear predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bitlane.contract.precision import Precision
from bitlane.devices import DeviceSpec, opened_devices
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.policies.protocol import BitPolicy
from bitlane.quantization.ranges import TableRanges
from bitlane.quantization.row_table import reordered
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.rng import as_seed, generator
from bitlane.support.scalars import as_boolean, as_integer, as_number, as_python, is_integer
from bitlane.support.user_warnings import warn_user, warning_once
from bitlane.training.bit_plan import BitPlan
from bitlane.training.by_policy import policy_of, train_by_policy
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.learning_rate import with_steady_rate
from bitlane.training.objective import Bounds, ClassWeights, Objective
from bitlane.training.options import AUTO, TrainingOptions
from bitlane.training.result import OnEpoch, TrainingResult
from bitlane.training.several import train_on_several
from bitlane.training.stopping import PlateauEnding
from bitlane.training.table_scaling import scaling_of, table_ranges
from bitlane.training.train import FEW_ROWS, InitialModel, train

from .device_build import device_build
from .distance import with_distance
from .fit_rows import COPIES, FitRows
from .plateaus import plateau_ending
from .predictions import LinearModel
from .row_copies import absolute_copies
from .schedule import averaging_of, decay_of, epochs_of
from .validation import as_coefficients, check_words, clipped_batch, finite_model, row_weights, seed_of_call


@dataclass(eq=False, repr=False)
class LinearSGD(LinearModel):
    """Parameters of both estimators, by their names in scikit-learn where it has such parameters."""

    bits: int | str | BitPolicy = 4
    sampling: str = "double"
    levels: str = "uniform"
    draws: str | int = 8
    epochs: int | str = AUTO
    batch_size: int = 16
    learning_rate: float | str = AUTO
    decay: float | str = AUTO
    tol: float | None = None
    n_iter_no_change: int = 5
    early_stopping: bool = False
    validation_fraction: float = 0.1
    average: bool | int = False
    loss: str = "squared_error"
    penalty: str | None = None
    alpha: float = 0.0
    bounds: Bounds | None = None
    l1_ratio: float = 0.15
    epsilon: float = 0.1
    clip: str | None = "auto"
    staleness: int = 0
    model_bits: int | None = None
    gradient_bits: int | None = None
    fit_intercept: bool = True
    shuffle: bool = True
    warm_start: bool = False
    device: DeviceSpec = "auto"
    average_every: int = 1
    on_device_failure: str = "raise"
    random_state: int | np.random.RandomState | np.random.Generator | None = None
    verbose: int = 0

    _losses: ClassVar[tuple[str, ...]] = ()
    _classes: ClassVar[bool] = False  # whether the targets are classes

    # Set by fit and partial_fit.
    coef_: Any = field(init=False)  # float64, or a CSR matrix of scipy after sparsify
    intercept_: Floats = field(init=False)
    n_iter_: int = field(init=False)
    t_: float = field(init=False)
    loss_curve_: list[float] = field(init=False)
    validation_scores_: list[float] = field(init=False)
    run_: TrainingResult = field(init=False)
    _ranges: TableRanges = field(init=False)  # of all rows since fit, or since the first partial_fit
    _calls: int = field(init=False)  # of fit and partial_fit since then
    _warned: set[str] = field(init=False)  # what calls of partial_fit have warned of since then

    def _start(
        self,
        coef_init: ArrayLike | None,
        intercept_init: ArrayLike | None,
        resume: Checkpoint | None,
        shape: tuple[int, int],
    ) -> InitialModel | Checkpoint:
        """Return the initial model or checkpoint of a fit with coefficients of this shape, [targets, n]."""
        warm_start = as_boolean("warm_start", self.warm_start)
        if resume is not None:
            if not isinstance(resume, Checkpoint):
                raise DataError(f"resume={resume!r}: pass a checkpoint, as run_.checkpoint() returns it")
            if coef_init is not None or intercept_init is not None:
                raise DataError("resume starts with the weights of the checkpoint: omit coef_init and intercept_init")
            return resume
        if warm_start and self.__sklearn_is_fitted__():
            coef_init = self._dense() if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        return InitialModel(
            as_coefficients("coef_init", coef_init, shape),
            as_coefficients("intercept_init", intercept_init, shape[:1]),
        )

    def _train(
        self,
        table: Matrix,
        targets: Floats,
        options: TrainingOptions,
        start: InitialModel | Checkpoint,
        on_epoch: OnEpoch | None,
        snapshots: bool,
        stopping: PlateauEnding | None = None,
    ) -> TrainingResult:
        """Train all targets, float64 [rows, targets]; with `stopping`, up to a plateau."""
        if as_integer("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0):
            on_epoch = _printing(on_epoch, options.epochs)
        policy = policy_of(self.bits)
        config = device_build(options, table.shape[1], self.device)
        several = isinstance(self.device, list | tuple)
        if policy is not None:
            if several:
                raise DataError("a bit policy needs a single device: pass one device, or a number of bits")
            if isinstance(start, Checkpoint):
                raise DataError("a training with a bit policy cannot be resumed: the state of the policy is not saved")
            if stopping is not None:
                raise DataError("a bit policy trains all epochs: omit tol and early_stopping, or pass a number of bits")
        with opened_devices(self.device, config) as devices:
            if policy is not None:
                assert isinstance(start, InitialModel)
                return train_by_policy(
                    table, targets, options, devices[0], policy, start=start, on_epoch=on_epoch, snapshots=snapshots
                )
            if several or (isinstance(start, Checkpoint) and start.options.shards > 1):
                run = partial(
                    train_on_several, table, targets, options, devices, on_device_failure=self.on_device_failure
                )
            else:
                run = partial(train, table, targets, options, devices[0])
            if stopping is None:
                return run(start=start, on_epoch=on_epoch, snapshots=snapshots)
            return stopping.train(
                lambda state, until: run(start=state or start, until=until, snapshots=True), options.epochs, on_epoch
            )

    def _seed(self, start: InitialModel | Checkpoint) -> int:
        """Return the seed of a fit: that of the checkpoint for a resumed one without a seed of its own."""
        if isinstance(start, Checkpoint) and not is_integer(self.random_state):
            return start.options.seed
        return as_seed(self.random_state)

    def _options(
        self,
        class_weight: Sequence[ClassWeights],
        start: InitialModel | Checkpoint,
        batch_size: int,
        seed: int,
        epochs: int,
    ) -> TrainingOptions:
        check_words(self)
        if self.loss not in self._losses:
            raise DataError(f"loss={self.loss!r}: choose one of {', '.join(map(repr, self._losses))}")
        return TrainingOptions(
            precision=self._precision(policy_of(self.bits)),
            objective=Objective(**{name: as_python(getattr(self, name)) for name in _OBJECTIVE}),
            class_weight=tuple(class_weight),
            seed=seed,
            batch_size=batch_size,
            epochs=epochs,
            decay=decay_of(self.decay, start, epochs),
            **{name: as_python(getattr(self, name)) for name in _SHARED},
        )

    def _precision(self, policy: BitPolicy | BitPlan | None) -> Precision:
        """How samples are stored; with a policy, only the sampling counts."""
        if policy is not None:
            return Precision(sampling=self.sampling)
        return choose_precision(as_python(self.bits), self.sampling, self.levels)

    def _fit(
        self,
        X: Any,
        table: Matrix,
        targets: Floats,
        class_weight: Sequence[ClassWeights],
        sample_weight: ArrayLike | None,
        start: InitialModel | Checkpoint,
        on_epoch: OnEpoch | None,
        snapshots: bool,
    ) -> None:
        """Fit to targets [rows, targets], and set the attributes, but for the shape of `coef_` and the classes.

        X is the table as it was given.
        """
        seed, snapshots = self._seed(start), as_boolean("snapshots", snapshots)
        fraction = self.validation_fraction if as_boolean("early_stopping", self.early_stopping) else None
        weights = row_weights(sample_weight, len(table))
        rows = FitRows.of(table, targets, weights, fraction, self._classes, seed)
        ranges = table_ranges(rows.table, rows.targets)
        if isinstance(start, InitialModel):
            start = replace(start, ranges=ranges)
        batch_size = clipped_batch(self.batch_size, len(rows.table))
        epochs = epochs_of(self.epochs, len(rows.table), batch_size)
        options = self._options(class_weight, start, batch_size, seed, epochs)
        averaging = averaging_of(self.average)
        keeps = snapshots or averaging > 0
        with warning_once(set()), np.errstate(over="ignore", invalid="ignore"):  # `finite_model` tells
            stopping = self._stopping(rows, options, start)
            run = self._train(rows.table, rows.targets, options, start, on_epoch, keeps, stopping)
            if averaging:
                ended = run.checkpoint().epoch
                run = run.averaged_from(ended // 2 + 1 if averaging is True else -(-averaging // rows.rows))
            run = with_distance(run, rows.table, rows.targets, self.learning_rate == AUTO)
        self._remember(X, run if snapshots else run.without_snapshots(), ranges, rows.rows)
        if stopping is not None and rows.held is not None:
            self.validation_scores_ = [-value for value in stopping.history]
        elif hasattr(self, "validation_scores_"):
            del self.validation_scores_

    def _stopping(
        self, rows: FitRows, options: TrainingOptions, start: InitialModel | Checkpoint
    ) -> PlateauEnding | None:
        """Return what ends a fit before its last epoch; None without tol and early stopping."""
        patience = as_integer("n_iter_no_change", as_python(self.n_iter_no_change), 1)
        tol = None if self.tol is None else as_number("tol", self.tol)
        ending = plateau_ending(rows, options.objective, tol, patience, self.decay == AUTO, self._score_of)
        if ending is not None and isinstance(start, Checkpoint):
            raise DataError("a fit with tol or early_stopping cannot resume a checkpoint: omit them")
        return ending

    def _remember(self, X: Any, run: TrainingResult, ranges: TableRanges, rows: int) -> None:
        """Set the attributes that fit leaves, but for the shape of `coef_` and the classes."""
        self.coef_, intercept = finite_model(run)
        self.intercept_ = np.atleast_1d(intercept)
        self.run_, self.loss_curve_ = run, run.mean_losses
        self.n_iter_, self._warned = run.first_epoch + len(run.loss), set()
        self.t_ = 1.0 + self.n_iter_ * rows
        self._remember_rows(X, ranges, 1)

    def _remember_rows(self, X: Any, ranges: TableRanges, calls: int) -> None:
        """Set what the next call of partial_fit needs, and with the first call the columns."""
        self._ranges, self._calls = ranges, calls
        if calls == 1:
            self._remember_columns(X, len(ranges.features.low))

    def _partial_fit(
        self,
        X: Any,
        table: Matrix,
        targets: Floats,
        class_weight: Sequence[ClassWeights],
        sample_weight: ArrayLike | None,
    ) -> tuple[Floats, Floats]:
        """Return coefficients [targets, n] and intercepts [targets] after one more pass, over targets [rows, targets].

        X is the table as it was given.
        """
        fitted = self.__sklearn_is_fitted__()
        if fitted:
            self._check_columns(X, table)
            if len(self.intercept_) != targets.shape[1]:
                trained = len(self.intercept_)
                raise DataError(f"y has {targets.shape[1]} target(s), but the model was fitted to {trained}")
        call, rows, multiple = self._calls if fitted else 0, len(table), 1
        seed, weights, learns = seed_of_call(as_seed(self.random_state), call), row_weights(sample_weight, rows), True
        if weights is not None:
            copies, multiple = absolute_copies(weights, generator(seed, COPIES))
            if learns := bool(copies.any()):
                read = np.repeat(np.arange(rows), copies)
                table, targets = reordered(table, read), targets[read]
        coef, intercept = np.zeros((targets.shape[1], table.shape[1])), np.zeros(targets.shape[1])
        ranges = TableRanges.of(table, targets, self._ranges.features.rows if fitted else 0)
        if fitted:
            ranges = self._ranges.merged(ranges)
            coef, intercept = np.atleast_2d(self._dense()), self.intercept_
        batch = as_integer("batch_size", as_python(self.batch_size), 1) * multiple
        start = InitialModel(coef, intercept, ranges)
        options = replace(self._options(class_weight, start, batch, seed, epochs=1), draws="epoch")
        scaling = scaling_of(ranges, options)
        if fitted and scaling.margins and self._ranges.features.rows < FEW_ROWS:
            start = start.rescaled(scaling_of(self._ranges, options), scaling)
        curve: list[float] = getattr(self, "loss_curve_", []) if call else []  # a loaded model has none
        warned: set[str] = getattr(self, "_warned", set()) if call else set()
        with warning_once(warned), np.errstate(over="ignore", invalid="ignore"):
            if self.average:
                warn_user("average is not used by partial_fit, which is one pass over its rows")
            if not len(scaling.active):
                warn_user("every column of X is constant so far: their weights stay 0")
                coef, intercept = scaling.coefficients(scaling.weights(coef, intercept))
            elif learns:
                options = with_steady_rate(options, table, targets, scaling)
                run = self._train(table, targets, options, start, None, False)
                coef, intercept = map(np.atleast_1d, finite_model(run))
                self.run_, self.loss_curve_, coef = run, curve + run.mean_losses, np.atleast_2d(coef)
        self.n_iter_, self._warned = 1, warned
        self.t_ = (self.t_ if call else 1.0) + rows
        self._remember_rows(X, ranges, call + 1)
        return coef, intercept


def _printing(on_epoch: OnEpoch | None, epochs: int) -> OnEpoch:
    """Return a callback that prints the loss of each epoch, and then calls `on_epoch`."""

    def report(epoch: int, loss: float) -> None:
        print(f"epoch {epoch + 1} of {epochs}: loss {loss:.6g}")
        if on_epoch is not None:
            on_epoch(epoch, loss)

    return report


_OBJECTIVE = tuple(field.name for field in fields(Objective))
_DERIVED = {"batch_size", "decay", "epochs"}  # parameters from which options follow
_SHARED = {field.name for field in fields(TrainingOptions)} & {field.name for field in fields(LinearSGD)} - _DERIVED
