"""The memory layout in numbers: words, chunks, digits, and the largest sizes."""

from __future__ import annotations

WORD_BITS = 64
WORD_BYTES = WORD_BITS // 8
ROWS_PER_BEAT = (1, 2, 4, 8)  # a beat has a word of each of these rows for every shard
SHARDS = (1, 2, 4, 8)  # of the features of a row
BEAT_WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)  # of all words of a beat, which are on one port or on several
PORTS = (1, 2, 4, 8, 16)  # of memory; each has as many words of a beat
PORT_WIDTHS = (64, 128, 256, 512)
CHUNK = 32  # features whose digits share one word; with shards a chunk has as many in each
DIGIT_BITS = 2  # a radix-4 digit; 32 of them fill a word
MAX_DIGITS = 16  # 32 stored bits a feature
CODEBOOK_BITS = (1, 2, 3)  # base bits of a feature whose levels are in a table: 3, 5 or 9 levels
DEFAULT_LEVEL_SLOTS = 4096  # of a build with table lanes: 16,384 features of 5 levels
LABELS_PER_WORD = 4
BURST_BEATS = 16  # longest AXI burst; both Zynq families cut longer ones
CHUNK_MODEL_WORDS = CHUNK * 32 // WORD_BITS
CHUNK_MODEL_BYTES = CHUNK_MODEL_WORDS * WORD_BYTES
MAX_OUTPUTS = 15  # their losses and the cycles fit a record of 16 words


def level_count(base_bits: int) -> int:
    """Return the number of levels of a feature with `base_bits` base bits: ``2**base_bits + 1``."""
    return (1 << base_bits) + 1


def level_slots(base_bits: int) -> int:
    """Return the slots that the levels of a chunk take in the table of a lane: a power of two."""
    return 2 << base_bits


def record_words(outputs: int, port_words: int) -> int:
    """Return the words of a trace record: the cycles, the loss of each output, and zeros as padding.

    The padding fills the record up to a power of two, and to complete beats of a port with so many words.
    """
    return max(1 << outputs.bit_length(), port_words)


# A clipped row adds 2**38 units to a loss, which has 64 bits with a sign: it overflows at 2**25 clipped rows an epoch.
# The limit counts groups. Builds of 4 and 8 rows a beat may have 2**26 and 2**27 rows an epoch; there the loss is wrong
# if 2**25 rows or more are clipped.
MAX_ROWS = (1 << 24) - 1
MAX_EPOCHS = (1 << 16) - 1
