"""The core in IP-XACT: ports against the Verilog, and the register map read by PeakRDL's importer."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from tests.helpers.rdl_words import rdl_words, table_words
from tests.helpers.shells import shell

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.core import Core
from bitlane_hw.export.ip_xact import NAMESPACE, ip_xact
from bitlane_hw.export.verilog import to_verilog
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

PREFIX = {"ipxact": NAMESPACE}
CORES = {
    "one port": (Core(AcceleratorConfig(128, address_bits=33), "sgd"), Accelerator),
    "four memories": (Core(AcceleratorConfig(256, shards=2, ports=4), "sgd"), Accelerator),
    "two ports": (Core(AcceleratorConfig(256), "sgd", memory_ports=2), TwoPortAccelerator),
}


@pytest.fixture(scope="module", params=CORES)
def exported(request: pytest.FixtureRequest) -> tuple[Core, str, xml.Element]:
    """A core, its Verilog without what is behind the ports, and its description."""
    core, kind = CORES[request.param]
    component = shell(kind)(core.config)
    return core, to_verilog(component, core.top), xml.fromstring(ip_xact(core, component))


def texts(element: xml.Element, path: str) -> list[str]:
    return [each.text or "" for each in element.iterfind(path, PREFIX)]


def test_ports_are_those_of_the_verilog(exported: tuple[Core, str, xml.Element]) -> None:
    _, verilog, root = exported
    ports = {}
    for port in root.iterfind(".//ipxact:ports/ipxact:port", PREFIX):
        (name,), (direction,) = texts(port, "ipxact:name"), texts(port, "ipxact:wire/ipxact:direction")
        ports[name] = direction, int([*texts(port, ".//ipxact:left"), "0"][0])
    assert ports == {
        name: (direction, int(high or 0))
        for direction, high, name in re.findall(r"^  (in|out)put (?:wire |reg )?(?:\[(\d+):0\] )?(\w+);", verilog, re.M)
    }


def test_every_signal_of_a_bus_is_mapped(exported: tuple[Core, str, xml.Element]) -> None:
    core, verilog, root = exported
    found = {}
    for interface in root.iterfind(".//ipxact:busInterface", PREFIX):
        (name,) = texts(interface, "ipxact:name")
        pairs = zip(
            texts(interface, ".//ipxact:logicalPort/ipxact:name"),
            texts(interface, ".//ipxact:physicalPort/ipxact:name"),
            strict=True,
        )
        found[name] = interface[1].attrib["name"], dict(pairs)
    assert {name: bus for name, (bus, _) in found.items()} == {
        "s_axi": "AXI4-Lite",
        **dict.fromkeys(core.memory, "AXI4"),
    }
    for name, (_, pairs) in found.items():
        signals = re.findall(rf"^  (?:in|out)put (?:wire |reg )?(?:\[\d+:0\] )?{name}_(\w+);", verilog, re.M)
        assert pairs == {"ACLK": "clk", **{signal.upper(): f"{name}_{signal}" for signal in signals}}
        assert {"AWVALID", "WDATA", "BREADY", "ARADDR", "RDATA"} <= set(pairs)


def test_the_memory_has_the_addresses_of_the_build(exported: tuple[Core, str, xml.Element]) -> None:
    core, _, root = exported
    sizes = {int(size) for size in texts(root, ".//ipxact:addressSpace/ipxact:range")}
    widths = [int(width) for width in texts(root, ".//ipxact:addressSpace/ipxact:width")]
    assert sizes == {2**core.config.address_bits} and sum(widths) == core.config.width


def test_an_importer_reads_the_registers(exported: tuple[Core, str, xml.Element], tmp_path: Path) -> None:
    importer = pytest.importorskip("peakrdl_ipxact", reason="needs peakrdl-ipxact")
    from systemrdl import RDLCompiler

    (tmp_path / "core.xml").write_bytes(xml.tostring(exported[2]))
    compiler = RDLCompiler()
    importer.IPXACTImporter(compiler).import_file(str(tmp_path / "core.xml"))
    assert rdl_words(compiler.elaborate().top) == table_words()
