"""Read project X-Ray's database of a part: the frame bits of each feature.

The files of a family (https://prjxray.readthedocs.io, "Database"): `<fabric>/tilegrid.json` has the tiles,
`segbits_<type>.db` and `segbits_<type>.block_ram.db` the bits of a tile's features relative to its location,
`ppips_<type>.db` the permanent connections, which have no bits, and `<part>/` the files of one part.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError

from .fasm import Feature, parse

WORD_BITS = 32
FRAME_WORDS = 101  # of a 7-series frame
BUSES = {"CLB_IO_CLK": "", "BLOCK_RAM": ".block_ram"}  # configuration bus -> ending of the segbits files
INDEX = re.compile(r"\[0*(\d)")  # the database pads a vector's indices with zeros


@dataclass(frozen=True)
class Bit:
    """One bit of the configuration: address of its frame, word of the frame, bit of the word, and value."""

    frame: int
    word: int
    bit: int
    is_set: bool


@dataclass(frozen=True)
class SegmentBit:
    """A bit relative to the first frame and the first word of a tile; `bit` counts through the words."""

    bus: str
    frame: int
    bit: int
    is_set: bool


class Database:
    """The database of one part.

    Parameters
    ----------
    root : Path
        Folder of the part's family, `.../prjxray/database/zynq7`.
    part : str
        The part with package and speed grade, such as xc7z020clg400-1.

    Attributes
    ----------
    part_file : Path
        part.yaml, an input of xc7frames2bit and bitread.

    Raises
    ------
    BitlaneError
        If the folder lacks the part or one of its files.
    """

    NAME = "prjxray-database"  # in manifests

    def __init__(self, root: Path, part: str):
        self._root = root
        self._part = part
        self._digest = hashlib.sha256()
        self.part_file = root / part / "part.yaml"
        self._text(self.part_file)  # first, for the error of a missing part
        grids = (grid for grid in root.glob("*/tilegrid.json") if part.startswith(grid.parent.name))
        grid = next(grids, root / "tilegrid.json")
        self._tiles: dict[str, dict[str, Any]] = json.loads(self._text(grid))
        self._segments = cache(self._read_segments)
        self._free = cache(self._read_free)

    @property
    def digest(self) -> str:
        """SHA-256 over the files read so far: equal for the same features of the same database."""
        return self._digest.hexdigest()

    def required(self) -> list[Feature]:
        """Return the features that the part requires for every design."""
        file = self._root / self._part / "required_features.fasm"
        return list(parse(self._text(file), file.name)) if file.exists() else []

    def bits(self, feature: Feature) -> list[Bit]:
        """Return the bits of a feature; a permanent connection has none. Raises BitlaneError for an unknown feature."""
        tile = self._tiles.get(feature.tile)
        if tile is None:
            raise BitlaneError(f"{feature.location}: {self._part} has no tile {feature.tile}")
        kind: str = tile["type"]
        if feature.name in self._free(kind):
            return []
        blocks: dict[str, dict[str, Any]] = tile.get("bits", {})
        aliases = [location["alias"] for location in blocks.values() if "alias" in location]
        borrowed: str = aliases[0]["type"] if aliases else kind
        site, dot, rest = feature.name.partition(".")
        renamed = aliases[0]["sites"].get(site, site) if aliases else site
        known = self._segments(borrowed).get(renamed + dot + rest)
        if known is None or any(bit.bus not in blocks for bit in known):
            raise BitlaneError(
                f"{feature.location}: the database does not know feature {feature.name} of tile {feature.tile} ({kind})"
            )
        return [_bit_at(bit, blocks[bit.bus]) for bit in known]

    def _read_segments(self, kind: str) -> dict[str, list[SegmentBit]]:
        """Return the features of a type of tile: names without the type, and bits."""
        segments: dict[str, list[SegmentBit]] = {}
        for bus, ending in BUSES.items():
            file = self._root / f"segbits_{kind.lower()}{ending}.db"
            for name, *bits in _lines(self._text(file)) if file.exists() else ():
                segments[_within(name)] = [_segment_bit(bus, bit, file) for bit in bits]
        return segments

    def _read_free(self, kind: str) -> frozenset[str]:
        """Return the features of a type of tile that have no bits."""
        file = self._root / f"ppips_{kind.lower()}.db"
        return frozenset(_within(name) for name, *_ in _lines(self._text(file))) if file.exists() else frozenset()

    def _text(self, file: Path) -> str:
        try:
            text = file.read_text()
        except OSError as error:
            raise BitlaneError(
                f"the project X-Ray database has no {file}: is {self._part} one of its parts?"
            ) from error
        self._digest.update(text.encode())
        return text


def _lines(text: str) -> list[list[str]]:
    return [fields for line in text.splitlines() if (fields := line.split())]


def _within(name: str) -> str:
    """Return a feature's name without the type of its tile, and indices without leading zeros."""
    return INDEX.sub(r"[\1", name.partition(".")[2])


def _segment_bit(bus: str, text: str, file: Path) -> SegmentBit:
    match = re.fullmatch(r"(!?)(\d+)_(\d+)", text)
    if match is None:
        raise BitlaneError(f"{file}: {text!r} is not a bit; bits look like 28_15 or !28_15")
    return SegmentBit(bus, int(match[2]), int(match[3]), not match[1])


def _bit_at(bit: SegmentBit, block: dict[str, Any]) -> Bit:
    """Return the bit of a tile in this block; a tile with an alias starts inside the features of the other type."""
    first = block["offset"] - block.get("alias", {}).get("start_offset", 0)
    return Bit(int(block["baseaddr"], 16) + bit.frame, first + bit.bit // WORD_BITS, bit.bit % WORD_BITS, bit.is_set)
