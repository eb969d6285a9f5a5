"""The result of a training: weights, losses and costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import weight_values
from bitlane.errors import DataError
from bitlane.levels.codebooks import codebook_values
from bitlane.quantization.scaling import Floats, Scaling

from .checkpoint import Checkpoint, advanced

OnEpoch = Callable[[int, float], None]


@dataclass(frozen=True)
class Stalls:
    """Cycles without a beat.

    Attributes
    ----------
    memory : int
        Cycles in which the memory had not delivered the next beat.
    model : int
        Cycles in which a beat waited for an update of the model.
    """

    memory: int
    model: int

    def __add__(self, other: Stalls) -> Stalls:
        return Stalls(self.memory + other.memory, self.model + other.model)


@dataclass(frozen=True)
class Bound:
    """Lower bounds of the cycles, at one beat a cycle.

    Attributes
    ----------
    raw : float
        For the stored bits only.
    layout : float
        With the padding of the last chunk.
    """

    raw: float
    layout: float

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.raw + other.raw, self.layout + other.layout)


@dataclass(eq=False)
class TrainingResult:
    """The result of a training, summed over its passes if the targets needed several.

    With one target the axis `targets` is left out of every shape. A resumed training reports its own epochs only.

    Attributes
    ----------
    loss : ndarray of float64, shape (epochs, targets)
        Mean loss while the epoch ran, in label units squared, in label units for epsilon_insensitive, and of margins
        without a unit: squared residuals without 1/2, and other losses as in `Objective`. With squared errors, double
        sampling estimates the squared residual of the unquantized samples without bias, so a value may be below 0.
    bits : ndarray of int64, shape (epochs,)
        Stored bits of a feature in each epoch. Float64, the mean over the rows, if a policy chose them within epochs.
    epoch_bytes : ndarray of int64, shape (epochs,)
        Bytes read in each epoch.
    cycles : int
        Clock cycles of all launches.
    encoding_cycles : int
        Clock cycles of the device's encoder, which are not among `cycles`; 0 if the host encoded.
    epoch_cycles : ndarray of int64, shape (epochs,)
        Clock cycles from the start to the end of each epoch.
    beats : int
        Beats read.
    stalls, bound : Stalls, Bound
        For the complete training.
    saturations : int
        Values that were clipped.
    launches, passes : int
        Starts of the accelerator, and passes over the data.
    seconds : float
        Time on the host, everything included.
    phases : dict of str to float
        The same by phase: "prepare" (scaling, learning rate, fingerprint, row order), "encode", "copy" (of samples to
        the device) and "train" (with the reading of the results). What runs beside the device is not in "train".
        Several devices: "prepare" and "train" alone.
    device : str
        Name of the device.
    geometry : Geometry
        Shape of an epoch.
    bit_policy : str or None
        The policy that chose the bits of each epoch.
    suboptimality : ndarray of float64, shape (targets,), or None
        Share of the loss of a constant model that more training would still take off, measured on some rows; see
        `bitlane.training.suboptimality.suboptimality`. None without such a measurement.
    plateau : int or None
        Epochs after which the loss, or the score of held-out rows, no longer improved; None if there was no such
        plateau, or if nothing looked for one. See `bitlane.training.stopping`.
    """

    loss: Floats
    bits: NDArray[np.int64] | Floats
    epoch_bytes: NDArray[np.int64]
    cycles: int
    encoding_cycles: int
    epoch_cycles: NDArray[np.int64]
    beats: int
    stalls: Stalls
    bound: Bound
    saturations: int
    launches: int
    passes: int
    seconds: float
    phases: dict[str, float]
    device: str
    geometry: Geometry
    _first: Checkpoint = field(repr=False)
    _last: Checkpoint = field(repr=False)
    _masters: NDArray[np.int32] | None = field(repr=False)  # [epochs, targets, s]
    bit_policy: str | None = None
    suboptimality: Floats | None = None
    plateau: int | None = None
    _averaged: NDArray[np.int32] | None = field(default=None, repr=False)  # [targets, s]: the model, if not the last

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the training by name, its draw sets, and the shape of an epoch."""
        options, geometry = self._last.options, self.geometry
        shape = {name: getattr(geometry, name) for name in ("rows", "features", "rows_per_beat", "outputs")}
        build = {name: value for name in ("shards", "ports") if (value := getattr(geometry, name)) > 1}
        policy = {} if self.bit_policy is None else {"bit_policy": self.bit_policy}
        plateau = {} if self.plateau is None else {"plateau": self.plateau}
        return {**options.as_dict(), "draw_sets": options.draw_sets, **shape, **build, **policy, **plateau}

    @property
    def rows_per_beat(self) -> int:
        """Rows whose words lie side by side in a beat."""
        return self.geometry.rows_per_beat

    @property
    def mean_losses(self) -> list[float]:
        """Mean loss of each epoch over the targets."""
        means: list[float] = self.loss.reshape(len(self.loss), -1).mean(axis=1).tolist()
        return means

    @property
    def first_epoch(self) -> int:
        """Epochs that ended before this run: 0 unless it was resumed."""
        return self._first.epoch

    @property
    def ridge(self) -> float:
        """Strength of the ridge that the draws needed, added to that of an l2 penalty, in scaled units; 0 for none."""
        return self._last.ridge

    @property
    def scaling(self) -> Scaling:
        """Between scaled and user units."""
        return self._last.scaling

    @property
    def clipped(self) -> Floats:
        """Float64 [n], the share of the values of each column that were outliers and were clipped."""
        shares = self.scaling.clipped
        return np.zeros(len(self.scaling.scale)) if shares is None else shares

    @property
    def levels(self) -> Floats | None:
        """Float64 [2**b + 1, n], user units: what stored samples are read as; None without a table of levels."""
        table = self._last.levels
        return None if table is None else self.scaling.columns(codebook_values(table))

    @property
    def bytes_read(self) -> int:
        """Bytes of the beats."""
        return self.beats * self.geometry.beat_bytes

    @property
    def stored_weights(self) -> Floats:
        """Float64 [targets, s], scaled units, at the end: those of the stored features, an intercept among them."""
        return np.ldexp(weight_values(self._model), self.scaling.weight_exponent)

    @property
    def weights(self) -> Floats:
        """Float64 [targets, n], scaled units, at the end; a stored intercept is not among them."""
        return self._of_targets(self._scaled(self._model), 0)

    @property
    def snapshots(self) -> Floats | None:
        """Float64 [epochs, targets, n], scaled units, after each epoch; None unless asked for."""
        if self._masters is None:
            return None
        return self._of_targets(self._scaled(self._masters), 1)

    @property
    def coef(self) -> Floats:
        """Float64 [targets, n], user units."""
        return self._of_targets(self.scaling.coefficients(weight_values(self._model))[0], 0)

    @property
    def intercept(self) -> Floats:
        """Float64 [targets], user units."""
        return self._of_targets(self.scaling.coefficients(weight_values(self._model))[1], 0)

    def models(self) -> tuple[Floats, Floats]:
        """After each epoch: coefficients [epochs, targets, n] and intercepts [epochs, targets], user units.

        DataError for a run without snapshots.
        """
        if self._masters is None:
            raise DataError("the run has no snapshots: train with snapshots=True to get the model after each epoch")
        coef, intercept = self.scaling.coefficients(weight_values(self._masters))
        return self._of_targets(coef, 1), self._of_targets(intercept, 1)

    def checkpoint(self, epoch: int | None = None) -> Checkpoint:
        """Return the state after `epoch` epochs.

        Parameters
        ----------
        epoch : int, optional
            Epochs since the start of the training, including those before it was resumed; None for the end.

        Raises
        ------
        DataError
            This run did not end the epoch, or it is not the last one and the run has no snapshots, or it is within a
            round of shards.
        """
        first, last = self._first, self._last
        if epoch is None or epoch == last.epoch:
            return last
        if not first.epoch < epoch < last.epoch:
            raise DataError(f"epoch={epoch}: this run ended epochs {first.epoch + 1} to {last.epoch}")
        if self._masters is None:
            raise DataError(
                f"epoch={epoch}: without snapshots only the last epoch, {last.epoch}, is available: use snapshots=True"
            )
        if not last.options.ends_round(epoch):
            raise DataError(f"epoch={epoch}: shards are averaged every {last.options.average_every} epochs only")
        ended = epoch - first.epoch
        settings = tuple(advanced(each, ended, self.geometry.batches) for each in first.settings)
        return replace(last, epoch=epoch, master=self._masters[ended - 1], settings=settings)

    def ended_at(self, epoch: int) -> TrainingResult:
        """Return the result up to the end of an epoch, of a run with snapshots.

        Cycles, beats and what else counts work remain those of the whole run. Raise DataError as `checkpoint` does.
        """
        last, ended = self.checkpoint(epoch).up_to(epoch), epoch - self.first_epoch
        assert self._masters is not None
        return replace(
            self,
            loss=self.loss[:ended],
            bits=self.bits[:ended],
            epoch_bytes=self.epoch_bytes[:ended],
            epoch_cycles=self.epoch_cycles[:ended],
            _last=last,
            _masters=self._masters[:ended],
        )

    def with_decay(self, decay: float) -> TrainingResult:
        """Return the result of a training whose last epochs had another decay than its options say."""
        options = replace(self._last.options, decay=decay)
        return replace(self, _last=replace(self._last, options=options))

    def averaged_from(self, epoch: int) -> TrainingResult:
        """Return the result with the mean model after this epoch and all later ones, of a run with snapshots.

        The mean of the master weights is rounded to the nearest integer. Checkpoints remain those of the training. With
        a number of epochs that has not ended yet, the model is the last one.
        """
        assert self._masters is not None
        some = self._masters[max(0, epoch - 1 - self.first_epoch) :]
        mean = np.rint(some.mean(axis=0)).astype(np.int32) if len(some) else None
        return replace(self, _averaged=mean)

    def without_snapshots(self) -> TrainingResult:
        """Return the result without the weights of each epoch."""
        return replace(self, _masters=None)

    @property
    def _model(self) -> NDArray[np.int32]:
        return self._last.master if self._averaged is None else self._averaged

    def _scaled(self, masters: NDArray[np.int32]) -> Floats:
        """Return master weights [..., s] as scaled weights [..., n]."""
        return np.ldexp(self.scaling.expand(weight_values(masters)), self.scaling.weight_exponent)

    @staticmethod
    def _of_targets(array: Floats, axis: int) -> Floats:
        """Remove the axis of the targets if there is only one."""
        squeezed: Floats = array.squeeze(axis)[()] if array.shape[axis] == 1 else array
        return squeezed


def joined(runs: Sequence[TrainingResult]) -> TrainingResult:
    """Return the results of consecutive epochs as one, with the last state."""
    cycles = np.cumsum([0, *(run.cycles for run in runs[:-1])])
    masters = [run._masters for run in runs if run._masters is not None]
    return replace(
        runs[-1],
        loss=np.concatenate([run.loss for run in runs]),
        bits=np.concatenate([run.bits for run in runs]),
        epoch_bytes=np.concatenate([run.epoch_bytes for run in runs]),
        cycles=sum(run.cycles for run in runs),
        encoding_cycles=sum(run.encoding_cycles for run in runs),
        epoch_cycles=np.concatenate([run.epoch_cycles + start for run, start in zip(runs, cycles, strict=True)]),
        beats=sum(run.beats for run in runs),
        stalls=sum((run.stalls for run in runs), Stalls(0, 0)),
        bound=sum((run.bound for run in runs), Bound(0.0, 0.0)),
        saturations=sum(run.saturations for run in runs),
        launches=sum(run.launches for run in runs),
        seconds=sum(run.seconds for run in runs),
        phases={name: sum(run.phases[name] for run in runs) for name in runs[0].phases},
        _first=runs[0]._first,
        _masters=np.concatenate(masters) if masters else None,
    )


def as_one_epoch(sections: Sequence[TrainingResult]) -> TrainingResult:
    """Return the results of the sections of an epoch, whose rows may have different bits, as that of the epoch."""
    run, rows = joined(sections), [section.geometry.rows for section in sections]
    return replace(
        run,
        loss=np.average(run.loss, axis=0, weights=rows)[None],
        bits=np.atleast_1d(np.average(run.bits, weights=rows)),
        epoch_bytes=run.epoch_bytes.sum()[None],
        epoch_cycles=run.epoch_cycles[-1:],
        geometry=replace(run.geometry, rows=sum(rows)),
    )
