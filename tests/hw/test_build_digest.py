"""The build number changes with the sources and options of the design, and with nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

import bitlane_hw
from bitlane.contract.config import AcceleratorConfig
from bitlane_hw import build_digest as module
from bitlane_hw.build_digest import CORE, TWO_PORTS, ZYNQ, build_digest, source_files

CONFIG = AcceleratorConfig(address_bits=32)


def test_every_build_option_changes_the_digest() -> None:
    """Also an option that is added later: each field of the configuration needs a second value here."""
    others = {
        "width": 128,
        "outputs": 2,
        "max_features": 128,
        "row_buffer_beats": 128,
        "fifo_beats": 64,
        "address_bits": 40,
        "level_slots": 64,
        "random_rounding": True,
        "encoder": 1,
        "shards": 2,
        "ports": 2,
    }
    assert set(others) == {field.name for field in fields(AcceleratorConfig)}
    configs = [
        CONFIG,
        *(
            replace(CONFIG, **{"width": 256, name: value} if name in ("shards", "ports") else {name: value})
            for name, value in others.items()
        ),
    ]
    digests = {build_digest(config, top) for config in configs for top in (CORE, ZYNQ, TWO_PORTS)}
    assert len(digests) == 3 * len(configs) and all(0 <= digest < 1 << 32 for digest in digests)
    assert build_digest(replace(CONFIG)) == build_digest(CONFIG)


def test_sources_are_the_modules_of_the_design() -> None:
    """All of the RTL except the export modules, and of the host only the contract."""
    root = Path(bitlane_hw.__path__[0])
    every = {".".join(path.relative_to(root.parent).with_suffix("").parts) for path in root.rglob("*.py")}
    every = {name for name in every if not name.endswith("__init__")}
    core, zynq, two_ports = (set(source_files(top)) for top in (CORE, ZYNQ, TWO_PORTS))
    adapters = {name for name in every if ".zynq." in name}
    assert {name for name in core if name.startswith("bitlane_hw.")} == {
        name for name in every - adapters if ".export." not in name
    }
    assert zynq - core == adapters - {TWO_PORTS}
    assert TWO_PORTS in two_ports and two_ports - {TWO_PORTS} < zynq
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
def test_comments_and_docstrings_do_not_change_the_digest(
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
