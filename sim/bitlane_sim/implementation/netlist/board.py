"""The netlist of a whole board as that of its fabric: the pins of the processing system become ports.

The simulator's harness is the processing system then: it drives GP0 and the HP ports, clock and reset. What is
between them stays as it is, the global buffer of the clock and the registers of the reset included.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane_hw.zynq.axi3 import gp_signature, hp_signature
from bitlane_hw.zynq.ps7 import GP_MASTER, HP_SLAVE
from bitlane_hw.zynq.top import TOP as BOARD_TOP
from bitlane_sim.rtl.build import FABRIC_TOP, cached, content_hash

from .mapping import modules_of

OPPOSITE = {"input": "output", "output": "input"}
PORTS = {
    f"{GP_MASTER}0": ("gp0", gp_signature()),
    f"{HP_SLAVE}0": ("hp0", hp_signature()),
    f"{HP_SLAVE}1": ("hp1", hp_signature()),
}


def fabric(netlist: Path) -> tuple[Path, int]:
    """A netlist with the module `bitlane_fabric` of one, in Yosys' JSON, with `bitlane_zynq`; and its HP ports.

    Raises DataError for a file that is no such netlist.
    """
    modules = modules_of(netlist, BOARD_TOP)
    board = modules[BOARD_TOP]
    hp_ports = expose(board)

    def make(directory: Path) -> None:
        (directory / "netlist.json").write_text(json.dumps({"modules": {FABRIC_TOP: board}}))

    name = content_hash([netlist.read_bytes(), Path(__file__).read_bytes()])
    return cached("fabric", name, make) / "netlist.json", hp_ports


def expose(board: dict[str, Any]) -> int:
    """Take the PS7 out of a module of Yosys' JSON and give the module its pins as ports; the number of HP ports."""
    found = [name for name, cell in board["cells"].items() if cell["type"] == "PS7"]
    if len(found) != 1:
        raise DataError(f"the netlist has {len(found)} PS7, and should have one")
    system = board["cells"].pop(found[0])
    pins, directions = system["connections"], system["port_directions"]
    ports = board["ports"]
    hp_ports = 0
    for prefix, (port, signature) in PORTS.items():
        members = {name: f"{prefix}{name.upper()}" for name in signature.members}
        connected = {name: pin for name, pin in members.items() if pin in pins}
        if not any(directions[pin] == "output" for pin in connected.values()):
            continue  # nothing reads what it says: its inputs are tied low
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
    for name in ports:  # a net inside may have the name of what is now a port
        board["netnames"].pop(name, None)
    return hp_ports
