"""The accelerator behind a Zynq-7000's AXI3 ports, as a device."""

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
    """The simulator of `ZynqFabric(config)`.

    Raises ValueError for a configuration that does not fit, DeviceError where a tool is missing or fails.
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
    """A device whose registers are behind AXI3 GP0 and whose memory is behind one or two AXI3 HP ports."""
    return RtlDevice(config, capacity_bytes, timing, library=build_fabric(config))
