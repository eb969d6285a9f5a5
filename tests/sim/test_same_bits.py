"""The same call on the RTL and on the emulator: the same model, losses and counters."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.cli import main
from bitlane.devices.emulator import EmulatorDevice
from bitlane_sim.device import RtlDevice


def table(seed: int, rows: int = 300, n: int = 45) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


def facts(model, run) -> dict[str, object]:
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
        "starts": run.starts,
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 2},
        {"bits": 4, "draws": "once"},
        {"bits": 8, "draws": 2, "penalty": "l2", "alpha": 0.05},
        {"bits": 4, "sampling": "nearest"},
        {"bits": 4, "sampling": "naive", "decay": 0.7},
        {"bits": 32, "sampling": "full", "penalty": "l2", "alpha": 1e-4},
    ],
    ids=str,
)
@pytest.mark.parametrize("capacity", [1 << 20, 24 << 10])  # one start, and rows in parts
def test_regressor(seed, settings, capacity):
    X, y = table(seed)
    found = []
    for device in (RtlDevice(capacity_bytes=capacity), EmulatorDevice(capacity_bytes=capacity)):
        model = SGDRegressor(**settings, epochs=4, batch_size=9, device=device, random_state=seed)
        model.fit(X, y, snapshots=True)
        found.append(facts(model, model.run_))
        device.close()
    assert found[0] == found[1]


def test_classifier_of_three_classes(seed):
    X, y = table(seed)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    found = []
    for device in ("rtl", "emulator"):
        model = SGDClassifier(bits=4, epochs=2, device=device, random_state=seed).fit(X, labels, snapshots=True)
        found.append([facts(model, run) for run in model.runs_])
    assert len(found[0]) == 3
    assert found[0] == found[1]


def test_command_line(seed, tmp_path, capsys):
    """`bitlane train` on a table leaves the same records, but for the device and the time it took."""
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
