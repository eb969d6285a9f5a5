"""What the SoC and the reference train: scikit-learn's digits, each class against the rest."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDClassifier
from bitlane.contract.config import AcceleratorConfig
from bitlane.data.datasets import load_dataset
from bitlane.devices.protocol import Device

# 128 bits are LiteDRAM's port; 62 stored features, one of them the intercept.
BUILD = AcceleratorConfig(128, outputs=2, max_features=128, row_buffer_beats=256, fifo_beats=64, address_bits=32)
BITS, EPOCHS = 4, 3


@dataclass(frozen=True, eq=False)
class DigitsModel:
    """A trained model, and what its training cost.

    Attributes
    ----------
    snapshots : ndarray of float64, shape (epochs, 10, 61)
        Scaled weights after each epoch.
    loss : ndarray of float64, shape (epochs, 10)
    coef : ndarray of float64, shape (10, 61)
    intercept : ndarray of float64, shape (10,)
    accuracy : ndarray of float64, shape ()
        Of the rows that it was trained on.
    cycles, nbytes : ndarray of int64, shape ()
        Clock cycles of all passes, and bytes that they read.
    """

    snapshots: NDArray[np.float64]
    loss: NDArray[np.float64]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    cycles: NDArray[np.int64]
    nbytes: NDArray[np.int64]

    @property
    def bytes_per_cycle(self) -> float:
        """Of all passes; the start of each and the write of its models count."""
        return float(self.nbytes / self.cycles)

    def save(self, path: Path) -> None:
        """Write a file for `load`."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load(cls, path: Path) -> DigitsModel:
        """Return the model of a file; OSError if there is none."""
        with np.load(path) as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    def differences(self, reference: DigitsModel) -> list[str]:
        """Return the names of what is not equal, bit for bit; costs may differ."""
        names = ("snapshots", "loss", "coef", "intercept", "nbytes")
        return [name for name in names if not np.array_equal(getattr(self, name), getattr(reference, name))]


def train_digits(device: Device, seed: int) -> DigitsModel:
    """Train ten classes on 1,797 rows of 61 pixels, stored with 4 bits: five passes of two classes and three epochs.

    The other 3 of the 64 pixels are 0 in all rows.

    Parameters
    ----------
    device : Device
        Of the build `BUILD`.
    seed : int
        Of the draws, and of the order of the rows.
    """
    digits = load_dataset("digits")
    X = digits.X[:, digits.X.any(axis=0)]
    model = SGDClassifier(bits=BITS, epochs=EPOCHS, device=device, shuffle=True, random_state=seed)
    model.fit(X, digits.y, snapshots=True)
    run: Any = model.run_
    return DigitsModel(
        snapshots=run.snapshots,
        loss=run.loss,
        coef=np.asarray(model.coef_),
        intercept=np.asarray(model.intercept_),
        accuracy=np.array(model.score(X, digits.y)),
        cycles=np.array(run.cycles),
        nbytes=np.array(run.bytes_read),
    )
