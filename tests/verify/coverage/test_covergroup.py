"""Coverpoints and bins: a bin is empty until it is hit."""

from __future__ import annotations

import pytest

from bitlane_verify.coverage.covergroup import Covergroup


def test_a_bin_is_hit_or_empty() -> None:
    group = Covergroup()
    group.cross("both", "ab", (1, 2))
    group.hit("both", "a", 2)
    group.hit("both", "b", 1, times=0)
    assert group.table() == [("both", 1, 4)]
    assert group.missed() == ["both: a x 1", "both: b x 1", "both: b x 2"]


def test_only_declared_bins_can_be_hit() -> None:
    group = Covergroup()
    group.declare("side", ("low", "high"))
    with pytest.raises(KeyError):
        group.hit("side", "left")
    with pytest.raises(ValueError, match="coverpoint 'side' is declared twice"):
        group.declare("side", ("low",))
    with pytest.raises(ValueError, match="coverpoint 'empty' has no bins"):
        group.declare("empty", ())


def test_a_selection_keeps_its_hits() -> None:
    group = Covergroup()
    for name in "abc":
        group.declare(name, ("x",))
    group.hit("b", "x")
    assert group.only("b", "c").table() == [("b", 1, 1), ("c", 0, 1)]
