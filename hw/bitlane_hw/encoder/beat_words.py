"""The words of a beat of an encoder: of which row of a group, and of which shard."""

from __future__ import annotations

from typing import NamedTuple

from bitlane.contract.config import AcceleratorConfig


class BeatWord(NamedTuple):
    """A word of a beat.

    Attributes
    ----------
    shard : int
        Its features are those of this shard.
    row : int
        Index of its row in the group.
    """

    shard: int
    row: int


def port_words(config: AcceleratorConfig, port: int) -> tuple[BeatWord, ...]:
    """Return the words of a beat that lie on a memory port, in order."""
    words = config.words_per_beat // config.ports
    first = words * port
    return tuple(BeatWord(*divmod(word, config.rows_per_beat)) for word in range(first, first + words))
