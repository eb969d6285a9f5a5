"""The coverpoints of table lanes."""

from __future__ import annotations

from itertools import product

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, level_slots

from .covergroup import Covergroup, crossed
from .reference_events import DRAWS, POSITIONS, position

CLIPPED = ("c_1", "c_2")
ROOM = ("full", "partial")
CHUNK_COUNTS = ("one", "odd", "even")  # a word of half digits serves two chunks


def declare(group: Covergroup, config: AcceleratorConfig) -> None:
    """Add the coverpoints, empty."""
    group.declare("base bits", CODEBOOK_BITS)
    group.cross("base bits, chunks", CODEBOOK_BITS, CHUNK_COUNTS)
    group.cross("base bits, last batch", CODEBOOK_BITS, ("full", "partial"))
    group.cross("base bits, staleness", CODEBOOK_BITS, ("fresh", "stale"))
    can_fill = [
        bits for bits in CODEBOOK_BITS if CHUNK * config.level_slots // level_slots(bits) <= config.max_features
    ]
    rooms = [(bits, room) for bits, room in product(CODEBOOK_BITS, ROOM) if room != "full" or bits in can_fill]
    group.declare("base bits, room for levels", (crossed(*each) for each in rooms))
    group.declare("level", ("smallest", "negative", "zero", "positive", "largest"))
    group.declare("equal levels of a feature", ("none", "some", "all"))
    group.declare("interval of a sample", ("no width", "some width", "full range"))
    group.cross("interval, width, samples", ("no", "some"), ("none", "some"))
    intervals = [
        (bits, level)
        for bits in CODEBOOK_BITS
        for level in dict.fromkeys(position(number, 1 << bits) for number in range(1 << bits))
    ]
    group.declare("base bits, interval, draws", (crossed(*each, draws) for each, draws in product(intervals, DRAWS)))
    group.cross("base bits, codebook of a chunk", CODEBOOK_BITS, POSITIONS)


def sample_registers(group: Covergroup, registers: dict[str, int], config: AcceleratorConfig, last_batch: str) -> None:
    """Sample the registers after a run without an error."""
    bits = registers["base_digits"]  # with table lanes the field holds bits
    chunks = -(-registers["features"] // CHUNK)
    group.hit("base bits", bits)
    group.hit("base bits, chunks", bits, "one" if chunks == 1 else "odd" if chunks % 2 else "even")
    group.hit("base bits, last batch", bits, last_batch)
    group.hit("base bits, staleness", bits, ("fresh", "stale")[registers["staleness"]])
    full = chunks * level_slots(bits) == registers["level_slots"]
    group.hit("base bits, room for levels", bits, ROOM[not full])
