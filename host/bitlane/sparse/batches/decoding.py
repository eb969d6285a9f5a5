"""Text of any encoding, with comments, as UTF-8 without them."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import codecs
import re

import pyarrow as pa

REMEDY = "say what it is, such as --encoding latin1"  # of text that is no UTF-8
_STEP = 1 << 16  # bytes


def decoded(encoded: pa.NativeFile, encoding: str | None, comment: str | None, drop: bool) -> pa.NativeFile:
    """Return a stream of bytes as one of UTF-8.

    Parameters
    ----------
    encoded : pyarrow.NativeFile
    encoding : str or None
        Of the stream; None: UTF-8.
    comment : str or None
        What begins a line that is a comment; None: no line is.
    drop : bool
        Whether comments are left out; else they become empty lines, so that lines keep their numbers.
    """
    if encoding is not None:
        encoded = pa.transcoding_input_stream(encoded, encoding, "utf-8")
    return encoded if comment is None else pa.PythonFile(_Uncommented(encoded, comment, drop), mode="r")


def seems_utf8(head: bytes) -> bool:
    """Whether the first bytes of a file are UTF-8 that is not ASCII, and so hardly of another encoding."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not text.isascii()


class _Uncommented:
    """A file that is read, as `pyarrow.PythonFile` needs it, without its comments."""

    closed = False

    def __init__(self, commented: pa.NativeFile, comment: str, drop: bool):
        self._stream = commented
        self._pattern = re.compile(rb"^" + re.escape(comment.encode()) + (rb"[^\n]*\n?" if drop else rb"[^\n]*"), re.M)
        self._ready = self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; none at the end."""
        while not 0 <= size <= len(self._ready):
            block = self._stream.read(max(size, _STEP))
            lines = self._rest + block
            cut = lines.rfind(b"\n") + 1 if block else len(lines)
            self._rest = lines[cut:]
            self._ready += self._pattern.sub(b"", lines[:cut])
            if not block:
                break
        end = len(self._ready) if size < 0 else size
        found, self._ready = self._ready[:end], self._ready[end:]
        return found

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def writable(self) -> bool:
        """Whether it can be written."""
        return False

    def seekable(self) -> bool:
        """Whether it can be read anywhere."""
        return False

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        self.closed = True
