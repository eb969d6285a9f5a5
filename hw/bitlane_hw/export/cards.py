"""Accelerator cards for which a kernel is linked: the options of the linker of Vitis, and the facts for the driver.

UNTESTED in Vitis and on cards. Sources: UG1393 (options of `v++`: `platform`, `kernel_frequency`, `[connectivity]` with
`nk`, `slr` and `sp`), DS965 (U50) and DS963 (U280) for their HBM: 8 GiB in 32 pseudo channels, beside SLR0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import VERSION

CHANNELS = 32  # pseudo channels of the HBM of each card
SWITCH_CHANNELS = 4  # pseudo channels behind one switch of the HBM: others take a longer way (PG276, "AXI switch")


@dataclass(frozen=True)
class Card:
    """A card with HBM.

    Parameters
    ----------
    platform : str
        Platform of Vitis, as it is named in the folder of platforms.
    clock_mhz : int
        Clock of the kernel that the linker aims at.
    """

    platform: str
    clock_mhz: int = 300


CARDS = {
    "u50": Card("xilinx_u50_gen3x16_xdma_5_202210_1"),
    "u280": Card("xilinx_u280_gen3x16_xdma_1_202211_1"),
}


def link_cfg(name: str, kernel: str, memory_ports: Sequence[str]) -> str:
    """Return the configuration of `v++ --link`: one instance of a kernel, each memory port at channels of its own.

    Up to 8 ports have a switch each; 16 ports have half a switch.

    Parameters
    ----------
    name : str
        The card, one of `CARDS`.
    kernel : str
    memory_ports : sequence of str
        Names of the memory ports of the kernel.
    """
    card, instance = CARDS[name], f"{kernel}_1"
    each = min(SWITCH_CHANNELS, CHANNELS // len(memory_ports))
    return "\n".join(
        [
            "# Made by bitlane_hw.export; do not edit. UNTESTED in Vitis.",
            f"# v++ --link --target hw --config link.cfg --output {kernel}.xclbin {kernel}.xo",
            f"platform={card.platform}",
            f"kernel_frequency={card.clock_mhz}",
            "",
            "[connectivity]",
            f"nk={kernel}:1:{instance}",
            f"slr={instance}:SLR0",
            *(f"sp={instance}.{port}:HBM[{k * each}:{k * each + each - 1}]" for k, port in enumerate(memory_ports)),
            "",
        ]
    )


def facts(name: str, kernel: str, config: AcceleratorConfig, build: int) -> str:
    """Return JSON that the driver compares with the registers: it lies beside the .xclbin, with the same name."""
    values = {
        "kernel": kernel,
        "card": name,
        "clock_mhz": CARDS[name].clock_mhz,
        "version": VERSION,
        "build": build,
        "port_bits": config.width,
        "outputs": config.outputs,
        "shards": config.shards,
        "ports": config.ports,
    }
    return json.dumps(values, indent=1) + "\n"
