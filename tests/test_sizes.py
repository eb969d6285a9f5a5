"""Files and `elaborate` methods stay short enough to be read whole. (ruff limits the parameters of a function.)"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

MAX_FILE_LINES = 400
MAX_ELABORATE_LINES = 100
FOLDERS = ("host", "hw", "sim", "studies", "verify", "tests", "docs", "examples", ".ci")
SUFFIXES = (".py", ".c", ".cpp", ".h", ".hpp")


def source_files(suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[Path]:
    """Files of source code in the repository."""
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes)


def long_elaborates(text: str) -> list[int]:
    """Line counts of the `elaborate` methods above the limit."""
    lengths = (
        node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == "elaborate" and node.end_lineno is not None
    )
    return [length for length in lengths if length > MAX_ELABORATE_LINES]


def test_files_are_short() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in source_files()}
    assert len(lengths) > 500
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_elaborate_is_short() -> None:
    found = {path: long_elaborates(path.read_text()) for path in source_files((".py",))}
    assert {path: lengths for path, lengths in found.items() if lengths} == {}


@pytest.mark.parametrize(("lines", "too_long"), [(MAX_ELABORATE_LINES - 1, []), (MAX_ELABORATE_LINES, [101])])
def test_a_long_elaborate_is_found(lines: int, too_long: list[int]) -> None:
    assert long_elaborates("class A:\n  def elaborate(self, platform):\n" + "    pass\n" * lines) == too_long
