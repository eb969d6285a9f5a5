"""How the driver uses a board: memory on both sides, time, registers, and what pynq's users see."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pynq
import pytest

from bitlane import SGDRegressor
from bitlane.contract.geometry import Geometry
from bitlane.contract.registers import IDENTITY
from bitlane.devices.pynq.board import BoardDevice, open_board
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind, write_overlay
from bitlane_sim.virtual_board.uio import connect_interrupt
from bitlane_verify.benchmarks.throughput import random_job as job_of
from bitlane_verify.equivalence.random_jobs import random_job

pytestmark = pytest.mark.pynq

ACCESSES = 40  # that a run may take


def fit(device: BoardDevice, seed: int, rows: int = 200, epochs: int = 3) -> bytes:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 70))
    y = X @ rng.normal(size=70)
    options = {"bits": 4, "epochs": epochs, "learning_rate": 0.01, "random_state": seed}
    coefficients: bytes = SGDRegressor(**options, device=device).fit(X, y).coef_.tobytes()
    return coefficients


@pytest.mark.parametrize("what", ["flush", "invalidate"])
def test_a_side_of_memory_that_is_forgotten_shows(
    opener: Callable[[], BoardDevice], seed: int, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The board's two sides of a buffer are not one: without flush or invalidate no result is right."""
    right = fit(opener(), seed)
    monkeypatch.setattr(BoardDevice, what, lambda self, buffer: None)
    try:
        wrong = fit(opener(), seed)
    except (DeviceError, ValueError):
        return
    assert wrong != right


def test_few_registers_a_run(opener: Callable[[], BoardDevice], hardware: Hardware, kind: BoardKind, seed: int) -> None:
    """Whatever the run: one start, and no more accesses than promised; epochs are reported without any."""
    accelerator = Driver(opener())
    rng = np.random.default_rng(seed)
    for epochs in (1, 2, 20):
        job = random_job(rng, kind.config, features=100, rows=200, epochs=epochs)
        hardware.accesses.clear()
        reported: list[int] = []
        accelerator.run(job, lambda epoch, loss, seen=reported: seen.append(epoch))
        assert reported == list(range(job.epochs))
        assert len(hardware.accesses) <= ACCESSES, hardware.accesses


def test_little_time_outside_the_device(board: SimulatedBoard, bit: Path, hardware: Hardware) -> None:
    """Processor time of a run that is not the simulator's: under 5 % where a run is a second long."""
    device = open_board(bitfile=bit)
    assert hardware.rtl is not None
    geometry = Geometry(
        512, rows=3000, base_digits=1, draws=True, batch=64, rows_per_beat=hardware.kind.config.rows_per_beat
    )
    job = job_of(geometry, epochs=10, staleness=0)
    run, spent = hardware.rtl.run, 0.0

    def timed(cycles: int) -> int:
        nonlocal spent
        begin = time.process_time()
        passed = run(cycles)
        spent += time.process_time() - begin
        return passed

    hardware.rtl.run = timed  # type: ignore[method-assign]
    begin = time.process_time()
    Driver(device).run(job)
    whole = time.process_time() - begin
    assert spent > 0.2 and whole - spent < 0.05 * whole, (whole, spent)


def test_the_interrupt_ends_the_waiting(
    board: SimulatedBoard,
    kind: BoardKind,
    hardware: Hardware,
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through pynq's own interrupt code, run after run; sleeping the whole time would be noticed."""
    connect_interrupt(board)
    device = open_board(bitfile=write_overlay(kind, tmp_path, interrupt=True))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it sleeps"))
    results = [fit(device, seed, rows=50) for _ in range(3)]
    assert len(set(results)) == 1
    begin = time.monotonic()
    job = random_job(np.random.default_rng(seed), kind.config, features=64, rows=50, epochs=1)
    accelerator = Driver(device)
    accelerator._sleep = lambda report, expected: device.wait(1 << 40) or 0  # type: ignore[method-assign,func-returns-value]
    accelerator.run(job)
    assert time.monotonic() - begin < 60
    device.close()


def test_pynqs_users(board: SimulatedBoard, bit: Path) -> None:
    """An overlay as pynq's users know it: the driver is bound, registers have names and fields."""
    overlay = pynq.Overlay(str(bit))
    ip: Any = overlay.bitlane_0
    assert type(ip).__name__ == "BitlaneIP"
    assert int(ip.register_map.identity) == IDENTITY
    ip.register_map.mode.loss = 2
    ip.register_map.mode.base_digits = 3
    assert (int(ip.register_map.mode.loss), int(ip.register_map.mode.base_digits)) == (2, 3)
    assert BoardDevice(ip).read(0) == IDENTITY


def test_a_freed_buffer_is_refused(opener: Callable[[], BoardDevice]) -> None:
    device = opener()
    buffer = device.allocate(100)
    buffer.free()
    buffer.free()
    for use in (device.flush, device.invalidate):
        with pytest.raises(DeviceError, match="has been freed"):
            use(buffer)
