"""The page of the registers matches the register table; the table is complete and can be decoded."""

from __future__ import annotations

import re

from tests.helpers.places import ROOT
from tests.hw.control.test_checks import BAD

from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import FIELDS, REGISTERS
from bitlane_hw.export.register_docs import ERRORS, RULES, markdown

PAGE = ROOT / "docs" / "registers.md"


def test_page_is_current():
    assert PAGE.read_text() == markdown(), "run `make docs`"


def test_every_error_code_has_a_meaning():
    assert set(ERRORS) == set(ErrorCode)


def test_every_checked_register_has_a_rule():
    refused = {name for bad in BAD for name in bad} | {"batch_tail", "epoch_tail"}
    assert refused <= set(re.findall(r"\w+", " ".join(RULES)))


def test_rules_name_registers_and_fields():
    """Every identifier in a rule is a register or a field."""
    names = {name for rule in RULES for name in re.findall(r"[a-z]+_[a-z_]+", rule)}
    assert names <= {*REGISTERS, *FIELDS}


def test_fields_fill_their_register():
    for register in REGISTERS.values():
        places = [bit for field in register.fields for bit in range(field.low, field.low + field.bits)]
        assert places == (list(range(register.bits)) if register.fields else [])


def test_registers_do_not_overlap():
    words = [r.offset + 4 * word for r in REGISTERS.values() for word in range(r.words)]
    assert len(set(words)) == len(words)
    assert all(offset % 4 == 0 and offset < 4096 for offset in words)
    assert all(r.offset % (4 * r.words) == 0 for r in REGISTERS.values())
