"""A small project to mutate."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.mutated_block import SUM, TEST

from bitlane_verify.mutation.trial import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """A project of one block and its test."""
    project = tmp_path / "from"
    for name, text in (("hw/bitlane_hw/__init__.py", ""), ("hw/bitlane_hw/block.py", SUM)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "tests" / "hw").mkdir(parents=True)
    (project / "tests" / "hw" / "test_block.py").write_text(TEST)
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n")
    return Sandbox(project, tmp_path / "to")
