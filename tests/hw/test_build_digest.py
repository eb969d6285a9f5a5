"""The build's number changes with what the design is made of, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import bitlane_hw
from bitlane.contract.config import AcceleratorConfig
from bitlane_hw import build_digest as module
from bitlane_hw.build_digest import CORE, ZYNQ, build_digest, source_files

CONFIG = AcceleratorConfig(address_bits=32)


def test_every_option_of_the_build_counts() -> None:
    others = [
        replace(CONFIG, width=128),
        replace(CONFIG, outputs=2),
        replace(CONFIG, max_features=128),
        replace(CONFIG, row_buffer_beats=128),
        replace(CONFIG, fifo_beats=64),
        replace(CONFIG, address_bits=40),
        replace(CONFIG, level_slots=64),
        replace(CONFIG, random_rounding=True),
    ]
    digests = {build_digest(config, zynq) for config in (CONFIG, *others) for zynq in (False, True)}
    assert len(digests) == 2 * (1 + len(others)) and all(0 <= digest < 1 << 32 for digest in digests)


def test_the_sources_are_those_of_the_design() -> None:
    """All of the RTL but what describes it for other tools; the contract, and nothing else of the host."""
    root = Path(bitlane_hw.__path__[0])
    every = {".".join(path.relative_to(root.parent).with_suffix("").parts) for path in root.rglob("*.py")}
    every = {name for name in every if not name.endswith("__init__")}
    core, zynq = set(source_files(CORE)), set(source_files(ZYNQ))
    adapters = {name for name in every if ".zynq." in name}
    assert {name for name in core if name.startswith("bitlane_hw.")} == {
        name for name in every - adapters if ".export." not in name
    }
    assert zynq - core == adapters | {"bitlane_hw.export.verilog"}
    assert {name for name in core if name.startswith("bitlane.")} >= {
        "bitlane.contract.registers",
        "bitlane.contract.formats",
        "bitlane.contract.config",
    }
    assert all(name.startswith(("bitlane.contract.", "bitlane.errors", "bitlane_hw.")) for name in zynq)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Doubles."""\n\n\ndef double(x):\n    """Twice x."""\n    return 2 * x  # exactly\n', True),
        ("def double(x):\n    return 2 * x\n", True),
        ("def double(x):\n    return 3 * x\n", False),
        ('NAME = "other"\n\n\ndef double(x):\n    return 2 * x\n', False),
    ],
)
def test_words_about_the_sources_do_not_count(
    text: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "block.py"
    monkeypatch.setattr(module, "source_files", lambda top: {"block": file})
    file.write_text("def double(x):\n    return 2 * x\n")
    module._sources.cache_clear()
    before = build_digest(CONFIG)
    file.write_text(text)
    module._sources.cache_clear()
    assert (build_digest(CONFIG) == before) is same
    module._sources.cache_clear()
