"""Trainings with flat options, as the tests name them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bitlane.contract.precision import Precision
from bitlane.devices.protocol import Device
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.result import TrainingResult
from bitlane.training.train import InitialModel, train

OBJECTIVE = tuple(field.name for field in fields(Objective))


def training_options(precision: Precision, **options: Any) -> TrainingOptions:
    """Options of a training; those of its objective may be among them."""
    objective = Objective(**{name: options.pop(name) for name in OBJECTIVE if name in options})
    return TrainingOptions(precision, objective, **options)


def trained(
    X: Any,
    y: Any,
    *,
    precision: Precision,
    device: Device,
    resume: Checkpoint | None = None,
    on_epoch: Any = None,
    snapshots: bool = False,
    **options: Any,
) -> TrainingResult:
    """The result of a training with these options, from 0, from coefficients or from a checkpoint."""
    model = InitialModel(options.pop("coef_init", None), options.pop("intercept_init", None))
    start = model if resume is None else resume
    chosen = training_options(precision, **options)
    return train(X, y, chosen, device, start=start, on_epoch=on_epoch, snapshots=snapshots)
