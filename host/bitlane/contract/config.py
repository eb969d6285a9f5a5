"""The build options of the accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.errors import DataError

from .encoding import MAX_ENCODER_SETS
from .layout import (
    BEAT_WIDTHS,
    BURST_BEATS,
    CHUNK,
    CHUNK_MODEL_WORDS,
    CODEBOOK_BITS,
    LABELS_PER_WORD,
    MAX_OUTPUTS,
    PORT_WIDTHS,
    PORTS,
    ROWS_PER_BEAT,
    SHARDS,
    WORD_BITS,
    level_count,
    level_slots,
    record_words,
)

ROW_BUFFER_MARGIN = 64  # beats that may be in flight between the dot lanes and the gradient lanes
LEAST_TABLE_ROW = 2  # words of the shortest row that table lanes read: base bits and draws of a chunk


@dataclass(frozen=True)
class AcceleratorConfig:
    """Options that are fixed when the accelerator is built. All other settings are run-time registers.

    Parameters
    ----------
    width : {64, 128, 256, 512, 1024, 2048, 4096}, default=64
        Bits of a beat, of all memory ports together. A beat has ``width / 64`` words, one of each of
        ``width / 64 / shards`` rows, which are at most 8, for every shard.
    outputs : int, default=1
        Models trained together on the same samples, 1 to 15.
    max_features : int, default=16384
        Features that the model memories of all shards hold: a power of two of at least ``64 * shards``.
    row_buffer_beats : int, default=4096
        Beats of samples stored between the two uses of a row. The longest row has `max_row_words` words.
    fifo_beats : int, default=256
        Beats prefetched for each stream. They must cover the read latency of the memory.
    address_bits : int, default=40
        Width of the addresses on the memory port, 32 to 64.
    level_slots : int, default=0
        0 for digit lanes. Otherwise table lanes with this many levels each, a power of two; a chunk of features with b
        base bits takes ``2 << b`` of them.
    random_rounding : bool, default=False
        Whether model and scaled gradients can be rounded at random.
    encoder : int, default=0
        0 for no encoder. Otherwise an encoder that writes up to this many draw sets at a time, 1 to 8, from raw rows,
        with four values a cycle for each word of a beat. Only with digit lanes.
    shards : {1, 2, 4, 8}, default=1
        Data paths side by side, each with 32 features of every chunk, which then has ``32 * shards`` features. At most
        ``width / 64``. The bits are those of a build without shards that has as many rows a beat.
    ports : {1, 2, 4, 8, 16}, default=1
        Memory ports of 64 to 512 bits, each with a memory of its own. Port k has the k-th part of every beat.

    Raises
    ------
    DataError
        A value is outside its range.
    """

    width: int = 64
    outputs: int = 1
    max_features: int = 16384
    row_buffer_beats: int = 4096
    fifo_beats: int = 256
    address_bits: int = 40
    level_slots: int = 0
    random_rounding: bool = False
    encoder: int = 0
    shards: int = 1
    ports: int = 1

    def __post_init__(self) -> None:
        if self.width not in BEAT_WIDTHS:
            raise DataError(f"width={self.width} must be one of {', '.join(map(str, BEAT_WIDTHS))}")
        if not 1 <= self.outputs <= MAX_OUTPUTS:
            raise DataError(f"outputs={self.outputs} must be 1 to {MAX_OUTPUTS}")
        if self.shards not in SHARDS or self.shards * WORD_BITS > self.width:
            raise DataError(
                f"shards={self.shards} must be one of {', '.join(map(str, SHARDS))}, and at most width / {WORD_BITS} = "
                f"{self.width // WORD_BITS}"
            )
        if self.rows_per_beat > max(ROWS_PER_BEAT):
            raise DataError(
                f"width={self.width} with shards={self.shards} has {self.rows_per_beat} rows a beat: "
                f"at most {max(ROWS_PER_BEAT)} are possible, so use more shards or a smaller width"
            )
        if self.ports not in PORTS or self.port_width not in PORT_WIDTHS:
            raise DataError(
                f"ports={self.ports} must be one of {', '.join(map(str, PORTS))}, "
                f"and each must have {min(PORT_WIDTHS)} to {max(PORT_WIDTHS)} of the {self.width} bits of a beat"
            )
        least = 2 * self.chunk_features
        if self.max_features < least or self.max_features & self.max_features - 1:
            raise DataError(f"max_features={self.max_features} must be a power of two of at least {least}")
        least = ROW_BUFFER_MARGIN + (LEAST_TABLE_ROW if self.level_slots else 1)
        if self.row_buffer_beats < least:
            raise DataError(
                f"row_buffer_beats={self.row_buffer_beats} must be at least {least}, for a row of one chunk"
            )
        if self.fifo_beats < 4 * BURST_BEATS:
            raise DataError(f"fifo_beats={self.fifo_beats} must be at least {4 * BURST_BEATS}")
        if not 32 <= self.address_bits <= 64:
            raise DataError(f"address_bits={self.address_bits} must be 32 to 64")
        fewest = level_slots(max(CODEBOOK_BITS))
        if self.level_slots and (self.level_slots < fewest or self.level_slots & self.level_slots - 1):
            raise DataError(f"level_slots={self.level_slots} must be 0 or a power of two of at least {fewest}")

        if not 0 <= self.encoder <= MAX_ENCODER_SETS:
            raise DataError(f"encoder={self.encoder} must be 0 to {MAX_ENCODER_SETS}")
        if self.encoder and self.level_slots:
            raise DataError(f"encoder={self.encoder} needs level_slots=0, not level_slots={self.level_slots}")

    @property
    def words_per_beat(self) -> int:
        """Words in a beat: those of the first shard, a word of each row, then those of the next shard."""
        return self.width // WORD_BITS

    @property
    def rows_per_beat(self) -> int:
        """Rows of a group, whose words lie side by side in a beat."""
        return self.words_per_beat // self.shards

    @property
    def shard_width(self) -> int:
        """Bits of a beat that belong to a shard."""
        return self.width // self.shards

    @property
    def chunk_features(self) -> int:
        """Features of a chunk: 32 in each shard."""
        return CHUNK * self.shards

    @property
    def label_groups(self) -> int:
        """Groups whose labels share a beat."""
        return LABELS_PER_WORD * self.shards

    @property
    def table_lanes(self) -> bool:
        """Whether the lanes read levels from tables."""
        return self.level_slots > 0

    @property
    def loads(self) -> int:
        """Most models and levels that are read before the samples; a level has the layout of a model."""
        return self.outputs + (level_count(max(CODEBOOK_BITS)) if self.table_lanes else 0)

    @property
    def beat_bytes(self) -> int:
        return self.width // 8

    @property
    def port_width(self) -> int:
        """Bits of a memory port."""
        return self.width // self.ports

    @property
    def port_bytes(self) -> int:
        """Bytes of a beat on a memory port."""
        return self.port_width // 8

    @property
    def max_chunks(self) -> int:
        return self.max_features // self.chunk_features

    @property
    def max_row_words(self) -> int:
        return self.row_buffer_beats - ROW_BUFFER_MARGIN

    @property
    def chunk_beats(self) -> int:
        """Beats of one chunk of a model."""
        return CHUNK_MODEL_WORDS // self.rows_per_beat

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one chunk of a model in the memory of a port."""
        return self.chunk_beats * self.port_bytes

    @property
    def record_beats(self) -> int:
        """Beats of a trace record, on the first port."""
        words = self.port_width // WORD_BITS
        return record_words(self.outputs, words) // words

    @property
    def record_bytes(self) -> int:
        return self.record_beats * self.port_bytes
