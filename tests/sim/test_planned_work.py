"""The planned cycles of trainings equal those that the simulated hardware counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ValueType
from bitlane.contract.precision import FULL_BITS
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision
from bitlane.planning.work import TrainingSize, estimate_work
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.result import TrainingResult
from bitlane.training.train import train
from bitlane_sim.rtl.device import RtlDevice
from bitlane_verify.equivalence.encoder_soak import CONFIG
from bitlane_verify.equivalence.random_jobs import TESTED

TRAININGS = 12
PAGE = 4096


def random_options(rng: np.random.Generator, config: AcceleratorConfig) -> TrainingOptions:
    """Return options of any kind that the build can run."""
    sampling, bits = "double", int(rng.choice([3, 4, 5]))
    if not config.table_lanes:
        sampling = str(rng.choice(["double", "nearest", "naive", "full"]))
        bits = FULL_BITS if sampling == "full" else int(rng.choice([2, 4, 6, 8, 16]))
    loss = str(rng.choice(["squared_error", "hinge", "log_loss"]))
    rounding: dict[str, Any] = {"model_bits": 10, "gradient_bits": 8} if config.random_rounding else {}
    return TrainingOptions(
        choose_precision(bits, sampling, "optimal" if config.table_lanes else "uniform"),
        Objective(loss),
        levels="optimal" if config.table_lanes else "uniform",
        draws=[1, 2, 3, "epoch", "once"][rng.integers(5)],
        epochs=int(rng.integers(1, 9)),
        batch_size=int(rng.integers(1, 40)),
        learning_rate=0.01,
        staleness=int(rng.integers(2)),
        **rounding,
    )


def table_of(rng: np.random.Generator, options: TrainingOptions, targets: int) -> tuple[Any, Any, TrainingSize]:
    rows, features = int(rng.integers(2, 120)), int(rng.integers(1, 120))
    X, y = rng.normal(size=(rows, features)), rng.normal(size=(rows, targets))
    margins = options.objective.margins
    return X, np.where(y > 0, 1.0, -1.0) if margins else y, TrainingSize(rows, features + margins, targets)


def counted(run: TrainingResult) -> tuple[int, int, int, int]:
    return run.cycles, run.bytes_read, run.launches, run.passes


def test_cycles_are_those_of_the_hardware(seed: int) -> None:
    """For builds with one and two outputs, tables and random rounding; the memory may take one launch or many."""
    rng, launches, done = np.random.default_rng(seed), set(), 0
    while done < TRAININGS or len(launches) < 2:
        config = TESTED[rng.integers(len(TESTED))]
        options, snapshots = random_options(rng, config), bool(rng.integers(2))
        X, y, size = table_of(rng, options, int(rng.integers(1, 4)))
        capacity = int(rng.integers(5, 20)) * PAGE
        try:
            planned = estimate_work(size, options, config, capacity, snapshots)
        except DataError:  # not even a batch fits the memory, or a row the build
            continue
        if planned.launches > 40 or (options.staleness and planned.buffer_bytes_at_once > capacity):
            continue
        with RtlDevice(config, capacity) as device:
            run = train(X, y, options, device, snapshots=snapshots)
        assert counted(run) == (planned.cycles, planned.bytes_read, planned.launches, planned.passes), (options, size)
        launches.add(run.launches // run.passes > 1)
        done += 1


def test_cycles_of_the_encoder(seed: int) -> None:
    """They are the least of the hardware, whose last bursts depend on their turns at the write port."""
    rng = np.random.default_rng(seed)
    for dtype in (np.uint8, np.int16, np.float32):
        options = TrainingOptions(
            choose_precision(4, str(rng.choice(["double", "nearest"])), "uniform"),
            draws=int(rng.integers(1, 9)),
            epochs=int(rng.integers(1, 10)),
            learning_rate=0.01,
        )
        X = rng.integers(0, 200, (int(rng.integers(20, 90)), int(rng.integers(2, 90)))).astype(dtype)
        size = TrainingSize(*X.shape, value_type=VALUE_TYPES[np.dtype(dtype)])
        planned = estimate_work(size, options, CONFIG, 1 << 22)
        with RtlDevice(CONFIG, 1 << 22) as device:
            run = train(X, rng.normal(size=len(X)), options, device)
        assert counted(run) == (planned.cycles, planned.bytes_read, planned.launches, planned.passes)
        assert 0 < planned.encoding_cycles <= run.encoding_cycles < 1.2 * planned.encoding_cycles
        assert planned.encoding_cycles > 0 and ValueType(size.value_type or 0) == size.value_type
