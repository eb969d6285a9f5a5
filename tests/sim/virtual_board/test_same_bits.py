"""The same call on the simulator, on a simulated board, and on one over the network: the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.pynq.board import BoardDevice, open_board
from bitlane.training.samples import SampleEncoder
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.virtual_board.board import SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind, write_overlay
from bitlane_verify.equivalence.encoder_soak import CONFIG

pytestmark = pytest.mark.pynq

OPTIONS = [
    {"bits": 4, "sampling": "double", "draws": "epoch", "epochs": 3, "batch_size": 16},
    {"bits": 2, "sampling": "double", "draws": 2, "epochs": 3, "batch_size": 7, "penalty": "l2", "alpha": 0.01},
    {"bits": 8, "sampling": "nearest", "epochs": 2, "batch_size": 32, "staleness": 1, "decay": 0.9},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["double", "draws in turn", "nearest"])
def test_regression(opener: Callable[[], BoardDevice], kind: BoardKind, seed: int, options: dict[str, object]) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 40))
    y = X @ rng.normal(size=40)
    results = []
    for device in (RtlDevice(kind.config), opener()):
        model = SGDRegressor(**options, learning_rate=0.02, device=device, random_state=seed).fit(X, y)
        results.append((model.coef_.tobytes(), model.run_.loss.tobytes(), model.run_.saturations))
    assert results[0] == results[1]


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_classification(opener: Callable[[], BoardDevice], kind: BoardKind, seed: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 40))
    y = X @ rng.normal(size=40) > 0
    results = []
    for device in (RtlDevice(kind.config), opener()):
        model = SGDClassifier(loss=loss, bits=4, epochs=3, learning_rate=0.02, device=device, random_state=seed)
        results.append((model.fit(X, y).coef_.tobytes(), model.run_.loss.tobytes()))
    assert results[0] == results[1]


def test_a_board_encodes_raw_rows(
    board: SimulatedBoard, kind: BoardKind, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host copies a table of integers, and makes no codes: the board's encoder has the bits of the host's."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 256, (150, 40)).astype(np.uint8), rng.normal(size=150)
    options = {"bits": 4, "draws": "epoch", "epochs": 3, "learning_rate": 0.02, "random_state": seed}
    host = SGDRegressor(**options, device=EmulatorDevice(kind.config)).fit(X, y)
    config = replace(CONFIG, address_bits=kind.config.address_bits)
    board.hardware.kind = replace(kind, config=config)
    device = open_board(bitfile=write_overlay(board.hardware.kind, tmp_path))
    for name in ("base", "draws"):
        monkeypatch.setattr(SampleEncoder, name, None)
    model = SGDRegressor(**options, device=device).fit(X, y)
    assert (model.coef_.tobytes(), model.run_.loss.tobytes()) == (host.coef_.tobytes(), host.run_.loss.tobytes())
    assert model.run_.encoding_cycles > 0 == host.run_.encoding_cycles
