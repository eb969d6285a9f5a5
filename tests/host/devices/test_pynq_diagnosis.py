"""What a newcomer to a board reads if pynq, its profile or root is missing; here with a stand-in for pynq."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bitlane import overlays
from bitlane.devices import open_device
from bitlane.errors import DeviceError

ROOT_SHELL = (
    r"use Jupyter on the board, or a root shell: sudo -i, then source /etc/profile\.d/pynq_venv\.sh and "
    r"source /etc/profile\.d/xrt_setup\.sh"
)


@pytest.fixture
def on_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / "pynq_board"
    name.write_bytes(b"Pynq-Z2\0")
    monkeypatch.setattr(overlays, "NAME_FILES", (name,))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "NAME_FILES", ())


def install(monkeypatch: pytest.MonkeyPatch, *devices: object) -> None:
    """Install a pynq that shows these devices."""
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(Device=SimpleNamespace(devices=[*devices])))


@pytest.mark.usefixtures("on_a_board")
@pytest.mark.parametrize("name", ["pynq", "auto"])
def test_a_python_without_pynq_on_a_board(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(DeviceError, match=rf"is a Pynq-Z2, but this Python has no pynq \(.+\): {ROOT_SHELL}"):
        open_device(name)


@pytest.mark.usefixtures("on_a_board")
@pytest.mark.parametrize("name", ["pynq", "auto"])
def test_a_shell_without_the_profile_of_xrt(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XILINX_XRT", raising=False)
    install(monkeypatch)
    reason = r"pynq shows no device, because this shell has not read XRT's profile \(XILINX_XRT is not set\)"
    with pytest.raises(DeviceError, match=f"this machine is a Pynq-Z2, but {reason}: {ROOT_SHELL}"):
        open_device(name)


@pytest.mark.usefixtures("on_a_board")
def test_a_board_without_an_fpga_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XILINX_XRT", "/usr")
    install(monkeypatch)
    with pytest.raises(DeviceError, match="is a Pynq-Z2, but pynq finds no FPGA manager: boot a PYNQ image"):
        open_device("pynq")


@pytest.mark.usefixtures("on_a_board")
@pytest.mark.parametrize("name", ["pynq", "auto"])
def test_a_user_who_is_not_root(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    install(monkeypatch, object())
    with pytest.raises(DeviceError, match=f"this machine is a Pynq-Z2, but pynq needs root: {ROOT_SHELL}"):
        open_device(name)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("installed", [True, False])
def test_a_machine_that_is_not_a_board(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    if installed:
        install(monkeypatch)
    else:
        monkeypatch.setitem(sys.modules, "pynq", None)
    message = r"this machine is not a PYNQ board; for a board on the network, pip install 'bitlane\[pynq-z7\]' .*"
    with pytest.raises(DeviceError, match=message + r"use device='pynq://HOST'$"):
        open_device("pynq")


@pytest.mark.usefixtures("elsewhere")
def test_a_board_on_the_network_needs_pynq_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(DeviceError, match=r"pynq://b\.local needs pynq on this machine too: pip install .*pynq-zu"):
        open_device("pynq://b.local")


@pytest.mark.usefixtures("on_a_board")
def test_a_pynq_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is any exception, for example of a numpy that is too new for it."""
    monkeypatch.delitem(sys.modules, "pynq", raising=False)
    (tmp_path / "pynq.py").write_text("raise AttributeError('`np.float_` was removed')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DeviceError, match=r"pynq: its import failed: `np\.float_` was removed"):
        open_device("pynq")
