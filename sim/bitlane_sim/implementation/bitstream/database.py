"""What project X-Ray's database knows of a part: which bits of which frames a feature is.

The files of a family (https://prjxray.readthedocs.io, "Database"): `<fabric>/tilegrid.json` places tiles,
`segbits_<type>.db` and `segbits_<type>.block_ram.db` say the bits of a tile's features relative to its place,
`ppips_<type>.db` names connections that are always there and cost no bit, `<part>/` holds what is the part's own.
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
    """One bit of the configuration: address of its frame, word of the frame, bit of the word, and what it shall be."""

    frame: int
    word: int
    bit: int
    value: bool


@dataclass(frozen=True)
class SegmentBit:
    """A bit relative to a tile's first frame and first word; `bit` runs through the words."""

    bus: str
    frame: int
    bit: int
    value: bool


class Database:
    """The database of one part.

    Parameters
    ----------
    root: the folder of the part's family, `.../prjxray/database/zynq7`.
    part: with package and speed grade, xc7z020clg400-1.

    Attributes
    ----------
    part_file: part.yaml, which xc7frames2bit and bitread take.

    Raises BitlaneError where the folder does not have the part or one of its files.
    """

    def __init__(self, root: Path, part: str):
        self._root = root
        self._part = part
        self._digest = hashlib.sha256()
        self.part_file = root / part / "part.yaml"
        self._text(self.part_file)  # so that a part that is not there is told first
        grids = (grid for grid in root.glob("*/tilegrid.json") if part.startswith(grid.parent.name))
        grid = next(grids, root / "tilegrid.json")
        self._tiles: dict[str, dict[str, Any]] = json.loads(self._text(grid))
        self._segments = cache(self._read_segments)
        self._free = cache(self._read_free)

    @property
    def digest(self) -> str:
        """SHA-256 over the files read so far: the same features of the same database give the same."""
        return self._digest.hexdigest()

    def required(self) -> list[Feature]:
        """The features that the part needs whatever the design."""
        file = self._root / self._part / "required_features.fasm"
        return list(parse(self._text(file), file.name)) if file.exists() else []

    def bits(self, feature: Feature) -> list[Bit]:
        """The bits of a feature; none for a connection that is always there. BitlaneError for one that is unknown."""
        tile = self._tiles.get(feature.tile)
        if tile is None:
            raise BitlaneError(f"{feature.place}: {self._part} has no tile {feature.tile}")
        kind: str = tile["type"]
        if feature.name in self._free(kind):
            return []
        places: dict[str, dict[str, Any]] = tile.get("bits", {})
        aliases = [place["alias"] for place in places.values() if "alias" in place]
        borrowed: str = aliases[0]["type"] if aliases else kind
        site, dot, rest = feature.name.partition(".")
        renamed = aliases[0]["sites"].get(site, site) if aliases else site
        known = self._segments(borrowed).get(renamed + dot + rest)
        if known is None or any(bit.bus not in places for bit in known):
            raise BitlaneError(
                f"{feature.place}: the database does not know feature {feature.name} of tile {feature.tile} ({kind})"
            )
        return [_placed(bit, places[bit.bus]) for bit in known]

    def _read_segments(self, kind: str) -> dict[str, list[SegmentBit]]:
        """Features of a type of tile: their names without the type, and their bits."""
        found: dict[str, list[SegmentBit]] = {}
        for bus, ending in BUSES.items():
            file = self._root / f"segbits_{kind.lower()}{ending}.db"
            for name, *bits in _lines(self._text(file)) if file.exists() else ():
                found[_within(name)] = [_segment_bit(bus, bit, file) for bit in bits]
        return found

    def _read_free(self, kind: str) -> frozenset[str]:
        """Features of a type of tile that take no bits."""
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
    """A feature's name in the database without the type of its tile, indices without leading zeros."""
    return INDEX.sub(r"[\1", name.partition(".")[2])


def _segment_bit(bus: str, text: str, file: Path) -> SegmentBit:
    match = re.fullmatch(r"(!?)(\d+)_(\d+)", text)
    if match is None:
        raise BitlaneError(f"{file}: {text!r} is no bit")
    return SegmentBit(bus, int(match[2]), int(match[3]), not match[1])


def _placed(bit: SegmentBit, place: dict[str, Any]) -> Bit:
    """The bit of a tile with this place; a tile that borrows the features of another type starts within them."""
    first = place["offset"] - place.get("alias", {}).get("start_offset", 0)
    return Bit(int(place["baseaddr"], 16) + bit.frame, first + bit.bit // WORD_BITS, bit.bit % WORD_BITS, bit.value)
