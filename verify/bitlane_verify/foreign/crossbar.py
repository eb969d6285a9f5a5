"""Two cores and a host that share two memories: the crossbar and the memories are those of verilog-axi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.export.verilog import to_verilog
from bitlane_hw.memory.axi import AXI4, AXI4Lite
from bitlane_sim.rtl.build import TOP as ACCELERATOR
from bitlane_sim.rtl.build import verilog

from .layout import BASE_ADDRESS, BUILD, CORES, MEMORIES, MEMORY_BYTES, STRIPE_BITS, STRIPES
from .sources import VERILOG_AXI

TOP = "shared_memories"
MASTERS = CORES + 1
ID_BITS = 1
CROSSBAR_ID_BITS = ID_BITS + (MASTERS - 1).bit_length()  # the crossbar adds the number of the master
REGISTERS, PORT = AXI4Lite(ADDRESS_BITS), AXI4(BUILD.address_bits, BUILD.width)
IDS = ("awid", "bid", "arid", "rid")
# Signals of verilog-axi that our ports do not have, by the bits of one master.
ABSENT = {"lock": 1, "cache": 4, "prot": 3, "qos": 4, "user": 1}


def _is_driven_by_master(signature: wiring.Signature, name: str) -> bool:
    return bool(signature.members[name].flow is Out)


def _observed(signature: wiring.Signature) -> wiring.Signature:
    """Return a signature with all signals as outputs."""
    return wiring.Signature({name: Out(member.shape) for name, member in signature.members.items()})


class SharedMemories(wiring.Component):  # type: ignore[misc]
    """Two cores of `BUILD` and a host at a crossbar, with two memories behind it.

    Members
    -------
    host : AXI4, in
        Reaches all memory.
    core0, core1 : AXI4Lite, in
        The registers of each core.
    port0, port1 : signals of AXI4, out
        The memory port of each core, for monitors.
    irq0, irq1 : 1 bit, out
        The interrupt of each core.
    """

    def __init__(self) -> None:
        cores = range(CORES)
        super().__init__(
            {
                "host": In(PORT),
                **{f"core{i}": In(REGISTERS) for i in cores},
                **{f"port{i}": Out(_observed(PORT)) for i in cores},
                **{f"irq{i}": Out(1) for i in cores},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Instantiate the exported core, and what others have written."""
        m = Module()
        ports = [getattr(self, f"port{i}") for i in range(CORES)]
        for i, port in enumerate(ports):
            m.submodules[f"core_{i}"] = self._core(getattr(self, f"core{i}"), port, getattr(self, f"irq{i}"))
        memories = [self._memory_wires(i) for i in range(MEMORIES)]
        masters = [{name: getattr(port, name) for name in PORT.members} for port in (*ports, self.host)]
        # Before the first reset the pins may have any value, and the crossbar does not reset all registers.
        was_reset = Signal(reset_less=True)
        with m.If(ResetSignal()):
            m.d.sync += was_reset.eq(1)
        for name in ("awvalid", "wvalid", "arvalid"):
            masters[CORES][name] = getattr(self.host, name) & was_reset
        m.submodules.crossbar = self._crossbar(masters, memories)
        for i, wires in enumerate(memories):
            m.submodules[f"memory_{i}"] = self._memory(wires)
        return m

    def _core(self, registers: Any, port: Any, irq: Signal) -> Instance:
        slave = {
            f"{'i' if _is_driven_by_master(REGISTERS, name) else 'o'}_s_axi_{name}": getattr(registers, name)
            for name in REGISTERS.members
        }
        master = {
            f"{'o' if _is_driven_by_master(PORT, name) else 'i'}_m_axi_{name}": getattr(port, name)
            for name in PORT.members
        }
        return Instance(ACCELERATOR, i_clk=ClockSignal(), i_rst=ResetSignal(), o_irq=irq, **slave, **master)

    def _memory_wires(self, number: int) -> dict[str, Signal]:
        """Return the signals of a port of the crossbar."""
        shapes = {name: member.shape for name, member in PORT.members.items()} | dict.fromkeys(IDS, CROSSBAR_ID_BITS)
        return {name: Signal(shape, name=f"memory{number}_{name}") for name, shape in shapes.items()}

    def _crossbar(self, masters: list[dict[str, Any]], memories: list[dict[str, Signal]]) -> Instance:
        """Return the crossbar; memory m has every second stripe of the addresses."""
        stripes = [
            BASE_ADDRESS + (MEMORIES * stripe + memory << STRIPE_BITS)
            for memory in range(MEMORIES)
            for stripe in range(STRIPES)
        ]
        connected = {}
        for name in PORT.members:
            down = _is_driven_by_master(PORT, name)
            connected[f"{'i' if down else 'o'}_s_axi_{name}"] = Cat(master[name] for master in masters)
            connected[f"{'o' if down else 'i'}_m_axi_{name}"] = Cat(memory[name] for memory in memories)
        for channel in ("aw", "ar"):
            for name, bits in ABSENT.items():
                connected[f"i_s_axi_{channel}{name}"] = Const(0, bits * MASTERS)
        return Instance(
            "axi_crossbar",
            p_S_COUNT=MASTERS,
            p_M_COUNT=MEMORIES,
            p_DATA_WIDTH=BUILD.width,
            p_ADDR_WIDTH=BUILD.address_bits,
            p_S_ID_WIDTH=ID_BITS,
            p_M_REGIONS=STRIPES,
            p_M_BASE_ADDR=_packed(stripes),
            p_M_ADDR_WIDTH=_packed([STRIPE_BITS] * len(stripes)),
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            i_s_axi_wuser=Const(0, MASTERS),
            i_m_axi_buser=Const(0, MEMORIES),
            i_m_axi_ruser=Const(0, MEMORIES),
            **connected,
        )

    def _memory(self, wires: dict[str, Signal]) -> Instance:
        """Return a memory that sees the lower bits of the addresses; it uses every second stripe of itself."""
        connected = {
            f"{'i' if _is_driven_by_master(PORT, name) else 'o'}_s_axi_{name}": wire for name, wire in wires.items()
        }
        address_bits = (MEMORY_BYTES - 1).bit_length()
        for name in ("awaddr", "araddr"):
            connected[f"i_s_axi_{name}"] = wires[name][:address_bits]
        for channel in ("aw", "ar"):
            for name in ("lock", "cache", "prot"):
                connected[f"i_s_axi_{channel}{name}"] = Const(0, ABSENT[name])
        return Instance(
            "axi_ram",
            p_DATA_WIDTH=BUILD.width,
            p_ADDR_WIDTH=address_bits,
            p_ID_WIDTH=CROSSBAR_ID_BITS,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            **connected,
        )


def _packed(values: list[int]) -> Const:
    """Return 32-bit values side by side, the first one in the lowest bits."""
    return Const(sum(value << 32 * i for i, value in enumerate(values)), 32 * len(values))


def generate(path: Path) -> None:
    """Write everything as one Verilog file, top module `TOP`.

    Raises
    ------
    DataError
        A file of verilog-axi cannot be downloaded, or is not the expected one.
    """
    foreign = VERILOG_AXI.text()
    path.write_text("\n".join((to_verilog(SharedMemories(), TOP), verilog(BUILD).read_text(), foreign)))
