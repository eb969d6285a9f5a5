"""Which file it is: its name, its size, and a digest of parts of its bytes."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitlane.sparse.batches.files import DataFile

_BLOCK = 1 << 16  # bytes
_BLOCKS = 16


@dataclass(frozen=True)
class FileIdentity:
    """A file, as a manifest keeps it.

    Attributes
    ----------
    name : str
        Path or URI.
    bytes : int
    digest : str
        BLAKE2b, 16 bytes, of the size and of sixteen blocks of 64 KiB at even distances, the first and the last bytes
        among them: of all bytes up to 1 MiB. A larger file costs no more.
    """

    name: str
    bytes: int
    digest: str

    def as_json(self) -> dict[str, Any]:
        """Return the identity as JSON takes it."""
        return asdict(self)


def identify(file: DataFile) -> FileIdentity:
    """Return the identity of a file.

    Raises
    ------
    DataError
        It cannot be read.
    """
    from bitlane.sparse.batches.files import reading

    found = hashlib.blake2b(str(file.size).encode(), digest_size=16)
    last = max(file.size - _BLOCK, 0)
    with reading(file.name), file.open_file() as opened:
        if file.size <= _BLOCK * _BLOCKS:
            found.update(opened.read())
        else:
            for block in range(_BLOCKS):
                opened.seek(last * block // (_BLOCKS - 1))
                found.update(opened.read(_BLOCK))
    return FileIdentity(file.name, file.size, found.hexdigest())
