"""Programs run in a Python that has numpy and this package, as a board has."""

from __future__ import annotations

import subprocess
import sys

HIDE = """
import importlib.abc, sys
class OnlyNumpy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "bitlane"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, OnlyNumpy())
"""


def run_bare(code: str) -> str:
    """The output of a program that can import numpy, bitlane and the standard library only."""
    command = [sys.executable, "-W", "ignore", "-c", HIDE + code]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout
