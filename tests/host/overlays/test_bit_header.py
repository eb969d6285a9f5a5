"""The header of a .bit file, read field by field as in PYNQ."""

from __future__ import annotations

import struct

import pytest

from bitlane.errors import BitlaneError
from bitlane.overlays.bit_header import with_board, with_header

CONFIGURATION = bytes(range(256)) * 3


def written(design: bytes, date: bytes) -> bytes:
    """Return a file as xc7frames2bit writes it, with the time of day."""
    fields = [b"a" + design, b"bxc7z020clg400-1", b"c" + date, b"d12:34:56"]
    texts = b"".join(field[:1] + struct.pack(">H", len(field)) + field[1:] + b"\0" for field in fields)
    start = bytes([0, 9, 0x0F, 0xF0, 0x0F, 0xF0, 0x0F, 0xF0, 0x0F, 0xF0, 0, 0, 1])
    return start + texts + b"e" + struct.pack(">I", len(CONFIGURATION)) + CONFIGURATION


def fields(bitstream: bytes) -> dict[str, bytes]:
    found, at = {}, 2 + int.from_bytes(bitstream[:2], "big") + 2
    while bitstream[at : at + 1] != b"e":
        length = int.from_bytes(bitstream[at + 1 : at + 3], "big")
        found[chr(bitstream[at])] = bitstream[at + 3 : at + 3 + length]
        at += 3 + length
    assert int.from_bytes(bitstream[at + 1 : at + 5], "big") == len(bitstream) - at - 5
    return {**found, "e": bitstream[at + 5 :]}


def test_the_header_has_neither_time_nor_place() -> None:
    """Headers of two days and folders have the same bytes and the expected fields."""
    made = {
        with_header(written(design, date), "bitlane", "xc7z020clg400-1")
        for design in (b"/home/one/top.frm;Generator=xc7frames2bit", b"top.frm")
        for date in (b"2026/01/01", b"2031/12/31")
    }
    assert len(made) == 1
    found = fields(made.pop())
    assert found["a"].split(b";")[0] == b"bitlane"
    assert found["b"] == b"xc7z020clg400-1\0"
    assert (found["c"], found["d"]) == (b"1970/01/01\0", b"00:00:00\0")
    assert found["e"] == CONFIGURATION


def test_files_of_two_boards_differ_in_the_name_alone() -> None:
    made = with_header(written(b"top.frm", b"2026/01/01"), "bitlane", "xc7z020clg400-1")
    before, one, two = fields(made), fields(with_board(made, "Pynq-Z1")), fields(with_board(made, "Pynq-Z2"))
    assert one.pop("a") == b"bitlane;Generator=bitlane;Board=Pynq-Z1\0"
    assert two.pop("a") == b"bitlane;Generator=bitlane;Board=Pynq-Z2\0"
    assert before.pop("a") == b"bitlane;Generator=bitlane\0"
    assert before == one == two


@pytest.mark.parametrize("broken", [b"", b"\0\x09nothing", written(b"a", b"b")[:-1], written(b"a", b"b")[1:]])
def test_other_files_are_errors(broken: bytes) -> None:
    with pytest.raises(BitlaneError, match=r"not a \.bit file"):
        with_header(broken, "bitlane", "xc7z020clg400-1")
    with pytest.raises(BitlaneError, match=r"not a \.bit file"):
        with_board(broken, "Pynq-Z2")
