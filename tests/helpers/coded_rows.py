"""Rows of codes for table lanes, and the levels that they select."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.helpers.integer_model import pack, random_int


class CodedRow:
    """A row of codes for table lanes: codes [chunk][lane], draws [chunk][lane] as 2 u1 + u2.

    Level k of the feature of a lane in chunk c is in slot c * (2 << base_bits) + k of the memory of that lane.
    """

    def __init__(self, rng: Random, chunks: int, base_bits: int):
        self.base_bits = base_bits
        self.codes = [[rng.randrange(1 << base_bits) for _ in range(32)] for _ in range(chunks)]
        self.draws = [[rng.randrange(4) for _ in range(32)] for _ in range(chunks)]

    def words(self) -> Iterator[dict[str, int]]:
        """Yield the words of the row with their chunks, in the order of the layout."""
        for chunk, codes in enumerate(self.codes):
            if self.base_bits % 2 and chunk % 2 == 0:
                pair = [code for codes in self.codes[chunk : chunk + 2] for code in codes]
                half_digits = [code >> self.base_bits - 1 for code in pair]
                yield {"word": pack(half_digits, 1), "chunk": chunk, "half_digit": 1, "draw": 0}
            if self.base_bits > 1:
                yield {"word": pack([code % 4 for code in codes], 2), "chunk": chunk, "half_digit": 0, "draw": 0}
            yield {"word": pack(self.draws[chunk], 2), "chunk": chunk, "half_digit": 0, "draw": 1}

    def addresses(self, chunk: int) -> tuple[list[int], list[int]]:
        """Return the slots of the levels that the first draws of a chunk select, and those of the second draws."""
        first_slot = chunk * (2 << self.base_bits)
        rows = list(zip(self.codes[chunk], self.draws[chunk], strict=True))
        return [first_slot + code + draw // 2 for code, draw in rows], [
            first_slot + code + draw % 2 for code, draw in rows
        ]


def random_slots(rng: Random, slots: int) -> list[list[int]]:
    """Return the content of the level memories, [lane][slot]: levels of any magnitude, often extreme ones."""
    return [[random_int(rng, 18) for _ in range(slots)] for _ in range(32)]


def read_levels(slots: list[list[int]], addresses: int) -> int:
    """Return the levels that a port of these memories returns for some addresses."""
    bits = (len(slots[0]) - 1).bit_length()
    return pack([lane[addresses >> bits * j & (1 << bits) - 1] for j, lane in enumerate(slots)], 18)
