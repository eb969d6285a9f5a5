"""Forty seeded trainings over every mode of the accelerator, as digests of their bits.

`python tests/helpers/sgd_jobs.py > tests/golden/sgd_jobs.json` writes the golden file. It was written before the
package was divided into rooms, and the bits were the same afterwards. It was written again when draws became functions
of a counter; and, with other cycles alone, when a stored chunk took a cycle less, and when rows of one chunk followed
without a gap. It was written again for stratified draw sets and the ridge: the losses and weights of 16 jobs with
double sampling changed, and no counter. The script uses the public estimators.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from bitlane import SGDClassifier, SGDRegressor
from bitlane.devices import open_device

COUNTERS = ("cycles", "beats", "saturations", "passes", "bytes_read")
SAMPLINGS = [("double", 2), ("double", 4), ("double", 6), ("double", 16), ("double", 32), ("nearest", 2)]
SAMPLINGS += [("nearest", 8), ("naive", 4), ("naive", 8), ("full", 32)]
CODEBOOKS = [("uniform", 3), ("uniform", 5), ("optimal", 3), ("optimal", 4), ("optimal", 5)]
PENALTIES: list[dict[str, Any]] = [
    {},
    {"penalty": "l2", "alpha": 0.02},
    {"penalty": "l1", "alpha": 0.01},
    {"bounds": (0, None)},
    {"bounds": (-0.25, 0.5)},
]
TASKS = ("regression", "targets", "squared_error", "hinge", "log_loss", "classes")


def open_build(device: str = "emulator", **build: Any) -> Any:
    """A device of this build. Before the rooms its options were keyword arguments, one with another name."""
    try:
        from bitlane.contract.config import AcceleratorConfig
    except ImportError:
        random = build.pop("random_rounding", False)
        return open_device("emulator", **build, random=random)
    return open_device(device, AcceleratorConfig(**build))


def jobs() -> Iterator[tuple[str, dict[str, Any], dict[str, Any], str]]:
    """Name, the estimator's parameters, the build's options and the task of each training."""
    rng = np.random.default_rng(20261122)
    for number in range(40):
        build: dict[str, Any] = {"width": (64, 128, 256, 512)[number % 4], "outputs": (1, 1, 3)[number % 3]}
        task = TASKS[number % len(TASKS)]
        if number % 4 == 3:
            levels, bits = CODEBOOKS[number // 4 % len(CODEBOOKS)]
            parameters = {"sampling": "double", "bits": bits, "levels": levels}
            build["level_slots"] = 4096
        else:
            sampling, bits = SAMPLINGS[number % len(SAMPLINGS)]
            parameters = {"sampling": sampling, "bits": bits}
        parameters |= PENALTIES[number % len(PENALTIES)]
        parameters |= {
            "draws": ("epoch", "once", 2)[number // 2 % 3],
            "epochs": 3,
            "batch_size": int(rng.integers(1, 40)),
            "learning_rate": float(2.0 ** -rng.integers(4, 7)),
            "decay": (1.0, 0.75)[number % 2],
            "staleness": number // 5 % 2,
            "fit_intercept": bool(number % 7),
            "shuffle": bool(number % 5),
            "random_state": int(rng.integers(1 << 30)),
        }
        if task in ("squared_error", "hinge", "log_loss"):
            parameters["loss"] = task
            parameters["class_weight"] = (None, "balanced", {0: 2.0, 1: 0.5})[number // 6 % 3]
        if number % 5 == 2:
            parameters |= {"model_bits": 9, "gradient_bits": 8}
            build["random_rounding"] = True
        yield f"{number:02d} {task}", parameters, build, task


def samples(task: str, seed: int) -> tuple[Any, Any]:
    """Integers, so that every sum of theirs is exact: X int64 [211, 37], y for the task."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-100, 101, (211, 37))
    X[:, 5] = 7  # a constant column
    scores = X @ rng.integers(-3, 4, (37, 3)) + rng.integers(-50, 51, (211, 3))
    if task == "regression":
        return X, scores[:, 0]
    if task == "targets":
        return X, scores
    if task == "classes":
        return X, scores.argmax(axis=1)
    return X, (scores[:, 0] > 0).astype(np.int64)


def train(parameters: dict[str, Any], build: dict[str, Any], task: str, name: str = "emulator") -> dict[str, Any]:
    """One training, and one that stops after two epochs and goes on: the digests of its bits."""
    X, y = samples(task, parameters["random_state"])
    device = open_build(name, **build)
    kind = SGDRegressor if task in ("regression", "targets") else SGDClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(device=device, **parameters).fit(X, y, snapshots=True)
        run = model.run_
        resumed = kind(device=device, **parameters).fit(X, y, resume=run.checkpoint(2))
    found: dict[str, Any] = {name: int(getattr(run, name)) for name in COUNTERS}
    found |= {"stall_memory": int(run.stalls.memory), "stall_model": int(run.stalls.model)}
    found["epoch_cycles"] = [int(cycles) for cycles in run.epoch_cycles]
    found["loss"] = [float(loss).hex() for loss in run.loss.reshape(len(run.loss), -1)[:, 0]]
    arrays = {
        "losses": run.loss,
        "weights": run.weights,
        "snapshots": run.snapshots,
        "coef": model.coef_,
        "intercept": model.intercept_,
        "resumed": resumed.run_.weights,
    }
    if run.levels is not None:
        arrays["levels"] = run.levels
    return found | {name: digest(np.asarray(array)) for name, array in arrays.items()}


def digest(array: Any) -> str:
    """16 hexadecimal digits over an array's type, shape and bytes."""
    head = f"{array.dtype.str} {array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def all_jobs() -> dict[str, Any]:
    """The digests of all trainings, by name."""
    return {name: train(parameters, build, task) for name, parameters, build, task in jobs()}


if __name__ == "__main__":
    json.dump(all_jobs(), sys.stdout, indent=1)
    print()
