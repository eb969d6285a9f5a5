"""The accelerator behind the AXI3 ports of a Zynq-7000, as a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.contract.cycles import MemoryTiming
from bitlane.errors import DeviceError
from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import build_verilog, fabric_verilog
from bitlane_sim.rtl.device import RtlDevice

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig


def build_fabric(config: AcceleratorConfig) -> Path:
    """Build the simulator of `ZynqFabric(config)`.

    Returns
    -------
    Path
        The shared library.

    Raises
    ------
    ValueError
        If the configuration does not fit the ports.
    DeviceError
        If a tool is missing or fails.
    """
    try:
        from bitlane_hw.zynq.fabric import hp_names

        hp_ports = len(hp_names(config))
        return build_verilog(fabric_verilog(config), hp_ports=hp_ports)
    except ImportError as error:
        raise DeviceError(toolchain.not_installed(error.name or "bitlane_hw")) from error


def zynq_device(
    config: AcceleratorConfig, capacity_bytes: int = 128 << 20, timing: MemoryTiming | None = None
) -> RtlDevice:
    """Return a device with its registers behind AXI3 GP0 and its memory behind one or two AXI3 HP ports."""
    return RtlDevice(config, capacity_bytes, timing, library=build_fabric(config))
