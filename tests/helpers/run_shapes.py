"""Random runs on small accelerators: their geometry, and their beats in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from bitlane.contract.config import AcceleratorConfig

MODEL, LABEL, BASE, DRAW = range(4)


def small_config(rows_per_beat: int = 1, outputs: int = 1, table_lanes: bool = False) -> AcceleratorConfig:
    """Return the configuration of a small accelerator; its codebooks hold 9 levels of every feature."""
    return AcceleratorConfig(
        width=64 * rows_per_beat,
        outputs=outputs,
        max_features=128,
        row_buffer_beats=128,
        fifo_beats=64,
        level_slots=64 * table_lanes,
    )


CONFIG = small_config()


@dataclass(frozen=True)
class RunShape:
    """The geometry of a run on some build. `tails` are the rows in the last group of a batch, and of an epoch."""

    chunks: int
    base_digits: int
    draws: int
    groups: int
    batch_groups: int
    epochs: int
    tails: tuple[int, int] = (1, 1)
    staleness: int = 0
    last_lane: int = 31
    rows_per_beat: int = 1
    outputs: int = 1
    half_digit: int = 0
    table_lanes: bool = False

    @property
    def digits(self) -> int:
        return self.base_digits + self.draws

    @property
    def config(self) -> AcceleratorConfig:
        return small_config(self.rows_per_beat, self.outputs, self.table_lanes)

    @property
    def levels(self) -> int:
        """Levels of a feature in its codebook."""
        return 2 ** (2 * self.base_digits + self.half_digit) + 1 if self.table_lanes else 0

    @property
    def model_beats(self) -> int:
        """Beats of all models, and of the levels in the same format: a chunk is 32 values of 32 bits."""
        return (self.outputs + self.levels) * self.chunks * (16 // self.rows_per_beat)

    @property
    def set_beats(self) -> tuple[int, int]:
        """Beats of a base region and of a draw region."""
        labels = math.ceil(self.groups / 4) * self.outputs
        halves = self.half_digit * math.ceil(self.chunks / 2)
        base = self.groups * (self.chunks * self.base_digits + halves)
        return labels + base, self.groups * self.chunks * self.draws


@dataclass(frozen=True)
class Token:
    """The expected description of a beat. Fields that its kind does not list are 0 and have no meaning.

    MODEL: output, chunk, part. LABEL: epoch, group (the first one of the labels), output. Digits: all but output and
    part. A beat of half digits is neither first nor last_base.
    """

    kind: int
    epoch: int = 0
    group: int = 0
    output: int = 0
    chunk: int = 0
    part: int = 0  # index of the beat in a chunk of a model
    rows: int = 0  # rows in the group
    bank: int = 0  # bank that its batch reads
    half_digit: bool = False
    first: bool = False
    last_base: bool = False
    last: bool = False
    row_last: bool = False
    batch_last: bool = False
    epoch_last: bool = False


def tokens(shape: RunShape) -> Iterator[Token]:
    """Yield the descriptions of all beats of a run, in the order of `docs/design.md`."""
    for output in range(shape.outputs + shape.levels):
        for chunk in range(shape.chunks):
            for part in range(16 // shape.rows_per_beat):
                yield Token(MODEL, output=output, chunk=chunk, part=part)
    batches = 0  # completed batches: versions of the model after the loaded one
    for epoch in range(shape.epochs):
        oldest = batches
        for group in range(shape.groups):
            if group % 4 == 0:
                for output in range(shape.outputs):
                    yield Token(LABEL, epoch, group, output)
            epoch_last = group == shape.groups - 1
            batch_last = epoch_last or group % shape.batch_groups == shape.batch_groups - 1
            version = max(oldest, batches - shape.staleness)
            for chunk in range(shape.chunks):
                position = Token(
                    BASE,
                    epoch,
                    group,
                    chunk=chunk,
                    rows=shape.tails[epoch_last] if batch_last else shape.rows_per_beat,
                    bank=version % 2 if shape.staleness else 0,
                    batch_last=batch_last,
                    epoch_last=epoch_last,
                )
                if shape.half_digit and chunk % 2 == 0:
                    yield replace(position, half_digit=True)
                for digit in range(shape.digits):
                    last = digit == shape.digits - 1
                    yield replace(
                        position,
                        kind=DRAW if digit == shape.base_digits else BASE,
                        first=digit == 0,
                        last_base=digit == shape.base_digits - 1,
                        last=last,
                        row_last=last and chunk == shape.chunks - 1,
                    )
            batches += batch_last


def random_shape(
    rng: Random, rows_per_beat: int = 1, outputs: int = 1, max_beats: int = 400, table_lanes: bool = False
) -> RunShape:
    """Return a run of a few hundred beats that `small_config(rows_per_beat, outputs, table_lanes)` supports."""
    config = small_config(rows_per_beat, outputs, table_lanes)
    while True:
        staleness = rng.randint(0, 1)
        chunks = rng.randint(1, config.max_chunks // (1 + staleness))
        draws = rng.randint(0, 1)
        base_digits = rng.choice((rng.randint(1 - draws, 3), rng.randint(1 - draws, 16 - draws)))
        half_digit = 0
        if table_lanes:
            draws, (base_digits, half_digit) = 1, divmod(rng.randint(1, 3), 2)
        groups = rng.randint(1, 14)
        shape = RunShape(
            chunks,
            base_digits,
            draws,
            groups,
            batch_groups=rng.randint(1, groups + 2),
            epochs=rng.randint(1, 4),
            tails=(rng.randint(1, rows_per_beat), rng.randint(1, rows_per_beat)),
            staleness=staleness,
            last_lane=rng.randrange(32),
            rows_per_beat=rows_per_beat,
            outputs=outputs,
            half_digit=half_digit,
            table_lanes=table_lanes,
        )
        if chunks * shape.digits <= config.max_row_words and shape.epochs * sum(shape.set_beats) <= max_beats:
            return shape


def settings(shape: RunShape) -> dict[str, int]:
    """Return the value of a `settings` port."""
    names = ["chunks", "last_lane", "base_digits", "draws", "groups", "batch_groups", "epochs", "staleness"]
    names += ["half_digit"] * shape.table_lanes
    batch_tail, epoch_tail = shape.tails
    return {**{name: getattr(shape, name) for name in names}, "batch_tail": batch_tail, "epoch_tail": epoch_tail}
