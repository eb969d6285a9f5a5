"""bitlane's programs: SGD with 8 bits, and the solvers of `LinearRegressor` and `LinearClassifier`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import bitlane

from .contender import FittedModels, Program
from .problems import FitProblem
from .with_numpy import EPOCHS


def sgd(problem: FitProblem, epochs: int, given: Any) -> FittedModels:
    """Fit `SGDRegressor` or `SGDClassifier` with 8 bits, everything else by default."""
    settings: dict[str, Any] = {"bits": 8, "epochs": epochs, "device": "cpu", "random_state": 0}
    if problem.loss == "squared_error":
        y = problem.y if problem.y.shape[1] > 1 else problem.y[:, 0]
        model: Any = bitlane.SGDRegressor(**settings).fit(problem.X, y)
    else:
        model = bitlane.SGDClassifier(loss=problem.loss, **settings).fit(problem.X, labels_of(problem))
    return FittedModels(np.asarray(model.coef_), np.asarray(model.intercept_), model.run_.bytes_read)


def labels_of(problem: FitProblem) -> Any:
    """Return -1 and 1, or the number of the class of each row."""
    return problem.y[:, 0] if problem.y.shape[1] == 1 else problem.y.argmax(1)


def programs(problem: FitProblem) -> Iterator[Program]:
    """Yield the programs of bitlane that fit the problem."""
    if problem.penalty == "l2" and len(problem.alphas) == problem.folds == problem.y.shape[1] == 1:
        yield Program(
            "bitlane, SGD, 8 bits", sgd, lambda _: EPOCHS, version=str(getattr(bitlane, "__version__", "")), ours=True
        )
