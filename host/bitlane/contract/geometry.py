"""The shape of a stored data set: rows, batches, beats and words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .formats import LABEL
from .layout import (
    CHUNK,
    CHUNK_MODEL_WORDS,
    CODEBOOK_BITS,
    DIGIT_BITS,
    LABELS_PER_WORD,
    MAX_DIGITS,
    MAX_OUTPUTS,
    PORT_WIDTHS,
    PORTS,
    ROWS_PER_BEAT,
    SHARDS,
    WORD_BITS,
    WORD_BYTES,
    level_count,
    level_slots,
    record_words,
)
from .precision import Precision


@dataclass(frozen=True)
class Geometry:
    """The shape of a stored data set.

    The rows of an epoch are divided into batches, and each batch into groups of `rows_per_beat` rows. The last batch
    may be shorter, and so may the last group of each batch. A beat of the memory port has one word of each row of one
    group, for each shard.

    Parameters
    ----------
    features : int
        Features of a row, without padding.
    rows : int
        Rows of an epoch.
    base_digits : int
        Radix-4 base digits of a feature, 0 to 16.
    draws : bool
        Whether a draw digit follows them.
    batch : int
        Rows of a mini-batch; may exceed `rows`.
    rows_per_beat : {1, 2, 4, 8}, default=1
        Rows of a group.
    outputs : int, default=1
        Models trained together, each with its own label.
    half_digit : bool, default=False
        Whether a base code has one more bit before its digits. A word holds this bit for two chunks. Only with a
        codebook.
    codebook : bool, default=False
        Whether each feature has separate levels, for table lanes: double sampling with 1 to 3 base bits.
    shards : {1, 2, 4, 8}, default=1
        Words of a row in a beat, each with 32 features of a chunk.
    ports : {1, 2, 4, 8, 16}, default=1
        Memory ports, each with as many words of a beat.

    Raises
    ------
    DataError
        A size is below one, the precision is invalid, or no build has such an option.
    """

    features: int
    rows: int
    base_digits: int
    draws: bool
    batch: int
    rows_per_beat: int = 1
    outputs: int = 1
    half_digit: bool = False
    codebook: bool = False
    shards: int = 1
    ports: int = 1

    def __post_init__(self) -> None:
        if self.features < 1 or self.rows < 1:
            raise DataError(f"rows={self.rows}, features={self.features}: both must be at least 1")
        if not 0 <= self.base_digits <= MAX_DIGITS or not self.digits:
            raise DataError(f"invalid precision: base_digits={self.base_digits}, draws={self.draws}")
        if self.half_digit > self.codebook or (self.codebook and not (self.draws and self.base_bits in CODEBOOK_BITS)):
            raise DataError(
                f"invalid precision: base_bits={self.base_bits}, draws={self.draws}, codebook={self.codebook}"
            )
        if self.batch < 1:
            raise DataError(f"batch={self.batch}: it must be at least 1")
        if self.rows_per_beat not in ROWS_PER_BEAT:
            raise DataError(f"rows_per_beat={self.rows_per_beat}: it must be 1, 2, 4 or 8")
        if self.shards not in SHARDS:
            raise DataError(f"shards={self.shards}: it must be 1, 2, 4 or 8")
        if self.ports not in PORTS or self.port_words * WORD_BITS not in PORT_WIDTHS:
            raise DataError(
                f"ports={self.ports}: it must be 1, 2, 4, 8 or 16, and each port has 1, 2, 4 or 8 of the "
                f"shards * rows_per_beat = {self.words_per_beat} words of a beat"
            )
        if not 1 <= self.outputs <= MAX_OUTPUTS:
            raise DataError(f"outputs={self.outputs}: it must be 1 to {MAX_OUTPUTS}")

    @classmethod
    def of(
        cls,
        precision: Precision,
        features: int,
        rows: int,
        batch: int,
        rows_per_beat: int = 1,
        outputs: int = 1,
        shards: int = 1,
        ports: int = 1,
    ) -> Geometry:
        """Return the shape of a data set that is stored with a precision.

        Parameters
        ----------
        precision : Precision
        features, rows, batch : int
        rows_per_beat, outputs, shards, ports : int, default=1
            As in the build: `AcceleratorConfig.rows_per_beat`, `outputs`, `shards` and `ports`.

        Returns
        -------
        Geometry
        """
        return cls(
            features,
            rows,
            precision.base_digits,
            precision.draws,
            batch,
            rows_per_beat,
            outputs,
            precision.half_digit,
            precision.codebook,
            shards,
            ports,
        )

    @property
    def unsharded(self) -> Geometry:
        """The shape of the same rows, with as many a beat, for a build with one shard and one port."""
        return replace(self, shards=1, ports=1)

    # --- rows, batches and groups ---
    @property
    def batches(self) -> int:
        """Batches in an epoch."""
        return -(-self.rows // self.batch)

    @property
    def batch_groups(self) -> int:
        """Groups in a full batch."""
        return -(-min(self.batch, self.rows) // self.rows_per_beat)

    @property
    def groups(self) -> int:
        """Groups in an epoch."""
        last = self.rows - (self.batches - 1) * self.batch
        return (self.batches - 1) * self.batch_groups - (-last // self.rows_per_beat)

    @property
    def tails(self) -> tuple[int, int]:
        """Rows in the last group of a full batch, and in the last group of the epoch."""
        last = self.rows - (self.batches - 1) * self.batch
        full = min(self.batch, self.rows)
        return (full - 1) % self.rows_per_beat + 1, (last - 1) % self.rows_per_beat + 1

    def first_row(self, group: int) -> int:
        """Return the first row of a group, or `rows` after the last group."""
        batch, index = divmod(group, self.batch_groups)
        return min(batch * self.batch + index * self.rows_per_beat, self.rows)

    def group_start(self, row: int) -> int:
        """Return the first row of the group that holds `row`, or `rows` for the end of the epoch."""
        return row if row == self.rows else row - row % self.batch % self.rows_per_beat

    def rows_of(self, groups: range) -> slice:
        """Return the rows of consecutive groups."""
        return slice(self.first_row(groups.start), self.first_row(groups.stop))

    def slots(self, groups: range) -> NDArray[np.intp]:
        """Return the positions of the rows of consecutive groups among all words of these groups: int [rows]."""
        rows = self.rows_of(groups)
        if self.rows_per_beat == 1:
            return np.arange(rows.start - groups.start, rows.stop - groups.start)
        batch, index = np.divmod(np.arange(rows.start, rows.stop), self.batch)
        group, column = np.divmod(index, self.rows_per_beat)
        slots: NDArray[np.intp] = (batch * self.batch_groups + group - groups.start) * self.rows_per_beat + column
        return slots

    # --- beats and words ---
    @property
    def words_per_beat(self) -> int:
        """Words in a beat."""
        return self.rows_per_beat * self.shards

    @property
    def port_words(self) -> int:
        """Words in a beat of a memory port."""
        return self.words_per_beat // self.ports

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat, on all ports."""
        return self.words_per_beat * WORD_BYTES

    @property
    def label_groups(self) -> int:
        """Groups whose labels share a beat."""
        return LABELS_PER_WORD * self.shards

    @property
    def chunks(self) -> int:
        """Chunks in a row, of 32 features in each shard."""
        return -(-self.features // (CHUNK * self.shards))

    @property
    def base_bits(self) -> int:
        """Bits of a base code."""
        return DIGIT_BITS * self.base_digits + self.half_digit

    @property
    def digits(self) -> int:
        """Beats of a chunk, without half digits."""
        return self.base_digits + self.draws

    @property
    def stored_bits(self) -> int:
        """Stored bits of a feature."""
        return self.base_bits + DIGIT_BITS * self.draws

    @property
    def base_row_words(self) -> int:
        """Words of a row in the base region, in each shard. With half digits, the first chunk of each two has one more
        word.
        """
        return self.chunks * self.base_digits + self.half_words

    @property
    def row_words(self) -> int:
        """Words of a row in each shard, and beats of a group, without labels."""
        return self.base_row_words + self.chunks * self.draws

    @property
    def levels(self) -> int:
        """Levels of a feature in its table; 0 without a table."""
        return level_count(self.base_bits) if self.codebook else 0

    @property
    def level_slots(self) -> int:
        """Slots in a lane that the levels of all chunks take; 0 without tables."""
        return self.chunks * level_slots(self.base_bits) if self.codebook else 0

    @property
    def half_words(self) -> int:
        """Words of half digits in a row, in each shard."""
        return self.half_digit * -(-self.chunks // 2)

    @property
    def label_beats(self) -> int:
        """Label beats in an epoch."""
        return -(-self.groups // self.label_groups) * self.outputs

    @property
    def base_beats(self) -> int:
        """Beats of a base region: labels and base digits."""
        return self.label_beats + self.groups * self.base_row_words

    @property
    def draw_beats(self) -> int:
        """Beats of a draw region."""
        return self.groups * self.chunks * self.draws

    @property
    def base_words(self) -> int:
        """Words of a base region."""
        return self.base_beats * self.words_per_beat

    @property
    def draw_words(self) -> int:
        """Words of a draw region."""
        return self.draw_beats * self.words_per_beat

    @property
    def model_words(self) -> int:
        """Words of the models of all outputs."""
        return self.outputs * self.chunks * self.shards * CHUNK_MODEL_WORDS

    @property
    def load_words(self) -> int:
        """Words read before the samples: the models, and each level of the tables in the layout of a model."""
        return (self.outputs + self.levels) * self.chunks * self.shards * CHUNK_MODEL_WORDS

    @property
    def load_beats(self) -> int:
        """Beats of `load_words`."""
        return self.load_words // self.words_per_beat

    @property
    def model_bytes(self) -> int:
        """Bytes of the models of all outputs."""
        return self.model_words * WORD_BYTES

    @property
    def record_words(self) -> int:
        """Words of the trace record of an epoch, on the first port."""
        return record_words(self.outputs, self.port_words)

    @property
    def beats(self) -> int:
        """Beats that an epoch reads."""
        return self.base_beats + self.draw_beats

    @property
    def raw_bound(self) -> float:
        """Cycles of an epoch if only the stored bits of features and labels moved, one beat per cycle."""
        return self.rows * (self.features * self.stored_bits + self._label_bits) / self._beat_bits

    @property
    def layout_bound(self) -> float:
        """Cycles of an epoch at one beat per cycle, with the padding of the last chunk."""
        return self.rows * (CHUNK * self.shards * self.row_words * DIGIT_BITS + self._label_bits) / self._beat_bits

    def base_span(self, groups: range) -> slice:
        """Return the words of a base region that hold consecutive groups, the first a multiple of `label_groups`."""
        labels = (-(-group // self.label_groups) * self.outputs for group in (groups.start, groups.stop))
        return self._span(groups, self.base_row_words, *labels)

    def draw_span(self, groups: range) -> slice:
        """Return the words of a draw region that hold consecutive groups."""
        return self._span(groups, self.chunks * self.draws)

    def _span(self, groups: range, group_beats: int, before: int = 0, until: int = 0) -> slice:
        start, stop = groups.start * group_beats + before, groups.stop * group_beats + until
        return slice(start * self.words_per_beat, stop * self.words_per_beat)

    @property
    def _label_bits(self) -> int:
        return self.outputs * LABEL.bits

    @property
    def _beat_bits(self) -> int:
        return self.words_per_beat * WORD_BITS
