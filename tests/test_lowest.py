"""The lowest version of torch that `pyproject.toml` allows is the one that is installed for the tests."""

from __future__ import annotations

import re

from tests.helpers.places import ROOT


def test_the_lowest_torch_is_tested() -> None:
    """`make lowest` leaves it out, because it is large: the environment of `make torch` has it."""
    allowed = re.search(r'^    "torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    tested = re.search(r"^torch==([\d.]+?)(\.0)?$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert allowed is not None and tested is not None and allowed[1] == tested[1]
