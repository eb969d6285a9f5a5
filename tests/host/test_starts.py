"""Starts: the same bits however memory cuts a run."""

import numpy as np
import pytest

from bitlane.accelerator import job_bytes
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.layout import Geometry
from bitlane.quantize import Precision
from bitlane.training import train

from .test_training import table


def same(first, second):
    assert first.loss.tolist() == second.loss.tolist()
    assert first.weights.tolist() == second.weights.tolist()
    assert first.saturations == second.saturations
    if first.snapshots is not None:
        assert first.snapshots.tolist() == second.snapshots.tolist()


@pytest.mark.parametrize(
    ("precision", "draws"),
    [
        (Precision(4), "epoch"),
        (Precision(2), 3),
        (Precision(8), "once"),
        (Precision(4, "naive"), "epoch"),
        (Precision(4, "naive"), 2),
        (Precision(6, "nearest"), "epoch"),
        (Precision(32, "full"), "epoch"),
    ],
    ids=str,
)
@pytest.mark.parametrize("snapshots", [False, True])
def test_memory_does_not_change_a_bit(seed, precision, draws, snapshots):
    X, y = table(seed)
    options = {
        "precision": precision,
        "draws": draws,
        "epochs": 5,
        "batch_size": 9,
        "learning_rate": 0.05,
        "decay": 0.8,
        "alpha": 0.01,
        "seed": seed,
        "snapshots": snapshots,
    }

    def run(capacity):
        losses = []
        device = EmulatorDevice(capacity_bytes=capacity)
        result = train(X, y, device=device, on_epoch=lambda *epoch: losses.append(epoch), **options)
        assert losses == list(enumerate(result.loss.tolist()))
        assert device.allocated == 0
        assert (np.diff(result.epoch_cycles) > 0).all() and result.epoch_cycles[-1] <= result.cycles
        return result

    whole = run(128 << 20)
    assert whole.starts == 1
    geometry = Geometry(40, len(X), precision.base_digits, precision.draws)
    two_sets = job_bytes(geometry, 2, 2 if precision.sampling == "naive" else 1, 2, snapshots)
    segments = run(two_sets)
    same(whole, segments)
    parts = run(26 << 10)
    assert parts.starts > 5
    same(whole, parts)
    random = precision.sampling in ("double", "naive")
    if random and draws == "epoch":
        assert segments.starts == 3


def test_a_set_is_the_same_whoever_asks(seed):
    """Epoch k of a long run reads what epoch k of a short one does."""
    X, y = table(seed)
    options = {"precision": Precision(4), "learning_rate": 0.05, "seed": seed, "device": EmulatorDevice()}
    short = train(X, y, epochs=2, **options)
    long = train(X, y, epochs=4, draws=4, **options)
    assert long.loss[:2].tolist() == short.loss.tolist()
    assert train(X, y, epochs=2, **options | {"seed": seed + 1}).loss.tolist() != short.loss.tolist()


def test_a_batch_that_no_start_can_hold(seed):
    X, y = table(seed, rows=5000)
    with pytest.raises(DataError, match="batch of 4000 rows does not fit"):
        train(X, y, precision=Precision(8), device=EmulatorDevice(capacity_bytes=64 << 10), batch_size=4000)
