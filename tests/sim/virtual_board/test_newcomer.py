"""Ten failures of a board's first hour: each is one sentence with its remedy, and the guide lists it.

`tests/host/devices/test_pynq_diagnosis.py` has those before pynq runs, with more cases.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pynq
import pytest
from tests.helpers.places import ROOT

from bitlane import overlays
from bitlane.contract.registers import REGISTERS
from bitlane.devices.pynq.board import open_board
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane_hw.build_digest import build_digest
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind, write_overlay
from bitlane_verify.equivalence.random_jobs import random_job

pytestmark = pytest.mark.pynq

GUIDE = ROOT / "docs" / "guides" / "board.md"
Patch = pytest.MonkeyPatch


def not_root(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    open_board()


def no_profile(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    monkeypatch.delattr(pynq.Device, "_active_device")
    monkeypatch.setattr(pynq.Device, "_devices", [])
    monkeypatch.delenv("XILINX_XRT", raising=False)
    open_board()


def no_pynq(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", None)
    open_board()


def another_boards_overlay(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    open_board(bitfile=write_overlay(replace(board.hardware.kind, name="Arty"), bit.parent))


def a_clock_that_stands(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    read = Hardware.read
    offset = board.hardware.kind.system.base + REGISTERS["identity"].offset
    monkeypatch.setattr(Hardware, "read", lambda self, address: 0 if address == offset else read(self, address))
    open_board(bitfile=bit)


def another_build(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    kind = board.hardware.kind
    open_board(bitfile=write_overlay(kind, bit.parent, build=build_digest(kind.config) ^ 1))


def memory_that_hangs(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    kind = board.hardware.kind
    device = open_board(bitfile=write_overlay(kind, bit.parent, divisors=(50, 20)))
    board.hardware.rtl.disturb(Disturbance(stall_ar=1 - 2**-32))  # type: ignore[union-attr]
    Driver(device, timeout=0.05).run(random_job(np.random.default_rng(0), kind.config, features=40, rows=50))


def no_contiguous_memory(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    open_board(bitfile=bit).allocate(1 << 40)


def a_damaged_handoff(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    handoff = bit.with_suffix(".hwh")
    handoff.write_text(handoff.read_text()[:-100])
    open_board(bitfile=bit)


def a_missing_handoff(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    bit.with_suffix(".hwh").unlink()
    open_board(bitfile=bit)


def a_handoff_of_something_else(board: SimulatedBoard, bit: Path, monkeypatch: Patch) -> None:
    bit.with_suffix(".hwh").write_text("<page/>")
    open_board(bitfile=bit)


SCENES = [
    not_root,
    no_profile,
    no_pynq,
    another_boards_overlay,
    a_clock_that_stands,
    another_build,
    memory_that_hangs,
    no_contiguous_memory,
    a_damaged_handoff,
    a_missing_handoff,
    a_handoff_of_something_else,
]


def listed() -> list[str]:
    """The messages in the guide's table, with regular expressions for what differs from case to case."""
    rows = re.findall(r"^\| `([^`]+)` \|", GUIDE.read_text(), re.MULTILINE)
    return [re.escape(row).replace(r"\.\.\.", ".+") for row in rows]


@pytest.fixture
def here(board: SimulatedBoard, kind: BoardKind, tmp_path: Path, monkeypatch: Patch) -> None:
    """Make this machine a board whose user is root."""
    name = tmp_path / "pynq_board"
    name.write_bytes(kind.name.encode() + b"\0")
    monkeypatch.setattr(overlays, "NAME_FILES", (name,))
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_failure_is_one_sentence_that_the_guide_lists(
    board: SimulatedBoard, bit: Path, monkeypatch: Patch, scene: Callable[[SimulatedBoard, Path, Patch], None]
) -> None:
    with pytest.raises(DeviceError) as caught:
        scene(board, bit, monkeypatch)
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert len([row for row in listed() if re.search(row, message)]) == 1, message


def test_the_guide_lists_no_other_failures() -> None:
    """But those of an earlier run, which `test_earlier_run.py` makes, and of pip."""
    assert len(listed()) == len(SCENES) + 2
