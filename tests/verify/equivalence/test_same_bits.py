"""The same call on the RTL and on the emulator: the same model, losses and counters."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.cli.main import main
from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.emulator import EmulatorDevice
from bitlane_sim.rtl.device import RtlDevice
from bitlane_verify.equivalence.random_jobs import DIGIT_LANES, SMALL_TABLE


def table(seed: int, rows: int = 300, n: int = 45) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


def classes(y: np.ndarray) -> np.ndarray:
    """Return three classes of unequal sizes."""
    return np.digitize(y, np.quantile(y, [0.3, 0.7]))


def devices(config: AcceleratorConfig, capacity: int) -> tuple[RtlDevice, EmulatorDevice]:
    return RtlDevice(config, capacity), EmulatorDevice(config, capacity)


def facts(model) -> dict[str, object]:
    run = model.run_
    return {
        "coef": model.coef_.tolist(),
        "intercept": np.ravel(model.intercept_).tolist(),
        "loss": run.loss.tolist(),
        "snapshots": run.snapshots.tolist(),
        "cycles": run.cycles,
        "epochs": run.epoch_cycles.tolist(),
        "beats": run.beats,
        "stalls": run.stalls,
        "saturations": run.saturations,
        "launches": run.launches,
        "passes": run.passes,
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 2},
        {"bits": 4, "draws": "once"},
        {"bits": 8, "draws": 2, "penalty": "l2", "alpha": 0.05},
        {"bits": 4, "sampling": "nearest", "staleness": 1},
        {"bits": 4, "sampling": "naive", "decay": 0.7, "penalty": "l1", "alpha": 0.01},
        {"bits": 4, "bounds": (0, None)},
        {"bits": 32, "sampling": "full", "penalty": "l2", "alpha": 1e-4},
    ],
    ids=str,
)
@pytest.mark.parametrize("capacity", [1 << 20, 24 << 10])  # one start, and rows in parts
def test_regressor(seed, settings, capacity):
    X, y = table(seed)
    found = []
    for device in devices(AcceleratorConfig(), capacity):
        model = SGDRegressor(**settings, epochs=4, batch_size=9, device=device, random_state=seed)
        model.fit(X, y, snapshots=True)
        found.append(facts(model))
        device.close()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 3, "levels": "optimal", "model_bits": 10},
        {"bits": 4, "levels": "optimal", "staleness": 1, "draws": 2},
        {"bits": 5, "levels": "optimal", "penalty": "l2", "alpha": 0.05},
        {"bits": 5, "model_bits": 8, "gradient_bits": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("capacity", [1 << 20, 32 << 10])
def test_levels_in_tables(seed, settings, capacity):
    if capacity < 1 << 20 and "staleness" in settings:
        capacity = 256 << 10  # all rows of an epoch, in several starts
    X, y = table(seed)
    found = []
    for device in devices(SMALL_TABLE, capacity):
        model = SGDRegressor(**settings, epochs=4, batch_size=9, device=device, random_state=seed)
        model.fit(X, y, snapshots=True)
        found.append({**facts(model), "levels": model.run_.levels.tolist()})
        device.close()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "hinge", "class_weight": "balanced"},
        {"loss": "log_loss", "penalty": "l1", "alpha": 0.001},
        {"loss": "squared_error", "staleness": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("config", DIGIT_LANES, ids=lambda config: f"{config.width}x{config.outputs}")
def test_classifier_of_three_classes(seed, settings, config):
    """Several classes per pass with several outputs, several rows per beat with a wide port."""
    X, y = table(seed)
    found = []
    for device in devices(config, 1 << 20):
        model = SGDClassifier(**settings, bits=4, epochs=2, batch_size=9, device=device, random_state=seed)
        found.append(facts(model.fit(X, classes(y), snapshots=True)))
        device.close()
    assert found[0] == found[1]
    if "class_weight" not in settings:  # classes of different weights need passes of their own
        assert found[0]["passes"] == -(-3 // config.outputs)


def test_a_fit_continues_on_another_device(seed):
    """Two epochs on the RTL and two on the emulator have the bits of four on the RTL."""
    X, y = table(seed)
    settings = {"loss": "log_loss", "penalty": "l2", "alpha": 1e-3, "decay": 0.9, "random_state": seed}
    whole = SGDClassifier(**settings, epochs=4, device="rtl").fit(X, classes(y))
    begun = SGDClassifier(**settings, epochs=2, device="rtl").fit(X, classes(y))
    ended = SGDClassifier(**settings, epochs=4, device="emulator")
    ended.fit(X, classes(y), resume=begun.run_.checkpoint())
    assert np.array_equal(whole.coef_, ended.coef_)
    assert np.array_equal(whole.run_.loss[2:], ended.run_.loss)


def test_command_line(seed, tmp_path, capsys):
    """`bitlane train` writes the same records on both, except the device and the time."""
    X, y = table(seed, rows=60, n=5)
    source = tmp_path / "table.csv"
    np.savetxt(source, np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,y", comments="")
    found = []
    for device in ("rtl", "emulator"):
        out = tmp_path / device
        options = ["--target", "y", "--epochs", "3", "--seed", str(seed), "--device", device, "--out", str(out)]
        assert main(["train", str(source), *options]) == 0
        lines = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
        lines[0].pop("device")
        lines[-1].pop("seconds")
        found.append(lines)
    assert found[0] == found[1]
    assert "R squared" in capsys.readouterr().out
