"""Write a reference page for each public room and check that each public name has a docstring.

A room is a package directly below `bitlane`. Its public names are those of its `__all__`, errors last. In a room
without `__all__` all classes and functions of the modules are public whose names have no leading underscore.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.ext.autodoc.mock import _MockObject, mock
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
DOCUMENTED = {"module", "class", "exception", "function"}
FOLDER = Path("reference", "api")
_MockObject.__or__ = lambda self, other: self  # `dist.ProcessGroup | None` is evaluated where PyTorch reads annotations


def write_pages(app: Sphinx) -> None:
    """Write `reference/api/ROOM.rst` for each room of `public_rooms`; leave a page alone that is up to date."""
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    rooms: dict[str, str] = app.config.public_rooms
    _check_rooms({*rooms, *app.config.internal_rooms})
    seen: dict[int, str] = {}
    with mock(app.config.autodoc_mock_imports):
        for room in rooms:
            page, text = folder / f"{room}.rst", "\n".join(_page(room, seen)) + "\n"
            if not page.is_file() or page.read_text(encoding="utf-8") != text:
                page.write_text(text, encoding="utf-8")


def _check_rooms(listed: set[str]) -> None:
    package = importlib.import_module("bitlane")
    found = {f"bitlane.{each.name}" for each in pkgutil.iter_modules(package.__path__)}
    if missing := sorted(found - listed):
        raise ExtensionError(f"docs/conf.py: add {', '.join(missing)} to public_rooms or to internal_rooms")


def _page(room: str, seen: dict[int, str]) -> Iterator[str]:
    yield from (room, "=" * len(room), "", f".. automodule:: {room}", "   :no-members:", "")
    module = importlib.import_module(room)
    exported = getattr(module, "__all__", None)
    if exported is None:
        for path in _modules(room, module):
            yield from (path, "-" * len(path), "", f".. automodule:: {path}", "")
        return
    names = [name for name in exported if not name.startswith("__")]
    for name in sorted(names, key=lambda name: _kind(getattr(module, name)) == "exception"):
        found = getattr(module, name)
        if id(found) in seen:
            yield from (f"``{name}`` is :py:obj:`{seen[id(found)]}`.", "")
            continue
        seen[id(found)] = f"{room}.{name}"
        yield from (f".. auto{_kind(found)}:: {room}.{name}", "")


def _modules(room: str, module: Any) -> Iterator[str]:
    """Names of the public modules of a room that define a public class or function."""
    for folder in map(Path, module.__path__):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if not any(part.startswith("_") for part in parts) and _has_public_names(path):
                yield ".".join((room, *parts))


def _has_public_names(path: Path) -> bool:
    kinds = (ast.ClassDef, ast.FunctionDef)
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(node, kinds) and not node.name.startswith("_") for node in nodes)


def _kind(found: Any) -> str:
    if isinstance(found, type):
        return "exception" if issubclass(found, BaseException) else "class"
    return "function" if callable(found) else "data"


def check_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Warn about a module, class or function without a docstring."""
    ours = str(getattr(obj, "__module__", None) or name).startswith("bitlane")
    if ours and what in DOCUMENTED and not any(line.strip() for line in lines):
        LOGGER.warning("%s is public and has no docstring", name)


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out methods that scikit-learn adds, and attributes without a docstring.

    The Parameters or Attributes section of their class names the attributes.
    """
    if what not in ("class", "exception"):
        return None
    if str(getattr(obj, "__module__", None)).startswith("sklearn."):
        return True
    is_enum_member = isinstance(obj, enum.Enum) and getattr(type(obj), name, None) is obj  # else a default value
    shown = inspect.isroutine(obj) or isinstance(obj, (type, property)) or is_enum_member or hasattr(obj, "func")
    return None if shown else True


def resolve_internal(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> Any:
    """Show a name of bitlane that exists and has no entry in the reference as code. Other names stay unresolved."""
    target = str(node.get("reftarget", ""))
    with mock(app.config.autodoc_mock_imports):
        return content if target.startswith("bitlane.") and _exists(target) else None


def _exists(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            if not hasattr(found, attribute) and attribute not in getattr(found, "__annotations__", ()):
                return False
            found = getattr(found, attribute, None)
        return True
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the pages and the checks."""
    app.add_config_value("public_rooms", [], "env")
    app.add_config_value("internal_rooms", [], "env")
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", check_docstring, priority=100)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("missing-reference", resolve_internal)
    return {"parallel_read_safe": True}
