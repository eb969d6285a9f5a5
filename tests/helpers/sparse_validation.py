"""Versions to validate: a model of planted rows, rows that it has not learned, and ways to make a version wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tests.helpers.sparse_models import DENSE, planted_rows

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.registry.checks import Bounds
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.validation import Inputs, validate
from bitlane.sparse.registry.verdict import Validation

SPEC = ModelSpec("lr", linear=SGD(0.1))
HELD_OUT = 1000
# Rows are few and the machine may be busy.
BOUNDS = Bounds(auc_lost=0.05, log_loss_lost=0.05, miscalibration=0.3, slowdown=100)


class Validated:
    """A registry with a model that has learned, and the rows to validate it with."""

    def __init__(self, folder: Path, seed: int):
        rows = planted_rows(seed, 2 * HELD_OUT)
        self.train, self.held_out = rows.slice(0, HELD_OUT), rows.slice(HELD_OUT, 2 * HELD_OUT)
        self.registry, self.model = ModelRegistry(folder), SparseModel(SPEC)
        self.publisher = Publisher(self.registry, self.model)
        for _ in range(3):
            self.model.learn(self.train)

    def publish(self) -> int:
        return self.publisher.publish().version

    def requests(self) -> list[tuple[Batch, np.ndarray]]:
        """Requests of ten rows, with the answers of the model as it is now."""
        parts = [self.held_out.slice(start, start + 10) for start in range(0, 200, 10)]
        return [(part, self.model.predict(part)) for part in parts]

    def validate(self, version: int, bounds: Bounds = BOUNDS, **inputs: object) -> Validation:
        return validate(self.registry, version, self.inputs(**inputs), bounds)

    def inputs(self, **more: object) -> Inputs:
        return Inputs(lambda _: self.batches(), "rows.npz", **more)  # type: ignore[arg-type]

    def batches(self) -> Iterable[Batch]:
        return [self.held_out.slice(0, 300), self.held_out.slice(300, HELD_OUT)]

    def shift(self, by: float) -> None:
        """Move all scores."""
        self.model.matrices[DENSE].row[0] += by

    def spoil(self, gradient: float) -> None:
        """Make a step of this gradient for one key that the held-out rows have."""
        self.model.parameters.push(self.held_out.keys[:1], np.full((1, 1), gradient, np.float32))


def failed(found: Validation) -> list[str]:
    """The names of the checks that failed."""
    return [check.name for check in found.checks if not check.passed]
