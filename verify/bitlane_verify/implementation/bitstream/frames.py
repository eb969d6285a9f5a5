"""Convert features to frames, and frames to and from the text formats of project X-Ray."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bitlane.errors import BitlaneError

from .database import FRAME_WORDS, Bit, Database
from .fasm import Feature

Frames = dict[int, list[int]]
"""Address of a frame -> its 101 words of 32 bits. A missing frame is all zeros."""


def assemble(features: Iterable[Feature], database: Database) -> Frames:
    """Return the frames of these features and of those that the part requires.

    Raises BitlaneError for an unknown feature, and for a bit that one feature sets and another clears.
    """
    frames: Frames = {}
    owners: dict[tuple[int, int, int], tuple[Bit, Feature]] = {}
    for feature in (*features, *database.required()):
        for bit in database.bits(feature):
            before, owner = owners.setdefault((bit.frame, bit.word, bit.bit), (bit, feature))
            if before.is_set != bit.is_set:
                raise BitlaneError(_conflict(feature, owner, bit))
            words = frames.setdefault(bit.frame, [0] * FRAME_WORDS)
            words[bit.word] |= bit.is_set << bit.bit
    return frames


def _conflict(feature: Feature, other: Feature, bit: Bit) -> str:
    does, did = ("sets", "clears") if bit.is_set else ("clears", "sets")
    return (
        f"{feature.location}: feature {feature.name} of tile {feature.tile} {does} bit {bit.bit} of word {bit.word} "
        f"of frame 0x{bit.frame:08X}, which {other.name} of {other.tile} ({other.location}) {did}"
    )


def to_frm(frames: Frames) -> str:
    """Return the input of xc7frames2bit: a line for each frame in ascending order."""
    return "".join(
        f"0x{address:08X} " + ",".join(f"0x{word:08X}" for word in frames[address]) + "\n" for address in sorted(frames)
    )


def from_bitread(text: str) -> Frames:
    """Return the frames in the output of `bitread -o`: `.frame ADDRESS`, then the words in hexadecimal.

    bitread omits the checksum that xc7frames2bit writes into each frame (bits 0 to 12 of word 50).
    """
    header, *blocks = re.split(r"^\.frame +", text, flags=re.MULTILINE)
    frames = {int(block.split()[0], 16): [int(word, 16) for word in block.split()[1:]] for block in blocks}
    if header.strip() or any(len(words) != FRAME_WORDS for words in frames.values()):
        raise BitlaneError(f"the output of bitread is not a list of frames of {FRAME_WORDS} words")
    return frames


def difference(wanted: Frames, actual: Frames) -> str | None:
    """Return the first difference between two sets of frames for a message, or None."""
    zeros = [0] * FRAME_WORDS
    for address in sorted(wanted.keys() | actual.keys()):
        if address not in actual:
            return f"frame 0x{address:08X} is missing"
        for word, (old, new) in enumerate(zip(wanted.get(address, zeros), actual[address], strict=True)):
            if old != new:
                return f"word {word} of frame 0x{address:08X} is 0x{new:08X} instead of 0x{old:08X}"
    return None
