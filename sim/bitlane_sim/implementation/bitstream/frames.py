"""Features to frames, and frames to and from the texts of project X-Ray's programs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bitlane.errors import BitlaneError

from .database import FRAME_WORDS, Bit, Database
from .fasm import Feature

Frames = dict[int, list[int]]
"""Address of a frame -> its 101 words of 32 bits. A frame that is not there is all zeros."""


def assemble(features: Iterable[Feature], database: Database) -> Frames:
    """The frames that these features make, with those that the part needs.

    Raises BitlaneError for a feature that the database does not know, and for a bit that one feature sets and
    another clears.
    """
    frames: Frames = {}
    owners: dict[tuple[int, int, int], tuple[Bit, Feature]] = {}
    for feature in (*features, *database.required()):
        for bit in database.bits(feature):
            before, owner = owners.setdefault((bit.frame, bit.word, bit.bit), (bit, feature))
            if before.value != bit.value:
                raise BitlaneError(_conflict(feature, owner, bit))
            words = frames.setdefault(bit.frame, [0] * FRAME_WORDS)
            words[bit.word] |= bit.value << bit.bit
    return frames


def _conflict(feature: Feature, other: Feature, bit: Bit) -> str:
    does, did = ("sets", "clears") if bit.value else ("clears", "sets")
    return (
        f"{feature.place}: feature {feature.name} of tile {feature.tile} {does} bit {bit.bit} of word {bit.word} "
        f"of frame 0x{bit.frame:08X}, which {other.name} of {other.tile} ({other.place}) {did}"
    )


def to_frm(frames: Frames) -> str:
    """The text that xc7frames2bit takes: a line a frame, by rising address."""
    return "".join(
        f"0x{address:08X} " + ",".join(f"0x{word:08X}" for word in frames[address]) + "\n" for address in sorted(frames)
    )


def from_bitread(text: str) -> Frames:
    """The frames that `bitread -o` wrote: `.frame ADDRESS`, then the words, in hexadecimal.

    bitread leaves out the check sum that xc7frames2bit put into each frame (bits 0 to 12 of word 50).
    """
    header, *blocks = re.split(r"^\.frame +", text, flags=re.MULTILINE)
    frames = {int(block.split()[0], 16): [int(word, 16) for word in block.split()[1:]] for block in blocks}
    if header.strip() or any(len(words) != FRAME_WORDS for words in frames.values()):
        raise BitlaneError(f"bitread's output is not frames of {FRAME_WORDS} words")
    return frames


def difference(wanted: Frames, found: Frames) -> str | None:
    """Where two sets of frames first differ, for a message; None where they are the same."""
    zeros = [0] * FRAME_WORDS
    for address in sorted(wanted.keys() | found.keys()):
        if address not in found:
            return f"frame 0x{address:08X} is missing"
        for word, (old, new) in enumerate(zip(wanted.get(address, zeros), found[address], strict=True)):
            if old != new:
                return f"word {word} of frame 0x{address:08X} is 0x{new:08X} where 0x{old:08X} was wanted"
    return None
