"""Boards, simulated. These tests run in separate environments (`make pynq`), because pynq needs an older numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("pynq") is not None:
    import pynq
    from pynq.pl_server import global_state

    from bitlane.devices.pynq import remote as pynq_remote
    from bitlane.devices.pynq.board import BoardDevice, open_board
    from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
    from bitlane_sim.virtual_board.boards import PYNQ_Z2, ZCU104, BoardKind, write_overlay
    from bitlane_sim.virtual_board.server import Server
    from bitlane_verify.equivalence.random_jobs import SMALL

    @pytest.fixture
    def kind() -> BoardKind:
        """The board that this pynq is for: 4.0 has left Zynq-7000 behind. With hardware that other tests build too."""
        return replace(PYNQ_Z2 if pynq.__version__.startswith("3.") else ZCU104, config=SMALL)

    @pytest.fixture
    def hardware(kind: BoardKind) -> Hardware:
        return Hardware(kind)

    @pytest.fixture
    def board(hardware: Hardware, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedBoard:
        """The board that this process runs on, as pynq believes. pynq's record of what is loaded begins empty."""
        monkeypatch.setattr(global_state, "STATE_DIR", str(tmp_path))
        monkeypatch.setattr(global_state, "initial_global_state_file_boot_check", lambda: None)
        board = SimulatedBoard(hardware)
        monkeypatch.setattr(pynq.Device, "_active_device", board, raising=False)
        monkeypatch.setattr(pynq.Device, "_devices", [board], raising=False)
        monkeypatch.delattr(pynq.Clocks, "_real_instance", raising=False)
        return board

    @pytest.fixture
    def bit(kind: BoardKind, tmp_path: Path) -> Path:
        return write_overlay(kind, tmp_path)

    @pytest.fixture
    def server(hardware: Hardware, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
        """The board on the network. A call may take the simulator long, which no board would."""
        monkeypatch.setattr(pynq_remote, "CALL_SECONDS", 120.0)
        monkeypatch.delattr(pynq.Clocks, "_real_instance", raising=False)
        with Server(hardware) as server:
            yield server

    @pytest.fixture(params=["here", "remote"])
    def opener(request: pytest.FixtureRequest, bit: Path) -> Callable[[], BoardDevice]:
        """Opens the board, the one this runs on or one on the network."""
        if request.param == "here":
            request.getfixturevalue("board")
            return lambda: open_board(bitfile=bit)
        port = request.getfixturevalue("server").port
        return lambda: open_board(f"127.0.0.1:{port}", bitfile=bit)
