"""The register map as Tcl, read back by a Tcl interpreter."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV, Register
from bitlane_hw.build_digest import TWO_PORTS, build_digest
from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.export.core import Core, Word
from bitlane_hw.export.vivado_tcl import entry, vivado_tcl

tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: Python's tkinter")


def test_tcl_reads_the_table() -> None:
    config = AcceleratorConfig(128, 3)
    interpreter = tkinter.Tcl().tk
    interpreter.eval(vivado_tcl(Core(config, "sgd")))
    assert int(interpreter.eval("set window")) == 1 << ADDRESS_BITS
    entries = [interpreter.splitlist(entry) for entry in interpreter.splitlist(interpreter.eval("set registers"))]
    assert [interpreter.eval(f"set {name}") for name in ("vlnv", "top", "memory")] == [VLNV, "sgd", "m_axi"]
    assert interpreter.eval("dict get $facts BUILD") == str(build_digest(config))
    assert interpreter.eval("dict get $facts WIDTH") == "128" and interpreter.eval("dict get $facts OUTPUTS") == "3"
    words = [(register, word) for register in REGISTERS.values() for word in range(register.words)]
    for (name, offset, access, meaning), (register, word) in zip(entries, words, strict=True):
        assert name == register.name + "_high" * word
        assert (int(offset, 0), meaning) == (register.offset + 4 * word, register.meaning)
        assert access == ("read-write" if register.writable else "read-only")


def test_two_memory_ports() -> None:
    config = AcceleratorConfig(256)
    text = vivado_tcl(Core(config, memory_ports=2))
    assert "set memory {m_axi0 m_axi1}" in text and f"BUILD {build_digest(config, TWO_PORTS)} " in text


@pytest.mark.parametrize("text", ["a [exit] $b {c", '"quoted" } \\ ; # d', "bits 15..8 | 'x'"])
def test_meanings_are_not_evaluated_as_tcl(text: str) -> None:
    word = Word("name", 4, Register("name", 4, 1, False, text), 0)
    assert tkinter.Tcl().tk.eval(f"lindex {entry(word)} 3") == text
