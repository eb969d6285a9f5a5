"""Turn the netlist of a complete board into that of its fabric: the pins of the processing system become ports.

The harness of the simulator replaces the processing system: it drives GP0, the HP ports, clock and reset. Everything
else is unchanged, including the global buffer of the clock and the registers of the reset.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane_hw.zynq.axi3 import gp_signature, hp_signature
from bitlane_hw.zynq.ps7 import GP_MASTER, HP_SLAVE
from bitlane_hw.zynq.top import HP_PORTS
from bitlane_hw.zynq.top import TOP as BOARD_TOP
from bitlane_sim.rtl.build import FABRIC_TOP, cached, content_hash

from .mapping import modules_of

OPPOSITE = {"input": "output", "output": "input"}
PORTS = {
    f"{GP_MASTER}0": ("gp0", gp_signature()),
    **{f"{HP_SLAVE}{number}": (f"hp{i}", hp_signature()) for i, number in enumerate(HP_PORTS)},
}


def fabric(netlist: Path) -> tuple[Path, int]:
    """Write the netlist of a board with `bitlane_fabric` as its top module.

    Parameters
    ----------
    netlist : Path
        Yosys' JSON with the module `bitlane_zynq`.

    Returns
    -------
    (Path, int)
        The netlist with the module `bitlane_fabric`, and its number of HP ports.

    Raises
    ------
    DataError
        If the file is not such a netlist.
    """
    modules = modules_of(netlist, BOARD_TOP)
    board = modules[BOARD_TOP]
    hp_ports = expose(board)

    def make(directory: Path) -> None:
        (directory / "netlist.json").write_text(json.dumps({"modules": {FABRIC_TOP: board}}))

    name = content_hash([netlist.read_bytes(), Path(__file__).read_bytes()])
    return cached("fabric", name, make) / "netlist.json", hp_ports


def expose(board: dict[str, Any]) -> int:
    """Replace the PS7 in a module of Yosys' JSON by ports for its pins. Return the number of HP ports."""
    systems = [name for name, cell in board["cells"].items() if cell["type"] == "PS7"]
    if len(systems) != 1:
        raise DataError(f"the netlist has {len(systems)} cells of type PS7; it needs 1")
    system = board["cells"].pop(systems[0])
    pins, directions = system["connections"], system["port_directions"]
    ports = board["ports"]
    hp_ports = 0
    for prefix, (port, signature) in PORTS.items():
        members = {name: f"{prefix}{name.upper()}" for name in signature.members}
        connected = {name: pin for name, pin in members.items() if pin in pins}
        if not any(directions[pin] == "output" for pin in connected.values()):
            continue  # unused: none of its outputs is connected
        hp_ports += port.startswith("hp")
        for name, pin in connected.items():
            ports[f"{port}_{name}"] = {"direction": OPPOSITE[directions[pin]], "bits": pins[pin]}
    ports["clk"] = {"direction": "input", "bits": pins["FCLKCLK"][:1]}
    ports["irq"] = {"direction": "output", "bits": pins["IRQF2P"][:1]}
    reset = max(bit for net in board["netnames"].values() for bit in net["bits"] if isinstance(bit, int)) + 1
    ports["rst"] = {"direction": "input", "bits": [reset]}
    board["cells"]["reset_inverter"] = {
        "type": "INV",
        "parameters": {},
        "attributes": {},
        "port_directions": {"I": "input", "O": "output"},
        "connections": {"I": [reset], "O": pins["FCLKRESETN"][:1]},
    }
    for name in ports:  # a net may have the name of a new port
        board["netnames"].pop(name, None)
    return hp_ports
