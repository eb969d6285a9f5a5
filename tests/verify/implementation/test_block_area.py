"""The area of blocks alone: each block is elaborated, and the table has what Yosys says."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.lib.wiring import Component

from bitlane_verify.implementation import block_area
from bitlane_verify.implementation.block_area import BLOCKS, main
from bitlane_verify.implementation.yosys import SynthesisFigures


def test_each_block_is_a_component_of_its_own(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    mapped: list[Component] = []

    def mapped_area(component: Component, folder: Any) -> SynthesisFigures:
        mapped.append(component)
        return SynthesisFigures(lut=1000 + len(mapped), ff=7, bram36=0.5, dsp=2)

    monkeypatch.setattr(block_area, "mapped_area", mapped_area)
    assert main([]) == 0
    assert len(mapped) == len(BLOCKS) == len({id(each) for each in mapped})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[-4:] == ["1,001", "7", "0.5", "2"] and len(lines) == 2 + len(BLOCKS)


def test_an_unknown_block_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["dots"])
    assert "unknown block 'dots'; choose from" in capsys.readouterr().err


def test_yosys_maps_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    """The sum of dot products is two adders of about 70 bits, with three registers before and one behind each."""
    assert main(["sum of dot products, 2 shards"]) == 0
    luts, registers = (int(cell.replace(",", "")) for cell in capsys.readouterr().out.split()[-4:-2])
    assert 100 < luts < 250 and 500 < registers < 900
