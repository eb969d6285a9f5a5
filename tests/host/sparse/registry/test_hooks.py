"""Hooks by name and by entry point; what cannot be imported is one line."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane.sparse.registry import hooks
from bitlane.sparse.registry.hooks import GROUP, find_hooks


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_validators.py").write_text("limit = 3\ndef check(*_): return ['no']\n")
    (tmp_path / "broken_validators.py").write_text("raise ZeroDivisionError('by zero')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "my_validators"


def test_hooks_come_by_name_and_by_entry_point(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint("theirs", f"{module}:check", group)] if group == GROUP else []

    monkeypatch.setattr(hooks, "entry_points", points)
    found = find_hooks([f"{module}:check"])
    assert list(found) == ["theirs", f"{module}:check"]
    assert all(hook(None, None, None) == ["no"] for hook in found.values())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name, message",
    [
        ("my_validators", "hook 'my_validators' is not package.module:function"),
        (":check", "hook ':check' is not"),
        ("my_validators:gone", "hook my_validators:gone cannot be imported: AttributeError"),
        ("no_such_module:check", "hook no_such_module:check cannot be imported: ModuleNotFoundError"),
        ("broken_validators:check", "cannot be imported: ZeroDivisionError: by zero"),
        ("my_validators:limit", "hook my_validators:limit is not a function"),
    ],
)
def test_wrong_names_are_one_line(module: str, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_hooks([name])
