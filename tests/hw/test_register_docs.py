"""The register page is what the table says, and the table is one that a bus can decode."""

from __future__ import annotations

from pathlib import Path

from bitlane_hw.contract import REGISTERS, ErrorCode
from bitlane_hw.register_docs import ERRORS, markdown

PAGE = Path(__file__).parents[2] / "docs" / "registers.md"


def test_page_is_current():
    assert PAGE.read_text() == markdown(), "run `make docs`"


def test_every_error_code_is_told():
    assert set(ERRORS) == set(ErrorCode)


def test_no_registers_overlap():
    words = [r.offset + 4 * word for r in REGISTERS.values() for word in range(r.words)]
    assert len(set(words)) == len(words)
    assert all(offset % 4 == 0 and offset < 4096 for offset in words)
