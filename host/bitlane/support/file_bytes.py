"""The bytes of an open file: in memory or mapped, and their SHA-256."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable
from typing import Any

_BLOCK = 1 << 24  # bytes that are read at once


def mapped_bytes(file: int) -> Any:
    """Return a private map of a file, which may be written to and never changes the file."""
    size = os.fstat(file).st_size
    return mmap.mmap(file, size, access=mmap.ACCESS_COPY) if size else b""


def copied_bytes(file: int) -> Any:
    """Return a copy of a file in memory that begins at a page, so that tables need no second copy."""
    size, done = os.fstat(file).st_size, 0
    if not size:
        return b""
    content = memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    with open(file, "rb", buffering=0, closefd=False) as source:
        while count := source.readinto(content[done : done + _BLOCK]):
            done += count
    return content[:done]


def sha256_of(blocks: Iterable[Any]) -> str:
    """Return the SHA-256 of objects with the buffer protocol, one after the other, in hexadecimal digits."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
