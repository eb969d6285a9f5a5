"""The header of a .bit file. https://docs.amd.com/r/en-US/ug470_7Series_Config describes the data after it.

It has a field of 9 bytes and the number 1, then fields of a letter, a length of 2 bytes and a text that ends with NUL:
a is the design, b the part, c the date, d the time. The last field, e, has a length of 4 bytes and the configuration.
"""

from __future__ import annotations

import struct

from bitlane.errors import BitlaneError

START = bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001")
TEXTS = "abcd"
DATE, TIME = "1970/01/01", "00:00:00"  # constant: the same sources make the same bitstream


def with_header(bitstream: bytes, design: str, part: str) -> bytes:
    """Return `bitstream` with a new header of this design and part, without date and time.

    Raises BitlaneError if `bitstream` does not start with a header.
    """
    _, configuration = _split(bitstream)
    return _joined({"a": f"{design};Generator=bitlane", "b": part, "c": DATE, "d": TIME}, configuration)


def with_board(bitstream: bytes, board: str) -> bytes:
    """Return `bitstream` with the name of a board behind that of the design; the configuration stays the same.

    pynq keeps what it read from a handoff under the hash of the .bit. So boards with the same configuration but
    different handoffs need files that differ.

    Raises BitlaneError if `bitstream` does not start with a header.
    """
    texts, configuration = _split(bitstream)
    return _joined({**texts, "a": f"{texts['a']};Board={board}"}, configuration)


def _joined(texts: dict[str, str], configuration: bytes) -> bytes:
    fields = b"".join(_field(letter, text) for letter, text in texts.items())
    return START + fields + b"e" + struct.pack(">I", len(configuration)) + configuration


def _field(letter: str, text: str) -> bytes:
    data = text.encode("ascii") + b"\0"
    return letter.encode("ascii") + struct.pack(">H", len(data)) + data


def _split(bitstream: bytes) -> tuple[dict[str, str], bytes]:
    """Return the texts of the fields a to d, and field e."""
    at = len(START)
    texts = {}
    for letter in TEXTS:
        if bitstream[: len(START)] != START or bitstream[at : at + 1] != letter.encode():
            break
        end = at + 3 + int.from_bytes(bitstream[at + 1 : at + 3], "big")
        texts[letter] = bitstream[at + 3 : end].rstrip(b"\0").decode("ascii", "replace")
        at = end
    length = int.from_bytes(bitstream[at + 1 : at + 5], "big")
    if len(texts) < len(TEXTS) or bitstream[at : at + 1] != b"e" or len(bitstream) != at + 5 + length:
        raise BitlaneError("not a .bit file: its header or its length is wrong")
    return texts, bitstream[at + 5 :]
