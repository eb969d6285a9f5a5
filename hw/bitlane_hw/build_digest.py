"""The hash that identifies a build: of the sources of the design and of its configuration."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from dataclasses import asdict
from functools import cache
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig

# The modules of the top components.
CORE, ZYNQ, TWO_PORTS = "bitlane_hw.accelerator", "bitlane_hw.zynq.top", "bitlane_hw.zynq.two_ports"
PACKAGES = ("bitlane", "bitlane_hw")


def build_digest(config: AcceleratorConfig, top: str = CORE) -> int:
    """Return a 32-bit hash of a configuration and of the sources of the RTL: the value of the `build` register.

    The sources are the modules that the top component imports, directly or not. Comments and docstrings do not count.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    top : str, default=CORE
        Module of the top component: CORE, ZYNQ or TWO_PORTS.

    Returns
    -------
    int
        The hash, 0 to 2**32 - 1.
    """
    options = repr(sorted(asdict(config).items())).encode()
    return int.from_bytes(hashlib.sha256(options + _sources(top)).digest()[:4], "big")


@cache
def _sources(top: str) -> bytes:
    """Return a hash of the module `top` and of all modules of PACKAGES that it imports."""
    hasher = hashlib.sha256()
    for name, path in sorted(source_files(top).items()):
        hasher.update(f"{name}\0{_code(path)}\0".encode())
    return hasher.digest()


def source_files(top: str) -> dict[str, Path]:
    """Return the source file of each module of PACKAGES that `top` imports, directly or not, and of `top` itself."""
    files: dict[str, Path] = {}
    waiting = [top]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        if path is None or name in files:
            continue
        files[name] = path
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting += _imports(ast.parse(path.read_text()), package)
    return files


def _path(name: str) -> Path | None:
    """Return the source file of a module; None if it is not a module of PACKAGES."""
    if name.split(".")[0] not in PACKAGES:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # its parent is a module: it is a name in that module
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _imports(tree: ast.Module, package: str) -> list[str]:
    """Return the absolute names of the modules, and of the names in modules, that a module of `package` imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


def _code(path: Path) -> str:
    """Return a module without comments and docstrings, as the text of its syntax tree."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
