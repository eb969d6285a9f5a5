"""The register map in SystemRDL, read back by the compiler of PeakRDL."""

from __future__ import annotations

import pytest
from tests.helpers.rdl_words import rdl_words, table_words

from bitlane.contract.registers import REGISTERS, Field, Register
from bitlane_hw.export.core import Core, Word
from bitlane_hw.export.system_rdl import _register, system_rdl

systemrdl = pytest.importorskip("systemrdl", reason="needs systemrdl-compiler")


def compiled(text: str, tmp_path):
    (tmp_path / "core.rdl").write_text(text)
    compiler = systemrdl.RDLCompiler()
    compiler.compile_file(str(tmp_path / "core.rdl"))
    return compiler.elaborate().top


def test_the_compiler_reads_the_table(tmp_path) -> None:
    top = compiled(system_rdl(Core(top="sgd")), tmp_path)
    assert top.inst_name == "sgd"
    assert rdl_words(top) == table_words()
    assert {word.get_property("desc") for word in top.registers()} == {each.meaning for each in REGISTERS.values()}


def test_texts_are_escaped(tmp_path) -> None:
    text = r'a "quoted" \ text; }'
    register = Register("encode", 4, 3, True, text, (Field("encode", 1, 2, text),))
    lines = _register(Word("encode", 4, register, 0))
    top = compiled("\n".join(["addrmap core {", *lines, "};"]), tmp_path)
    (word,) = top.registers()
    (field,) = word.fields()
    assert [each.inst_name for each in (word, field)] == ["encode", "encode"]
    assert [each.get_property("desc") for each in (word, field)] == [text, text]
