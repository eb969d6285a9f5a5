"""The width of the memory ports of a Zynq-7000, which only software can set."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

from typing import Any

import pynq

from bitlane.errors import DeviceError

PORTS = 4  # S_AXI_HP0 to 3
AFI, AFI_BYTES = 0xF800_8000, 0x1000  # registers of the interface behind a port: UG585, appendix B
CONTROLS = {"read": 0x00, "write": 0x14}  # AFI_RDCHAN_CTRL and AFI_WRCHAN_CTRL
NARROW = 1 << 0  # 32BitEn: the channel is 32 bits wide, not 64


def set_width(parameters: dict[str, str], board: Any) -> None:
    """Make each memory port that an overlay takes as wide as its handoff says.

    After a reset the ports have 64 bits, but a boot loader may have left 32: then data would be wrong. pynq sets the
    ports of UltraScale+ only.

    Parameters
    ----------
    parameters : dict of str
        Those of the processing system in the handoff: PCW_USE_S_AXI_HP0 and PCW_S_AXI_HP0_DATA_WIDTH to 3.
    board : pynq.Device

    Raises
    ------
    DeviceError
        A port keeps another width.
    """
    for port in range(PORTS):
        if parameters.get(f"PCW_USE_S_AXI_HP{port}") != "1":
            continue
        width = int(parameters[f"PCW_S_AXI_HP{port}_DATA_WIDTH"])
        for channel, offset in CONTROLS.items():
            control = pynq.MMIO(AFI + AFI_BYTES * port + offset, 4, device=board)
            wanted = int(control.read(0)) & ~NARROW | NARROW * (width == 32)
            control.write(0, wanted)
            if (int(control.read(0)) ^ wanted) & NARROW:
                raise DeviceError(
                    f"memory port HP{port} cannot be set to {width} bits on its {channel} channel: restart the board"
                )
