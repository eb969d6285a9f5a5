"""The register map as Tcl, read back by a Tcl interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV, Register
from bitlane_hw.build_digest import TWO_PORTS, build_digest
from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.export import ipxact_tcl

tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: Python's tkinter")


def test_tcl_reads_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(ipxact_tcl, "generate", lambda config, path: made.append((config, path)))
    monkeypatch.setattr(sys, "argv", ["ipxact_tcl", str(tmp_path / "build"), "--width", "128", "--outputs", "3"])
    ipxact_tcl.main()
    config = AcceleratorConfig(128, 3)
    assert made == [(config, tmp_path / "build" / "bitlane_accelerator.v")]
    path = tmp_path / "build" / "accelerator.tcl"
    interpreter = tkinter.Tcl().tk
    interpreter.call("source", str(path))
    assert int(interpreter.eval("set window")) == 1 << ADDRESS_BITS
    entries = [interpreter.splitlist(entry) for entry in interpreter.splitlist(interpreter.eval("set registers"))]
    assert interpreter.eval("set vlnv") == VLNV
    assert interpreter.eval("dict get $facts BUILD") == str(build_digest(config))
    assert interpreter.eval("dict get $facts WIDTH") == "128" and interpreter.eval("dict get $facts OUTPUTS") == "3"
    words = [(register, word) for register in REGISTERS.values() for word in range(register.words)]
    for (name, offset, access, meaning), (register, word) in zip(entries, words, strict=True):
        assert name == register.name + "_high" * word
        assert (int(offset, 0), meaning) == (register.offset + 4 * word, register.meaning)
        assert access == ("read-write" if register.writable else "read-only")


def test_256_bits_have_two_ports_and_more_are_refused(tmp_path: Path, monkeypatch, capsys) -> None:
    made = []
    monkeypatch.setattr(ipxact_tcl, "generate_two_ports", lambda config, path: made.append(config))
    monkeypatch.setattr(sys, "argv", ["ipxact_tcl", str(tmp_path / "build"), "--width", "256"])
    ipxact_tcl.main()
    assert made == [AcceleratorConfig(256)]
    text = (tmp_path / "build" / "accelerator.tcl").read_text()
    assert "set memory {m_axi0 m_axi1}" in text and f"BUILD {build_digest(made[0], TWO_PORTS)} " in text
    monkeypatch.setattr(sys, "argv", ["ipxact_tcl", str(tmp_path / "none"), "--width", "512"])
    with pytest.raises(SystemExit):
        ipxact_tcl.main()
    assert "width=512 needs more than two ports of 128 bits: choose at most 256" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["a [exit] $b {c", '"quoted" } \\ ; # d', "bits 15..8 | 'x'"])
def test_meanings_are_not_evaluated_as_tcl(text: str) -> None:
    entry = ipxact_tcl.entry(Register("name", 4, 1, False, text))
    assert tkinter.Tcl().tk.eval(f"lindex {entry} 3") == text
