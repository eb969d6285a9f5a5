"""The table of blocks: unique names, and all RTL files."""

from __future__ import annotations

from itertools import combinations

from tests.helpers.places import ROOT

from bitlane.selftest import BLOCKS
from bitlane.selftest.report import NAME_WIDTH


def test_names_are_unique() -> None:
    assert len({block.name for block in BLOCKS}) == len(BLOCKS)
    assert not any(a.name.startswith(b.name) or b.name.startswith(a.name) for a, b in combinations(BLOCKS, 2))
    assert all(len(block.name) < NAME_WIDTH // 2 for block in BLOCKS)


def test_every_rtl_file_belongs_to_a_block() -> None:
    """The exceptions are the Zynq adapters, the export, and packages without code."""
    hardware = ROOT / "hw" / "bitlane_hw"
    found = {path.relative_to(hardware).with_suffix("").as_posix() for path in hardware.rglob("*.py")}
    accelerator = {
        name
        for name in found
        if not name.startswith(("zynq/", "export/")) and not name.endswith("__init__") and name != "build_digest"
    }
    assert {file for block in BLOCKS for file in block.files} == accelerator
