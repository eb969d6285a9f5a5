"""The header of a .bit file. https://docs.amd.com/r/en-US/ug470_7Series_Config describes the data after it.

It has a field of 9 bytes and the number 1, then fields of a letter, a length of 2 bytes and a text that ends with NUL:
a is the design, b the part, c the date, d the time. The last field, e, has a length of 4 bytes and the configuration.
"""

from __future__ import annotations

import struct

from bitlane.errors import BitlaneError

START = bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001")
DATE, TIME = "1970/01/01", "00:00:00"  # constant: the same sources make the same bitstream


def with_header(bitstream: bytes, design: str, part: str) -> bytes:
    """Return `bitstream` with a new header of this design and part, without time and place.

    Raises BitlaneError if `bitstream` does not start with a header.
    """
    fields = {"a": f"{design};Generator=bitlane", "b": part, "c": DATE, "d": TIME}
    header = START + b"".join(_field(letter, text) for letter, text in fields.items())
    configuration = _configuration(bitstream)
    return header + b"e" + struct.pack(">I", len(configuration)) + configuration


def _field(letter: str, text: str) -> bytes:
    data = text.encode("ascii") + b"\0"
    return letter.encode("ascii") + struct.pack(">H", len(data)) + data


def _configuration(bitstream: bytes) -> bytes:
    """Return field e."""
    at = len(START)
    for letter in b"abcd":
        if bitstream[: len(START)] != START or bitstream[at : at + 1] != bytes([letter]):
            break
        at += 3 + int.from_bytes(bitstream[at + 1 : at + 3], "big")
    length = int.from_bytes(bitstream[at + 1 : at + 5], "big")
    if bitstream[at : at + 1] != b"e" or len(bitstream) != at + 5 + length:
        raise BitlaneError("the output of xc7frames2bit is not a .bit file")
    return bitstream[at + 5 :]
