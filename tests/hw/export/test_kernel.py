"""The wrapper and the description of a kernel: checked as text, by Verilator and by a Tcl interpreter, not by Vitis."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from tests.helpers.lint import lint
from tests.helpers.shells import shell

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, absent_registers
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.core import Core
from bitlane_hw.export.kernel import kernel_xml, package_tcl, wrapper
from bitlane_hw.export.verilog import to_verilog

CORE = Core(AcceleratorConfig(512, address_bits=64), "sgd", kernel=True)
SEVERAL = Core(AcceleratorConfig(512, address_bits=64, shards=2, ports=4), "sgd", kernel=True)


@pytest.mark.parametrize("core", [CORE, SEVERAL], ids=["one port", "four ports"])
def test_the_wrapper_fits_the_core(tmp_path: Path, core: Core) -> None:
    component = shell(Accelerator)(core.config)
    (tmp_path / "sgd.v").write_text(to_verilog(component, "sgd"))
    (tmp_path / "sgd_kernel.v").write_text(wrapper(core, component))
    warnings = re.findall(r"^%Warning-(\w+): sgd_kernel.v", lint(tmp_path, "sgd_kernel", "sgd_kernel.v", "sgd.v"), re.M)
    assert warnings == ["SYMRSVDWORD"]  # Vitis wants the name `interrupt`, which some compilers of C++ reserve


def test_every_address_of_a_buffer_is_an_argument() -> None:
    root = xml.fromstring(kernel_xml(CORE))
    (kernel,) = root
    assert kernel.attrib["name"] == "sgd_kernel" and kernel.attrib["hwControlProtocol"] == "user_managed"
    arguments = {each.attrib["name"]: int(each.attrib["offset"], 0) for each in root.iter("arg")}
    absent = absent_registers(True, True, 1, 2, CORE.config.ports)
    addresses = [each for each in REGISTERS.values() if each.writable and each.bits == 64 and each.name not in absent]
    assert arguments == {each.name: each.offset for each in addresses}
    ports = {each.attrib["name"]: (each.attrib["mode"], each.attrib["dataWidth"]) for each in root.iter("port")}
    assert ports == {"s_axi": ("slave", "32"), "m_axi": ("master", "512")}
    assert {each.attrib["port"] for each in root.iter("arg")} == {"m_axi"}


def test_every_address_names_its_port() -> None:
    root = xml.fromstring(kernel_xml(SEVERAL))
    arguments = {each.attrib["name"]: each.attrib for each in root.iter("arg")}
    assert len({each["id"] for each in arguments.values()}) == len(arguments) == 6 + 3 * 4
    for name, attributes in arguments.items():
        port = int(name[-1]) if name[-1].isdigit() else 0
        assert attributes["port"] == f"m_axi{port}" and int(attributes["offset"], 0) == REGISTERS[name].offset
    ports = {each.attrib["name"]: each.attrib["dataWidth"] for each in root.iter("port")}
    assert ports == {"s_axi": "32", **{f"m_axi{port}": "128" for port in range(4)}}


def test_every_port_of_a_build_with_encoders_has_its_raw_rows() -> None:
    core = replace(SEVERAL, config=replace(SEVERAL.config, encoder=2))
    arguments = {each.attrib["name"]: each.attrib["port"] for each in xml.fromstring(kernel_xml(core)).iter("arg")}
    assert {name: port for name, port in arguments.items() if name.startswith("source_address")} == {
        "source_address": "m_axi0",
        **{f"source_address_{port}": f"m_axi{port}" for port in range(1, 4)},
    }


def test_the_script_packages_both_files_and_makes_the_kernel() -> None:
    tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: Python's tkinter")
    interpreter = tkinter.Tcl().tk
    interpreter.eval("proc cd args {}; proc unknown args {lappend ::called $args}; set argv0 {}")
    interpreter.eval(package_tcl(CORE))
    called = [interpreter.splitlist(each) for each in interpreter.splitlist(interpreter.eval("set called"))]
    assert ("add_files", "-norecurse", "sgd.v sgd_kernel.v") in called
    assert called[-1][0] == "package_xo" and called[-1][-2:] == ("-kernel_xml", "kernel.xml")
