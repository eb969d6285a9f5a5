"""The accelerator behind the memory ports of a chip, as a device: a Zynq-7000 or a Zynq UltraScale+."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.contract.cycles import MemoryTiming
from bitlane.errors import DeviceError
from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import build_verilog, fabric_verilog, two_ports_verilog
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


def build_two_ports(config: AcceleratorConfig) -> Path:
    """Build the simulator of `TwoPortAccelerator(config)`; returns and raises are those of `build_fabric`."""
    try:
        return build_verilog(two_ports_verilog(config), axi4_ports=2)
    except ImportError as error:
        raise DeviceError(toolchain.not_installed(error.name or "bitlane_hw")) from error


def build_ports(config: AcceleratorConfig) -> Path:
    """Build the simulator of a build behind the ports of its chip; returns and raises are those of `build_fabric`.

    Up to 128 bits: registers behind AXI3 GP0, and memory behind one or two AXI3 HP ports of a Zynq-7000. 256 bits:
    memory behind two AXI4 ports of a Zynq UltraScale+.
    """
    from bitlane_hw.zynq.two_ports import WIDTH

    return build_two_ports(config) if config.width == WIDTH else build_fabric(config)


def zynq_device(
    config: AcceleratorConfig, capacity_bytes: int = 128 << 20, timing: MemoryTiming | None = None
) -> RtlDevice:
    """Return a device behind the ports of its chip, as of `build_ports`."""
    return RtlDevice(config, capacity_bytes, timing, library=build_ports(config))
