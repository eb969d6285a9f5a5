"""The text of the study: the modules in the order of their names, cut without overlap."""

from __future__ import annotations

import pytest
import torch

from bitlane.errors import BitlaneError
from bitlane_studies.compression.local.text import BYTES, HELD_OUT, load_text, windows

pytestmark = pytest.mark.torch


def test_modules_are_joined_by_name_and_the_end_is_held_out(tmp_path):
    (tmp_path / "b.py").write_bytes(b"defghi")
    (tmp_path / "a.py").write_bytes(b"abc")
    (tmp_path / "c.txt").write_bytes(b"xyz")
    text = load_text(8, 3, tmp_path)
    assert bytes(text.training.tolist()) == b"abcde"
    assert bytes(text.held_out.tolist()) == b"fgh"


def test_too_little_text_is_one_line(tmp_path):
    (tmp_path / "a.py").write_bytes(b"abc")
    with pytest.raises(BitlaneError, match="have 3 bytes; 4 are needed"):
        load_text(4, 1, tmp_path)


def test_this_python_has_enough_text():
    text, again = load_text(), load_text()
    assert len(text.training) == BYTES - HELD_OUT and len(text.held_out) == HELD_OUT
    assert torch.equal(text.training, again.training) and torch.equal(text.held_out, again.held_out)


def test_windows_do_not_overlap_and_targets_are_the_next_bytes():
    inputs, targets = windows(torch.arange(10, dtype=torch.uint8), 3)
    assert inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert len(windows(torch.arange(9, dtype=torch.uint8), 3)[0]) == 2  # the last window needs a next byte
