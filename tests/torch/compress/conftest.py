"""Processes that tests start find the tests' modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def tests_in_processes():
    """What `launch` starts has the path of the process that starts it."""
    root = str(Path(__file__).parents[3])
    sys.path.append(root)
    yield
    sys.path.remove(root)
