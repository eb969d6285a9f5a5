"""Reading of a file with an encoded table: what frames its blocks, and the blocks as a memory map."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats

from .layout import (
    ROOT_BYTES,
    Beside,
    BlockEntry,
    Root,
    TableDescription,
    damaged,
    read_root,
    unpack_index,
)
from .plane_blocks import PlaneBlocks


def read_frame(file: Any, name: str) -> tuple[Root, TableDescription, bytes]:
    """Return the root, the description and the index of a finished file; DataError if they are damaged."""
    file.seek(0)
    root = read_root(file.read(ROOT_BYTES), name)
    if root.job or not root.index_offset:
        raise DataError(f"{name} is not finished: run the command that wrote it again")
    description = file.read(root.described)
    file.seek(root.index_offset)
    index = file.read(root.index_bytes)
    if len(description) < root.described or len(index) < root.index_bytes:
        raise DataError(f"{name} is truncated: encode it again")
    parts = ((description, root.described_check, "its description"), (index, root.index_check, "its index"))
    for content, check, what in parts:
        if zlib.crc32(content) != check:
            raise damaged(name, what)
    return root, TableDescription.unpacked(description), index


class TableFile:
    """A finished file, mapped into memory. A part of it is checked when it is read for the first time.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    description : TableDescription
    statistics : ColumnStatistics
        Of all rows.
    rows : int

    Raises
    ------
    DataError
        The file is missing, truncated, damaged, of a newer version, or no encoded table.
    """

    def __init__(self, path: Path):
        try:
            with path.open("rb") as file:
                root, self.description, index = read_frame(file, path.name)
            self._bytes: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        self._name, self.rows = path.name, root.rows
        self._blocks, self.statistics = unpack_index(index, self.description)
        self._checked = [0] * len(self._blocks)  # planes of each block

    def planes(self) -> PlaneBlocks:
        """Return the planes of all blocks."""
        digits, chunks = self.description.codes.digits, self.description.codes.chunks
        found = []
        for block in self._blocks:
            size = digits * self.description.plane_bytes(block.rows)
            words = self._bytes[block.offset : block.offset + size].view(np.uint64)
            found.append(words.reshape(digits, block.rows, chunks))
        checks = np.array([block.checks[:digits] for block in self._blocks], np.uint32)
        return PlaneBlocks(found, len(self.description.codes.active), self._verify, checks)

    def beside(self) -> tuple[Floats, Floats | None, NDArray[np.int64] | None]:
        """Return the labels [rows, targets], weights [rows] or None, and groups [rows] or None of all rows."""
        found = [self._beside(number, block) for number, block in enumerate(self._blocks)]
        weights = np.concatenate([each.weights for each in found]) if self.description.weights else None
        groups = np.concatenate([each.groups for each in found]) if self.description.groups else None
        return np.concatenate([each.y for each in found]), weights, groups

    def _beside(self, number: int, block: BlockEntry) -> Beside:
        description = self.description
        planes = description.codes.digits * description.plane_bytes(block.rows)
        size = description.block_bytes(block.rows)
        content = self._bytes[block.offset + planes : block.offset + size].tobytes()
        rest, trailer = content[: -description.trailer_bytes], content[-description.trailer_bytes :]
        if zlib.crc32(rest) != block.checks[-1] or trailer != block.trailer():
            raise damaged(self._name, f"block {number}")
        return description.beside(rest, block.rows)

    def _verify(self, number: int, digits: int) -> None:
        """Check the first planes of a block that were not checked before."""
        block = self._blocks[number]
        size = self.description.plane_bytes(block.rows)
        for digit in range(self._checked[number], digits):
            start = block.offset + digit * size
            if zlib.crc32(self._bytes[start : start + size].data) != block.checks[digit]:
                raise damaged(self._name, f"plane {digit} of block {number}")
            self._checked[number] = digit + 1
