"""A process was killed within a run, which goes on: the next process ends it before it loads an overlay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pynq
import pytest
from pynq.pl_server import global_state

from bitlane.contract.geometry import Geometry
from bitlane.contract.registers import CONTROL_ABORT, REGISTERS, STATUS_BUSY
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.pynq.board import BoardDevice, open_board
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind, write_overlay
from bitlane_verify.benchmarks.throughput import random_job as timed_job
from bitlane_verify.equivalence.random_jobs import random_job

pytestmark = pytest.mark.pynq

IDENTITY, CONTROL, STATUS = (REGISTERS[name].offset for name in ("identity", "control", "status"))
SLOW = Disturbance(read_rate=0.01)  # no run of these tests ends by itself
STUCK = Disturbance(stall_ar=1 - 2**-32)


class Killed(BaseException):
    """The end of a process, in this one."""


def die(*_: object) -> None:
    raise Killed


def leave_a_run(bit: Path, hardware: Hardware) -> None:
    """Start a long run as a process that is killed while it waits: it neither aborts the run nor frees a buffer."""
    device = open_board(bitfile=bit)
    assert hardware.rtl is not None
    hardware.rtl.disturb(SLOW)
    geometry = Geometry(64, 2000, base_digits=1, draws=True, batch=64, rows_per_beat=hardware.kind.config.rows_per_beat)
    write = BoardDevice.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoardDevice, "wait", die)
        patch.setattr(BoardDevice, "give_back", lambda *_: None)
        patch.setattr(
            BoardDevice,
            "write",
            lambda self, offset, value: (offset, value) == (CONTROL, CONTROL_ABORT) or write(self, offset, value),
        )
        with pytest.raises(Killed):
            Driver(device, timeout=0.01).run(timed_job(geometry, epochs=50, staleness=0))
    assert hardware.rtl.read(STATUS) & STATUS_BUSY


@pytest.fixture
def slow_bit(kind: BoardKind, tmp_path: Path) -> Path:
    """An overlay with a clock of 1 MHz or so, so that the simulator keeps pace."""
    return write_overlay(kind, tmp_path, divisors=(50, 20))


@pytest.fixture
def next_process(board: SimulatedBoard, slow_bit: Path, hardware: Hardware) -> None:
    """The board as pynq knows it in the process after the one that was killed."""
    leave_a_run(slow_bit, hardware)
    pynq.Device.active_device = SimulatedBoard(hardware, "simulated1")
    hardware.accesses.clear()


@pytest.mark.usefixtures("next_process")
def test_the_run_ends_before_the_next_overlay_is_loaded(hardware: Hardware, slow_bit: Path, seed: int) -> None:
    device = open_board(bitfile=slow_bit)
    assert hardware.accesses[:2] == [("read", IDENTITY), ("write", CONTROL)]
    job = random_job(np.random.default_rng(seed), hardware.kind.config, features=100, rows=50)
    expected = Driver(EmulatorDevice(hardware.kind.config)).run(job)
    got = Driver(device).run(job)
    assert np.array_equal(got.state.master, expected.state.master)


@pytest.mark.usefixtures("next_process")
def test_a_run_that_does_not_end(hardware: Hardware, slow_bit: Path) -> None:
    assert hardware.rtl is not None
    hardware.rtl.disturb(STUCK)
    with pytest.raises(DeviceError, match="of another process on the accelerator does not end: restart the board"):
        open_board(bitfile=slow_bit)
    hardware.rtl.disturb(Disturbance())
    open_board(bitfile=slow_bit)


@pytest.mark.usefixtures("next_process")
@pytest.mark.parametrize("lost", ["record", "bit", "hwh", "content"])
def test_an_address_is_read_only_if_the_accelerator_is_there(
    hardware: Hardware, kind: BoardKind, slow_bit: Path, tmp_path: Path, lost: str
) -> None:
    """Without the record or its files nothing is known of the fabric. The simulated board shows what is lost then."""
    other = tmp_path / "other"
    other.mkdir()
    fresh = write_overlay(kind, other)
    if lost == "record":
        global_state.clear_global_state()
    elif lost == "content":
        slow_bit.write_bytes(slow_bit.read_bytes() + b"    ")
    else:
        slow_bit.with_suffix(f".{lost}").unlink()
    with pytest.raises(DeviceError, match="a bitstream is loaded within a run"):
        open_board(bitfile=fresh)
    assert not hardware.accesses


def test_an_idle_accelerator_stays_idle(board: SimulatedBoard, bit: Path, hardware: Hardware) -> None:
    for _ in range(3):
        open_board(bitfile=bit)
    assert hardware.rtl is not None and not hardware.rtl.read(STATUS)
