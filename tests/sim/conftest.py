"""Fixtures of the simulator's tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bitlane_sim.build import build_verilog


@pytest.fixture(scope="session")
def mischief() -> Path:
    """The simulator of the small master that breaks rules on request."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        pytest.skip("needs a C++ compiler")
    return build_verilog(Path(__file__).with_name("mischief.v"))
