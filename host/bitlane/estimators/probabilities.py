"""Probabilities of classes from scores, for the losses whose scores have a meaning of that kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitlane.quantization.scaling import Floats


def _logistic(scores: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -scores)))


def _clipped(scores: Floats) -> Floats:
    return np.asarray((np.clip(scores, -1.0, 1.0) + 1.0) / 2.0)


PROBABILITIES: dict[str, Callable[[Floats], Floats]] = {"log_loss": _logistic, "modified_huber": _clipped}


def no_probabilities(model: Any) -> str:
    """Return why a model with this `loss` has no probabilities, or ""."""
    if model.loss in PROBABILITIES:
        return ""
    losses = " or ".join(f"loss={each!r}" for each in PROBABILITIES)
    return f"probability estimates are not available for loss={model.loss!r}; set {losses}"
