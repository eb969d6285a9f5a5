"""A simulated master that breaks the rules of AXI on request, as a fixture."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.places import HELPERS

from bitlane_sim.rtl.build import build_verilog

Mischief = Callable[[int], Path]


@pytest.fixture(scope="session")
def mischief(tmp_path_factory: pytest.TempPathFactory) -> Mischief:
    """mischief(width): the simulator of the small master that breaks rules on request."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        pytest.skip("needs a C++ compiler")
    template = (HELPERS / "mischief.v").read_text()
    assert "WIDTH = 64" in template

    def build(width: int) -> Path:
        source = tmp_path_factory.mktemp("mischief") / f"mischief_{width}.v"
        source.write_text(template.replace("WIDTH = 64", f"WIDTH = {width}"))
        return build_verilog(source)

    return build
