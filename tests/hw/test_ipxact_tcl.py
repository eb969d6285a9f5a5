"""The register map as Tcl: read back by a Tcl interpreter, it is the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bitlane_hw import ipxact_tcl
from bitlane_hw.contract import REGISTERS, Register
from bitlane_hw.registers import ADDRESS_BITS

tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: Python's tkinter")


def test_tcl_reads_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "registers.tcl"
    monkeypatch.setattr(sys, "argv", ["ipxact_tcl", str(path)])
    ipxact_tcl.main()
    interpreter = tkinter.Tcl().tk
    interpreter.call("source", str(path))
    assert int(interpreter.eval("set window")) == 1 << ADDRESS_BITS
    entries = [interpreter.splitlist(entry) for entry in interpreter.splitlist(interpreter.eval("set registers"))]
    assert len(entries) == len(REGISTERS)
    for (name, offset, bits, access, meaning), register in zip(entries, REGISTERS.values(), strict=True):
        assert (name, int(offset, 0), meaning) == (register.name, register.offset, register.meaning)
        assert int(bits) >= register.bits and int(bits) in (32, 64)
        assert access == ("read-write" if register.writable else "read-only")


@pytest.mark.parametrize("text", ["a [exit] $b {c", '"quoted" } \\ ; # d', "bits 15..8 | 'x'"])
def test_meanings_are_never_tcl(text: str) -> None:
    entry = ipxact_tcl.entry(Register("name", 4, 1, False, text))
    assert tkinter.Tcl().tk.eval(f"lindex {entry} 4") == text
