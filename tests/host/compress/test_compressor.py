"""The settings of parts of a gradient."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_parts_differ_in_their_seeds_only():
    from bitlane.compress import QSGD, EFSign
    from bitlane.compress.compressor import part_compressor

    whole = QSGD(bits=3, seed=7)
    parts = [part_compressor(whole, index) for index in range(4)]
    assert parts[0] is whole and len({each.seed for each in parts}) == 4
    assert {repr(each).replace(str(each.seed), "") for each in parts} == {repr(whole).replace("7", "")}
    assert part_compressor(EFSign(), 3) == EFSign()
