"""The core as a kernel for Vitis: a wrapper with the names that it wants, `kernel.xml`, and Tcl that makes a .xo file.

The host controls it through its registers (`user_managed`: `xrt::ip` reads and writes them).
"""

from __future__ import annotations

from itertools import chain
from xml.etree import ElementTree as xml

from amaranth.lib import wiring

from bitlane.contract.registers import PORT_ADDRESSES, REGISTERS, SOURCE_ADDRESS, VLNV, of_port
from bitlane_hw.control.registers import ADDRESS_BITS

from .core import KERNEL_ADDRESS_BITS, Core, ports_of

CLOCK, RESET, INTERRUPT = "ap_clk", "ap_rst_n", "interrupt"
INNER = {"clk": CLOCK, "rst": f"~{RESET}", "irq": INTERRUPT}


def name_of(core: Core) -> str:
    """Return the name of the kernel, and of its wrapper."""
    return f"{core.top}_kernel"


def buffers(core: Core) -> list[tuple[str, str]]:
    """Return the registers that hold addresses of buffers, each with the port whose memory has the buffer."""
    first, *further = (
        [(of_port(name, port), memory) for name in PORT_ADDRESSES] for port, memory in enumerate(core.memory)
    )
    sources = [(of_port(SOURCE_ADDRESS, port), memory) for port, memory in enumerate(core.memory)]
    return [
        *first,
        ("trace", core.memory[0]),
        sources[0],
        *chain.from_iterable(further),
        *(sources[1:] if core.config.encoder else ()),
    ]


def wrapper(core: Core, component: wiring.Component) -> str:
    """Return Verilog that renames clock, reset and interrupt of the core; the reset is active low."""
    ports = [port for port in ports_of(component) if port.name not in INNER]
    inner = {**INNER, **{port.name: port.name for port in ports}}
    outer = [f"input {CLOCK}", f"input {RESET}", f"output {INTERRUPT}"] + [
        f"{port.direction}put {f'[{port.bits - 1}:0] ' if port.bits > 1 else ''}{port.name}" for port in ports
    ]
    return "\n".join(
        [
            "// Made by bitlane_hw.export; do not edit.",
            f"module {name_of(core)} (",
            ",\n".join(f"    {each}" for each in outer),
            ");",
            f"  {core.top} core (",
            ",\n".join(f"    .{name}({value})" for name, value in inner.items()),
            "  );",
            "endmodule",
            "",
        ]
    )


def kernel_xml(core: Core) -> str:
    """Return `kernel.xml`: the ports, and the registers that hold addresses of buffers."""
    root = xml.Element("root", versionMajor="1", versionMinor="6")
    kernel = xml.SubElement(
        root,
        "kernel",
        name=name_of(core),
        language="ip_c",
        vlnv=VLNV,
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol="user_managed",
    )
    ports = xml.SubElement(kernel, "ports")
    for name, mode, size, bits in (
        ("s_axi", "slave", 1 << ADDRESS_BITS, 32),
        *((name, "master", (1 << KERNEL_ADDRESS_BITS) - 1, core.config.port_width) for name in core.memory),
    ):
        facts = {"range": f"{size:#x}", "dataWidth": str(bits), "portType": "addressable", "base": "0x0"}
        xml.SubElement(ports, "port", name=name, mode=mode, **facts)
    arguments = xml.SubElement(kernel, "args")
    for number, (name, memory) in enumerate(buffers(core)):
        xml.SubElement(
            arguments,
            "arg",
            name=name,
            addressQualifier="1",
            id=str(number),
            port=memory,
            size="0x8",
            offset=f"{REGISTERS[name].offset:#x}",
            hostOffset="0x0",
            hostSize="0x8",
            type="void*",
        )
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def package_tcl(core: Core) -> str:
    """Return Tcl for `vivado -mode batch -source`: it packages wrapper and core as an IP, and this as a kernel."""
    name = name_of(core)
    vendor, library, _, version = VLNV.split(":")
    buses = ("s_axi", *core.memory)
    return "\n".join(
        [
            "# Made by bitlane_hw.export; do not edit. UNTESTED in Vivado and Vitis.",
            "cd [file dirname [file normalize [info script]]]",
            "create_project -force kernel_project kernel_project",
            f"add_files -norecurse {{{core.top}.v {name}.v}}",
            f"set_property top {name} [current_fileset]",
            "update_compile_order -fileset sources_1",
            f"ipx::package_project -root_dir kernel_ip -vendor {vendor} -library {library} -taxonomy /KernelIP "
            "-import_files -force",
            "set core [ipx::current_core]",
            f"set_property name {name} $core",
            f"set_property version {version} $core",
            "set_property sdx_kernel true $core",
            "set_property sdx_kernel_type rtl $core",
            *(f"ipx::associate_bus_interfaces -busif {bus} -clock {CLOCK} $core" for bus in buses),
            f"ipx::associate_bus_interfaces -clock {CLOCK} -reset {RESET} $core",
            "ipx::update_checksums $core",
            "ipx::save_core $core",
            "close_project",
            f"package_xo -force -xo_path {name}.xo -kernel_name {name} -ctrl_protocol user_managed "
            "-ip_directory kernel_ip -kernel_xml kernel.xml",
            "",
        ]
    )
