"""Checkpoints: all that a training needs to go on, bit for bit, as if it had never stopped."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import PHASE_BITS, phase_rate
from bitlane.contract.further import FurtherLoss
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.prng import after_batches
from bitlane.contract.settings import Settings
from bitlane.errors import DataError
from bitlane.levels.codebooks import Codebook
from bitlane.quantization.scaling import Scaling
from bitlane.support.atomic import atomic_write

from .options import AUTO, TrainingOptions

FORMAT = 5
SCALING = ("fit_intercept", "margins", "intercept_value", "weight_exponent")  # numbers of a `Scaling`

REGISTER_TYPES = {"loss": Loss, "prox": Prox, "further_loss": FurtherLoss, "bounds": tuple}  # of `Settings`

_DAMAGE = (KeyError, TypeError, ValueError, EOFError, OSError, AttributeError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training after one of its epochs.

    Attributes
    ----------
    epoch : int
        Epochs that have ended.
    master : ndarray of int32, shape (targets, s)
        Master weights of the stored features.
    settings : tuple of Settings
        Registers to continue with, one element for each target.
    options : TrainingOptions
    scaling : Scaling
        Scaling between user units and the values of the accelerator.
    fingerprint : str
        Hash of the data; see `bitlane.training.fingerprint.fingerprint`.
    levels : ndarray of int32, shape (2**b + 1, s), optional
        Codebook of each stored feature, in units of ``2**-16``; None for uniform levels.
    ridge : float, default=0.0
        Strength of the ridge that the draws need, beside that of the penalty; see `bitlane.training.ridge`.
    """

    epoch: int
    master: NDArray[np.int32]
    settings: tuple[Settings, ...]
    options: TrainingOptions
    scaling: Scaling
    fingerprint: str
    levels: Codebook | None = None
    ridge: float = 0.0

    def up_to(self, epoch: int | None) -> Checkpoint:
        """Return the state of a training that pauses after so many epochs; None: of this one."""
        return self if epoch is None else replace(self, options=replace(self.options, epochs=epoch))

    def check(self, options: TrainingOptions, data: str) -> None:
        """Raise DataError unless a training with these options, on data with this fingerprint, can resume here."""
        asked, was = options.as_dict(), self.options.as_dict()
        for name in asked:
            if name == "epochs" or (name, asked[name]) == ("learning_rate", AUTO):
                continue
            if asked[name] != was[name]:
                raise DataError(f"{name}={asked[name]!r}, but the checkpoint was trained with {was[name]!r}")
        if data != self.fingerprint:
            raise DataError(
                "X or y differ from the data that the checkpoint was trained on: resume with the same values and types"
            )
        if not self.options.ends_round(self.epoch):
            raise DataError(
                f"the checkpoint has {self.epoch} epochs, but shards are averaged every {self.options.average_every}: "
                "resume a checkpoint at a multiple of that"
            )
        if options.epochs <= self.epoch:
            raise DataError(
                f"epochs={options.epochs}: the checkpoint already has {self.epoch}; pass the total number of epochs"
            )

    def save(self, path: str | Path) -> None:
        """Write an npz file, completely or not at all. Raise OSError if the disk is full."""
        with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        header = {
            "format": FORMAT,
            "epoch": self.epoch,
            "settings": [asdict(settings) for settings in self.settings],
            "options": self.options.as_dict(),
            "scaling": {name: getattr(self.scaling, name) for name in SCALING},
            "fingerprint": self.fingerprint,
            "ridge": self.ridge,
        }
        arrays = {name: getattr(self.scaling, name) for name in ("center", "scale", "label_center", "label_scale")}
        if self.scaling.clipped is not None:
            arrays["clipped"] = self.scaling.clipped
        if self.levels is not None:
            arrays["levels"] = self.levels
        return {"header": np.array(json.dumps(header)), "master": self.master, **arrays}

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Return the checkpoint in a file.

        Raises
        ------
        DataError
            The file is missing, damaged, or has another format.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            version = header["format"]
            if version == FORMAT:
                return cls._of(header, arrays)
        except FileNotFoundError:
            raise DataError(f"no checkpoint {path}") from None
        except _DAMAGE as error:
            raise DataError(f"{path} is damaged or not a checkpoint ({type(error).__name__})") from error
        raise DataError(f"{path} has format {version!r}, this bitlane reads {FORMAT}")

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Checkpoint:
        settings = []
        for registers in header["settings"]:
            typed = {name: kind(registers[name]) for name, kind in REGISTER_TYPES.items() if name in registers}
            settings.append(Settings(**registers | typed))  # the defaults, where they did not exist yet
        options = TrainingOptions.from_dict(header["options"])
        master, levels = arrays.pop("master"), arrays.pop("levels", None)
        scaling = Scaling(**{**arrays, **header["scaling"]})
        _expect(master, (len(settings), scaling.stored_features), "master weights")
        if options.precision.codebook:
            _expect(levels, (options.precision.levels, scaling.stored_features), "levels")
        registers = tuple(settings)
        fingerprint, ridge = header["fingerprint"], float(header["ridge"])
        return cls(header["epoch"], master, registers, options, scaling, fingerprint, levels, ridge)


def _expect(array: NDArray[Any] | None, shape: tuple[int, int], what: str) -> None:
    if array is None or array.dtype != np.int32 or array.shape != shape:
        raise ValueError(f"{what}: not int32 {shape}")


def advanced(settings: Settings, epochs: int, batches: int) -> Settings:
    """Return the registers after this many epochs of this many batches each."""
    for _ in range(epochs):
        phase = settings.phase + batches * phase_rate(settings.penalty_step)
        shrink_phase = settings.shrink_phase + batches * phase_rate(settings.shrink_step)
        settings = replace(
            settings.after_epoch(),
            phase=phase % (1 << PHASE_BITS),
            shrink_phase=shrink_phase % (1 << PHASE_BITS),
            seed=after_batches(settings.seed, batches),
        )
    return settings
