"""The lines between coordinator and members."""

from __future__ import annotations

import pytest

from bitlane.compress.elastic.messages import packed, parse_address, unpacked
from bitlane.errors import DataError


def test_a_message_returns():
    line = packed("form", {"members": [["a\nb", "::1", 5]], "lost": []})
    assert line.count(b"\n") == 1
    assert unpacked(line) == {"kind": "form", "members": [["a\nb", "::1", 5]], "lost": []}


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"[]\n", b'{"kind": 3}\n', b"\xff\n", b"5\n"])
def test_another_program_is_told(line):
    with pytest.raises(DataError, match="another program uses this port"):
        unpacked(line)


def test_addresses():
    assert parse_address("10.0.0.1:29500") == ("10.0.0.1", 29500)
    assert parse_address("[::1]:80") == ("::1", 80)
    for text in ("", "host", "host:", ":80", "host:0", "host:70000", "host:x", None):
        with pytest.raises(DataError, match="HOST:PORT"):
            parse_address(text)
