"""A training in shards that writes a checkpoint after each epoch, to be killed. Arguments: SEED FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bitlane import SGDRegressor
from bitlane.training.checkpoint import Checkpoint

EPOCHS = 12


def train(seed: int, folder: Path) -> SGDRegressor:
    """Train from the latest checkpoint in the folder to the end, and write one after each epoch."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 7))
    y = X @ rng.normal(size=7)
    done = sorted(folder.glob("*.npz"))
    checkpoint = Checkpoint.load(done[-1]) if done else None
    while True:
        epochs = checkpoint.epoch + 1 if checkpoint else 1
        model = SGDRegressor(epochs=epochs, device=["emulator", "emulator"], draws=4, random_state=seed)
        model.fit(X, y, resume=checkpoint)
        if epochs == EPOCHS:
            return model
        checkpoint = model.run_.checkpoint()
        checkpoint.save(folder / f"{epochs:02}.npz")


if __name__ == "__main__":
    train(int(sys.argv[1]), Path(sys.argv[2]))
