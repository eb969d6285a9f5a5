"""Verilator's lint."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bitlane_sim.rtl import toolchain


def lint(folder: Path, top: str, *files: str) -> str:
    """Return the warnings of Verilator, all kinds turned on; an error fails the test."""
    tools = toolchain.find()
    command = [str(tools.verilator), "--lint-only", "-Wall", "-Wno-fatal", "--top-module", top, *files]
    done = subprocess.run(command, cwd=folder, env=tools.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
