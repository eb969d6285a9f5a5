"""What goes wrong on boards: one sentence that says what, no buffer left behind, and the next call works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pynq
import pytest
from tests.helpers.cable import Cable

from bitlane import SGDRegressor
from bitlane.contract.registers import VLNV
from bitlane.devices.pynq import remote as pynq_remote
from bitlane.devices.pynq.board import BoardDevice, open_board
from bitlane.driver.driver import Driver
from bitlane.errors import DataError, DeviceError
from bitlane_hw.build_digest import build_digest
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind, write_overlay
from bitlane_sim.virtual_board.server import Server
from bitlane_verify.equivalence.random_jobs import random_job

pytestmark = pytest.mark.pynq


def fit(device: BoardDevice, seed: int, rows: int = 60, **options: Any) -> SGDRegressor:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 33))
    model = SGDRegressor(bits=4, **({"epochs": 2} | options), learning_rate=0.01, device=device, random_state=seed)
    return model.fit(X, X @ rng.normal(size=33))


def test_a_stale_bitstream(board: SimulatedBoard, kind: BoardKind, tmp_path: Path) -> None:
    stale = write_overlay(kind, tmp_path, build=build_digest(kind.config) ^ 1)
    with pytest.raises(
        DeviceError, match=r"build holds .* instead of .*: the \.bit and its \.hwh are of different builds"
    ):
        open_board(bitfile=stale)
    open_board(bitfile=write_overlay(kind, tmp_path, name="fresh"))


def test_another_board(board: SimulatedBoard, kind: BoardKind, tmp_path: Path) -> None:
    other = write_overlay(replace(kind, name="Arty"), tmp_path)
    with pytest.raises(DeviceError, match=f"the overlay is for Arty, but this board is {kind.name}"):
        open_board(bitfile=other)
    assert board.hardware.rtl is None, "it was loaded all the same"
    with pytest.raises(DeviceError, match="the overlay is for Arty"):
        _ = pynq.Overlay(str(other)).bitlane_0
    open_board(bitfile=write_overlay(kind, tmp_path, name="right"))


def test_another_overlay(board: SimulatedBoard, bit: Path) -> None:
    handoff = bit.with_suffix(".hwh")
    good = handoff.read_text()
    handoff.write_text(good.replace(VLNV, "xilinx.com:ip:axi_gpio:2.0"))
    with pytest.raises(DeviceError, match=r"bitlane\.bit is not a bitlane overlay: it contains bitlane_0"):
        open_board(bitfile=bit)
    handoff.write_text(good.replace(VLNV, VLNV.rpartition(":")[0] + ":1.0"))
    with pytest.raises(
        DeviceError, match=r"contains .*:1\.0, but this driver needs .*:\d+\.\d+: use both from the same release"
    ):
        open_board(bitfile=bit)
    handoff.write_text(good)
    open_board(bitfile=bit)


@pytest.mark.parametrize("suffix", [".bit", ".hwh"])
def test_a_missing_file(board: SimulatedBoard, bit: Path, suffix: str) -> None:
    missing = bit.with_suffix(suffix)
    content = missing.read_bytes()
    missing.unlink()
    with pytest.raises(
        DeviceError, match=rf"bitlane\{suffix} is missing: a bitstream is a \.bit and a \.hwh of the same name"
    ):
        open_board(bitfile=bit)
    missing.write_bytes(content)
    open_board(bitfile=bit)


def test_memory_that_is_used_up(
    opener: Callable[[], BoardDevice], hardware: Hardware, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board says that more is free than there is in one piece."""
    device = opener()
    rtl = hardware.rtl
    assert rtl is not None
    before = rtl.free_bytes
    most = rtl.allocate(before - 3 * 4096)
    with pytest.raises(DeviceError, match=r"taking \d+ bytes of contiguous memory \(CMA\) failed: .+; .+cma=256M"):
        fit(device, seed, rows=2000)
    assert rtl.free_bytes == 3 * 4096
    most.free()
    fit(device, seed, rows=2000)
    assert rtl.free_bytes == before


def test_a_device_that_never_finishes(
    board: SimulatedBoard, kind: BoardKind, hardware: Hardware, tmp_path: Path, seed: int
) -> None:
    """Its memory takes no address; its clock is slow, so that waiting costs the simulator little."""
    device = open_board(bitfile=write_overlay(kind, tmp_path, divisors=(50, 20)))
    assert hardware.rtl is not None
    before = hardware.rtl.free_bytes
    job = random_job(np.random.default_rng(seed), kind.config, features=100, rows=300)
    hardware.rtl.disturb(Disturbance(stall_ar=1 - 2**-32))
    with pytest.raises(DeviceError, match=r"made no progress for 0\.05 seconds"):
        Driver(device, timeout=0.05).run(job)
    assert hardware.rtl.free_bytes == before
    hardware.rtl.disturb(Disturbance())
    Driver(device).run(job)
    assert hardware.rtl.free_bytes == before


def test_a_cable_that_is_pulled(
    hardware: Hardware, server: Server, bit: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a run. Once it is back, what was left on the board is cleaned up, and the next run is right."""
    cable = Cable(server.port)
    device = open_board(f"127.0.0.1:{cable.port}", bitfile=bit)
    expected = fit(device, seed, epochs=3).coef_
    assert not server.buffers.live

    def pull(epoch: int, loss: Any) -> None:
        if epoch == 1:
            monkeypatch.setattr(pynq_remote, "CALL_SECONDS", 1.0)
            cable.pull()

    job = random_job(np.random.default_rng(seed), hardware.kind.config, features=100, rows=300, epochs=4)
    with pytest.raises(DeviceError, match=r"failed: the board no longer answers"):
        Driver(device).run(replace(job, epochs=4), pull)
    with pytest.raises(DeviceError, match="no longer answers"):
        fit(device, seed)
    assert server.buffers.live
    monkeypatch.setattr(pynq_remote, "CALL_SECONDS", 120.0)
    cable.plug()
    assert fit(device, seed, epochs=3).coef_.tobytes() == expected.tobytes()
    assert not server.buffers.live
    cable.pull()


def test_nobody_there(bit: Path) -> None:
    with pytest.raises(DeviceError, match=r"pynq://127\.0\.0\.1:9: connecting failed"):
        open_board("127.0.0.1:9", bitfile=bit)
    with pytest.raises(DataError, match="the port 'x' is not a number"):
        open_board("127.0.0.1:x", bitfile=bit)
