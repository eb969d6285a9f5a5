"""Kernels are kept under a name that depends on the sources which they are compiled from."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from bitlane.sparse.parameters.compiling import kernel


def test_a_change_in_a_used_module_changes_the_name(tmp_path: Path) -> None:
    module = ModuleType("module")
    module.__file__ = str(tmp_path / "module.py")
    names = []
    for text in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "module.py").write_text(text)

        def loop(x):
            return x + 1

        compiled = kernel(module)(loop)
        names.append(compiled.py_func.__qualname__)
    assert names[0] == names[2] != names[1]
