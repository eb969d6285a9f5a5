"""Write the hardware handoff (HWH) that pynq reads beside a bitstream, from the register table and a configuration.

It has the elements that pynq's parser needs: the processing system with its PL clocks, the accelerator at its address
with all registers and fields, and, if an overlay has one, the AXI interrupt controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree as xml

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV, Register, absent_registers
from bitlane_hw.zynq.axi3 import HP_DATA_BITS
from bitlane_hw.zynq.top import HP_PORTS

INSTANCE = "bitlane_0"
AXIMM = "xilinx.com:interface:aximm:1.0"
CLOCKS = 4  # PL clocks of both processing systems
RANGE = 0x10000  # bytes of address space of an IP


@dataclass(frozen=True)
class System:
    """The names of a processing system in its handoff.

    Parameters
    ----------
    module, vlnv : str
        Its IP.
    master, interrupt : str
        Its port to the registers, and its interrupt input.
    enable, divisor, frequency : str
        Names of the parameters of PL clock `i`, with divisor `d`.
    source : (str, str)
        Name and value of the parameter for the source of PL clock `i`.
    base, controller : int
        Addresses of the accelerator and of the interrupt controller.
    memory_ports : tuple of int
        Numbers of the S_AXI_HP ports of 64 bits that the accelerator takes, as many as its width needs. Empty if it has
        one port of its own width.
    """

    module: str
    vlnv: str
    master: str
    interrupt: str
    enable: str
    divisor: str
    source: tuple[str, str]
    frequency: str
    base: int
    controller: int
    memory_ports: tuple[int, ...] = ()


ZYNQ = System(
    module="processing_system7",
    vlnv="xilinx.com:ip:processing_system7:5.5",
    master="M_AXI_GP0",
    interrupt="IRQ_F2P",
    enable="PCW_FPGA_FCLK{i}_ENABLE",
    divisor="PCW_FCLK{i}_PERIPHERAL_DIVISOR{d}",
    source=("PCW_FCLK{i}_PERIPHERAL_CLKSRC", "IO PLL"),
    frequency="PCW_ACT_FPGA{i}_PERIPHERAL_FREQMHZ",
    base=0x43C0_0000,
    controller=0x4180_0000,
    memory_ports=HP_PORTS,
)
ZYNQ_ULTRASCALE = System(
    module="zynq_ultra_ps_e",
    vlnv="xilinx.com:ip:zynq_ultra_ps_e:3.5",
    master="M_AXI_HPM0_FPD",
    interrupt="pl_ps_irq0",
    enable="PSU__FPGA_PL{i}_ENABLE",
    divisor="PSU__CRL_APB__PL{i}_REF_CTRL__DIVISOR{d}",
    source=("PSU__CRL_APB__PL{i}_REF_CTRL__SRCSEL", "IOPLL"),
    frequency="PSU__CRL_APB__PL{i}_REF_CTRL__ACT_FREQMHZ",
    base=0xA000_0000,
    controller=0xA080_0000,
)


def hwh(
    system: System,
    config: AcceleratorConfig,
    board: str,
    divisors: tuple[int, int],
    clock_mhz: float,
    build: int,
    interrupt: bool = False,
) -> str:
    """Return the XML of the handoff.

    Parameters
    ----------
    system : System
        `ZYNQ` or `ZYNQ_ULTRASCALE`.
    config : AcceleratorConfig
        The accelerator.
    board : str
        Name in pynq, such as "Pynq-Z2"; the driver refuses the overlay on other boards.
    divisors : (int, int)
        Divisors of the PLL for PL clock 0, the only clock of the accelerator. The other PL clocks are off.
    clock_mhz : float
        The resulting clock.
    build : int
        Value of the build register.
    interrupt : bool
        Whether irq is connected to an AXI interrupt controller; otherwise the driver polls.

    Returns
    -------
    str
    """
    root = xml.Element("EDKSYSTEM", EDWVERSION="1.2", VIVADOVERSION="0")
    xml.SubElement(root, "SYSTEMINFO", NAME="bitlane", BOARD=board)
    xml.SubElement(root, "EXTERNALPORTS")
    xml.SubElement(root, "EXTERNALINTERFACES")
    modules = xml.SubElement(root, "MODULES")
    parameters = _clocks(system, divisors, clock_mhz) | _memory_ports(system, config)
    processor = _module(modules, "ps_0", system.module, system.vlnv, parameters)
    _interface(processor, system.master, "MASTER")
    memory = xml.SubElement(processor, "MEMORYMAP")
    _range(memory, system, INSTANCE, "s_axi", system.base)

    facts = {
        "BOARD": board,
        "BUILD": build,
        "WIDTH": config.width,
        "OUTPUTS": config.outputs,
        "CLOCK_MHZ": clock_mhz,
    }
    accelerator = _module(modules, INSTANCE, "bitlane_accelerator", VLNV, facts)
    _interface(accelerator, "s_axi", "SLAVE")
    blocks = xml.SubElement(accelerator, "ADDRESSBLOCKS")
    block = xml.SubElement(blocks, "ADDRESSBLOCK", INTERFACE="s_axi", NAME="reg0", USAGE="register")
    registers = xml.SubElement(block, "REGISTERS")
    absent = absent_registers(True, True, 1, config.shards, config.ports)
    for register in REGISTERS.values():
        if register.name not in absent:
            for word in range(register.words):
                _register(registers, register, word)
    if interrupt:
        controller = _module(modules, "axi_intc_0", "axi_intc", "xilinx.com:ip:axi_intc:4.1", {})
        _interface(controller, "s_axi", "SLAVE")
        _range(memory, system, "axi_intc_0", "s_axi", system.controller)
        _wire(controller, "irq", "O", processor, system.interrupt)
        _wire(accelerator, "irq", "O", controller, "intr")
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clocks(system: System, divisors: tuple[int, int], clock_mhz: float) -> dict[str, object]:
    parameters: dict[str, object] = {}
    source, pll = system.source
    for i in range(CLOCKS):
        parameters[system.enable.format(i=i)] = int(i == 0)
        parameters[source.format(i=i)] = pll
        parameters[system.frequency.format(i=i)] = clock_mhz
        for d, divisor in enumerate(divisors):
            parameters[system.divisor.format(i=i, d=d)] = divisor
    return parameters


def _memory_ports(system: System, config: AcceleratorConfig) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for port in system.memory_ports[: config.width // HP_DATA_BITS]:
        parameters |= {f"PCW_USE_S_AXI_HP{port}": 1, f"PCW_S_AXI_HP{port}_DATA_WIDTH": HP_DATA_BITS}
    return parameters


def _module(parent: xml.Element, name: str, kind: str, vlnv: str, parameters: dict[str, object]) -> xml.Element:
    module = xml.SubElement(parent, "MODULE", FULLNAME=f"/{name}", INSTANCE=name, MODTYPE=kind, VLNV=vlnv)
    block = xml.SubElement(module, "PARAMETERS")
    for key, value in parameters.items():
        xml.SubElement(block, "PARAMETER", NAME=key, VALUE=str(value))
    xml.SubElement(module, "PORTS")
    xml.SubElement(module, "BUSINTERFACES")
    return module


def _child(module: xml.Element, name: str) -> xml.Element:
    child = module.find(name)
    assert child is not None
    return child


def _interface(module: xml.Element, name: str, kind: str) -> None:
    xml.SubElement(_child(module, "BUSINTERFACES"), "BUSINTERFACE", NAME=name, TYPE=kind, VLNV=AXIMM)


def _range(memory: xml.Element, system: System, instance: str, interface: str, base: int) -> None:
    xml.SubElement(
        memory,
        "MEMRANGE",
        ADDRESSBLOCK="reg0",
        BASEVALUE=f"0x{base:08X}",
        HIGHVALUE=f"0x{base + RANGE - 1:08X}",
        INSTANCE=instance,
        MASTERBUSINTERFACE=system.master,
        MEMTYPE="REGISTER",
        SLAVEBUSINTERFACE=interface,
    )


def _wire(source: xml.Element, port: str, direction: str, target: xml.Element, other: str) -> None:
    """Add both ends of an interrupt line."""
    for module, name, way, peer, far in (
        (source, port, direction, target, other),
        (target, other, "I", source, port),
    ):
        end = xml.SubElement(_child(module, "PORTS"), "PORT", DIR=way, NAME=name, SIGIS="INTERRUPT")
        connections = xml.SubElement(end, "CONNECTIONS")
        xml.SubElement(connections, "CONNECTION", INSTANCE=peer.attrib["INSTANCE"], PORT=far)


def _register(parent: xml.Element, register: Register, word: int) -> None:
    """Add a 32-bit word; the upper word of a 64-bit register is NAME_high."""
    access = "read-write" if register.writable else "read-only"
    entry = xml.SubElement(parent, "REGISTER", NAME=register.name + ("_high" if word else ""))
    properties = {
        "DESCRIPTION": register.meaning,
        "ADDRESS_OFFSET": str(register.offset + 4 * word),
        "SIZE": "32",
        "ACCESS": access,
        "IS_ENABLED": "true",
    }
    for name, value in properties.items():
        xml.SubElement(entry, "PROPERTY", NAME=name, VALUE=value)
    fields = xml.SubElement(entry, "FIELDS")
    for field in register.fields:
        child = xml.SubElement(fields, "FIELD", NAME=field.name)
        for name, value in (("ACCESS", access), ("BIT_OFFSET", str(field.low)), ("BIT_WIDTH", str(field.bits))):
            xml.SubElement(child, "PROPERTY", NAME=name, VALUE=value)
