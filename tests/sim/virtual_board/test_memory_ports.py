"""The width of Zynq-7000's memory ports, which a boot loader may have left at 32 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

from bitlane.contract.config import AcceleratorConfig
from bitlane.devices.pynq.memory_ports import set_width
from bitlane.errors import DeviceError
from bitlane_hw.zynq.top import HP_PORTS
from bitlane_sim.virtual_board.board import Hardware, SimulatedBoard
from bitlane_sim.virtual_board.boards import PYNQ_Z2, ZCU104, BoardKind, write_overlay

pytestmark = pytest.mark.pynq

CONTROLS = [0xF800_8000 + 0x1000 * port + channel for port in range(4) for channel in (0x00, 0x14)]


def parameters(kind: BoardKind, folder: Path) -> dict[str, str]:
    """Those of the processing system in a handoff, as pynq reads them."""
    found = RuntimeMetadataParser(Metadata(input=write_overlay(kind, folder).with_suffix(".hwh")))
    read: dict[str, str] = found.ip_dict[found.ps_name]["parameters"]
    return read


@pytest.mark.parametrize("width", [64, 128])
def test_only_the_ports_of_the_overlay_become_wide(width: int, tmp_path: Path) -> None:
    """These are the ports that the design uses."""
    ports = HP_PORTS[: width // 64]
    kind = BoardKind(**{**vars(PYNQ_Z2), "config": AcceleratorConfig(width, address_bits=32)})
    hardware = Hardware(kind)
    assert hardware.narrow_ports() == [*ports]
    set_width(parameters(kind, tmp_path), SimulatedBoard(hardware))
    assert not hardware.narrow_ports()
    assert [hardware.read(address) for address in CONTROLS] == [
        0xF00 + (port not in ports) for port in range(4) for _ in range(2)
    ]


def test_a_port_of_32_bits_becomes_narrow(tmp_path: Path) -> None:
    """As the handoff of another tool may say."""
    hardware = Hardware(PYNQ_Z2)
    read = parameters(PYNQ_Z2, tmp_path)
    board = SimulatedBoard(hardware)
    set_width(read, board)
    set_width({**read, "PCW_S_AXI_HP2_DATA_WIDTH": "32"}, board)
    assert hardware.narrow_ports() == [2]


@pytest.mark.parametrize(("address", "channel"), [(0xF800_A000, "read"), (0xF800_A014, "write")])
def test_a_port_that_stays_narrow(address: int, channel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = Hardware(PYNQ_Z2)
    write = hardware.write
    monkeypatch.setattr(hardware, "write", lambda at, value: at == address or write(at, value))
    with pytest.raises(DeviceError, match=f"HP2 cannot be set to 64 bits on its {channel} channel: restart the board"):
        set_width(parameters(PYNQ_Z2, tmp_path), SimulatedBoard(hardware))


def test_ultrascale_ports_are_left_to_pynq(tmp_path: Path) -> None:
    hardware = Hardware(ZCU104)
    set_width(parameters(ZCU104, tmp_path), SimulatedBoard(hardware))
    assert not hardware.accesses
