"""What the tests of the blocks share: a clock, random runs, and the arithmetic of `docs/design.md`."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from amaranth.sim import Simulator

from bitlane_hw.config import AcceleratorConfig

CONFIG = AcceleratorConfig(max_features=128, row_buffer_words=128, fifo_words=64)
MODEL, LABEL, BASE, DRAW = range(4)


def run(dut: Any, testbench: Callable[[Any], Coroutine[Any, Any, None]], *, clocked: bool = True) -> None:
    """Simulate until `testbench(ctx)` returns: it sets inputs, looks at outputs, and ticks, cycle by cycle."""
    simulator = Simulator(dut)
    if clocked:
        simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


# --- arithmetic ----------------------------------------------------------------------------------
def rounded(x: int, n: int) -> int:
    """x * 2**-n to the nearest integer, halves up."""
    return math.floor(Fraction(x, 1 << n) + Fraction(1, 2)) if n else x


def clip(x: int, bits: int) -> int:
    """x as near as a signed number of some bits comes."""
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, x))


def pack(values: list[int], bits: int) -> int:
    """Fields of some bits as one integer, the first in the low bits; negative ones in two's complement."""
    return sum((value & ((1 << bits) - 1)) << (bits * i) for i, value in enumerate(values))


def unpack(word: int, count: int, bits: int) -> list[int]:
    """The signed fields of an integer: the inverse of `pack`."""
    fields = [(word >> (bits * i)) & ((1 << bits) - 1) for i in range(count)]
    return [field - (1 << bits) if field >> (bits - 1) else field for field in fields]


def some_int(rng: Random, bits: int) -> int:
    """A signed number of some bits: of any magnitude, and often an extreme one."""
    if rng.random() < 0.2:
        return rng.choice((-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1))
    return rng.randrange(-(1 << bits - 1), 1 << bits - 1) >> rng.randrange(bits)


# --- runs ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """Geometry of a run, as the walker's `settings`."""

    chunks: int
    base_digits: int
    draws: int
    rows: int
    batch: int
    epochs: int

    @property
    def digits(self) -> int:
        return self.base_digits + self.draws

    @property
    def set_words(self) -> tuple[int, int]:
        """Words of a base region and of a draw region."""
        labels = math.ceil(self.rows / 4)
        return labels + self.rows * self.chunks * self.base_digits, self.rows * self.chunks * self.draws


@dataclass(frozen=True)
class Token:
    """A word's place in the run; the flags, False for model words and labels, are those of `token_layout`."""

    kind: int
    epoch: int = 0
    row: int = 0
    chunk: int = 0
    first: bool = False
    last_base: bool = False
    last: bool = False
    row_last: bool = False
    batch_last: bool = False
    epoch_last: bool = False


def tokens(run: Run) -> Iterator[Token]:
    """All words of a run, in the order of `docs/design.md`."""
    for _ in range(16 * run.chunks):
        yield Token(MODEL)
    for epoch in range(run.epochs):
        for row in range(run.rows):
            if row % 4 == 0:
                yield Token(LABEL, epoch, row)
            for chunk in range(run.chunks):
                for digit in range(run.digits):
                    last = digit == run.digits - 1
                    epoch_last = row == run.rows - 1
                    yield Token(
                        DRAW if digit == run.base_digits else BASE,
                        epoch,
                        row,
                        chunk,
                        first=digit == 0,
                        last_base=digit == run.base_digits - 1,
                        last=last,
                        row_last=last and chunk == run.chunks - 1,
                        batch_last=epoch_last or row % run.batch == run.batch - 1,
                        epoch_last=epoch_last,
                    )


def some_run(rng: Random, config: AcceleratorConfig = CONFIG, max_words: int = 400) -> Run:
    """A run that `config` can do, of a few hundred words."""
    while True:
        chunks = rng.randint(1, config.max_chunks)
        draws = rng.randint(0, 1)
        base_digits = rng.choice((rng.randint(1 - draws, 3), rng.randint(1 - draws, 16 - draws)))
        rows = rng.randint(1, 14)
        run = Run(chunks, base_digits, draws, rows, rng.randint(1, rows + 2), rng.randint(1, 4))
        if chunks * run.digits <= config.max_row_words and run.epochs * sum(run.set_words) <= max_words:
            return run


def settings(run: Run) -> dict[str, int]:
    """The `settings` port's value."""
    return {name: getattr(run, name) for name in ("chunks", "base_digits", "draws", "rows", "batch", "epochs")}
