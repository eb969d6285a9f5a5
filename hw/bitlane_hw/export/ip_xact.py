"""The core in IP-XACT (IEEE 1685-2014): its bus interfaces, register map, ports and files."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from amaranth.lib import wiring

from bitlane.contract.registers import VLNV
from bitlane_hw.control.registers import ADDRESS_BITS

from .core import WORDS, Core, Port, Word, ports_of
from .vivado_tcl import ACCESS

NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
SLAVE = "s_axi"


def ip_xact(core: Core, component: wiring.Component) -> str:
    """Return the description of a core with the ports of `component`."""
    xml.register_namespace("ipxact", NAMESPACE)
    root = xml.Element(_tag("component"))
    vendor, library, _, version = VLNV.split(":")
    _texts(root, vendor=vendor, library=library, name=core.top, version=version)
    ports = ports_of(component)
    interfaces = _child(root, "busInterfaces")
    _bus_interface(interfaces, SLAVE, "AXI4-Lite", ports)
    for name in core.memory:
        _bus_interface(interfaces, name, "AXI4", ports)
    spaces = _child(root, "addressSpaces")
    for name in core.memory:
        width = core.config.width // len(core.memory)
        _texts(_child(spaces, "addressSpace"), name=name, range=1 << core.config.address_bits, width=width)
    _memory_map(_child(root, "memoryMaps"))
    _model(_child(root, "model"), core, ports)
    files = _child(_child(root, "fileSets"), "fileSet")
    _texts(files, name="rtl")
    _texts(_child(files, "file"), name=f"{core.top}.v", fileType="verilogSource")
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _child(parent: xml.Element, name: str, /, **attributes: str) -> xml.Element:
    return xml.SubElement(parent, _tag(name), attributes)


def _texts(parent: xml.Element, /, **texts: object) -> None:
    """Add a child for each text; numbers are decimal."""
    for name, text in texts.items():
        _child(parent, name).text = str(text)


def _bus_interface(parent: xml.Element, name: str, bus: str, ports: tuple[Port, ...]) -> None:
    """Add an interface of Arm's bus definitions. Its reset is not mapped: ARESETn is active low, and `rst` high."""
    interface = _child(parent, "busInterface")
    _texts(interface, name=name)
    definition = {"vendor": "amba.com", "library": "AMBA4", "version": "r0p0_0"}
    _child(interface, "busType", **definition, name=bus)
    abstraction = _child(_child(interface, "abstractionTypes"), "abstractionType")
    _child(abstraction, "abstractionRef", **definition, name=f"{bus}_rtl")
    names = [port.name for port in ports if port.name.startswith(f"{name}_")]
    maps = _child(abstraction, "portMaps")
    for physical, logical in (("clk", "ACLK"), *((each, each.removeprefix(f"{name}_").upper()) for each in names)):
        one = _child(maps, "portMap")
        _texts(_child(one, "logicalPort"), name=logical)
        _texts(_child(one, "physicalPort"), name=physical)
    if name == SLAVE:
        _child(_child(interface, "slave"), "memoryMapRef", memoryMapRef=name)
    else:
        _child(_child(interface, "master"), "addressSpaceRef", addressSpaceRef=name)


def _memory_map(parent: xml.Element) -> None:
    memory_map = _child(parent, "memoryMap")
    _texts(memory_map, name=SLAVE)
    block = _child(memory_map, "addressBlock")
    _texts(block, name="registers", baseAddress=0, range=1 << ADDRESS_BITS, width=32, usage="register")
    for word in WORDS:
        _register(block, word)
    _texts(memory_map, addressUnitBits=8)


def _register(block: xml.Element, word: Word) -> None:
    register = word.register
    access = "write-only" if register.name == "control" else ACCESS[register.writable]
    element = _child(block, "register")
    _texts(element, name=word.name, description=register.meaning, addressOffset=word.offset, size=32, access=access)
    fields = [(each.name, each.meaning, each.low, each.bits) for each in register.fields]
    for name, meaning, low, bits in fields or [("value", register.meaning, 0, word.bits)]:
        field = _child(element, "field")
        _texts(field, name=name, description=meaning, bitOffset=low, bitWidth=bits)


def _model(model: xml.Element, core: Core, ports: tuple[Port, ...]) -> None:
    view = _child(_child(model, "views"), "view")
    _texts(view, name="rtl", envIdentifier="verilogSource::", componentInstantiationRef="rtl")
    instance = _child(_child(model, "instantiations"), "componentInstantiation")
    _texts(instance, name="rtl", language="verilog", moduleName=core.top)
    _texts(_child(instance, "fileSetRef"), localName="rtl")
    listed = _child(model, "ports")
    for port in ports:
        element = _child(listed, "port")
        _texts(element, name=port.name)
        wire = _child(element, "wire")
        _texts(wire, direction=port.direction)
        if port.bits > 1:
            _texts(_child(_child(wire, "vectors"), "vector"), left=port.bits - 1, right=0)
