"""What the tests of the blocks share: a clock, random runs, and the arithmetic of `docs/design.md`."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any

from amaranth.lib import data
from amaranth.sim import Simulator

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import ROW_GAP
from bitlane.contract.sigmoid_lut import sigmoid_lut

MODEL, LABEL, BASE, DRAW = range(4)


def config(rows_per_beat: int = 1, outputs: int = 1, table: bool = False) -> AcceleratorConfig:
    """A small accelerator, with a port of some rows_per_beat; its tables hold 9 levels of every feature."""
    return AcceleratorConfig(
        width=64 * rows_per_beat,
        outputs=outputs,
        max_features=128,
        row_buffer_beats=128,
        fifo_beats=64,
        level_slots=64 * table,
    )


CONFIG = config()


class Bench:
    """A block, compiled once for any number of testbenches."""

    def __init__(self, dut: Any, *, clocked: bool = True):
        self.dut = dut
        self._simulator = Simulator(dut)
        self._testbench: Callable[[Any], Coroutine[Any, Any, None]] | None = None
        if clocked:
            self._simulator.add_clock(1e-6)

    def run(self, testbench: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """From reset until `testbench(ctx)` returns: it sets inputs, looks at outputs, and ticks, cycle by cycle."""
        again = self._testbench is not None
        self._testbench = testbench
        if again:
            self._simulator.reset()
        else:
            self._simulator.add_testbench(self._current)
        self._simulator.run()

    async def _current(self, ctx: Any) -> None:
        assert self._testbench is not None
        await self._testbench(ctx)


def run(dut: Any, testbench: Callable[[Any], Coroutine[Any, Any, None]], *, clocked: bool = True) -> None:
    """Simulates a block with one testbench: `Bench.run`."""
    Bench(dut, clocked=clocked).run(testbench)


def fields(value: Any) -> Any:
    """What `ctx.get` returned for a struct or an array, as a dictionary or a list of its members, and theirs."""
    if not isinstance(value, data.Const):
        return value
    members = {key: fields(value[key]) for key, _ in value.shape()}
    return list(members.values()) if isinstance(value.shape(), data.ArrayLayout) else members


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


class Coded:
    """A row of a table's codes: codes [chunk][lane], draws [chunk][lane] as 2 u1 + u2.

    What a lane reads: level k of its feature in chunk c is in its table at c * (2 << base_bits) + k.
    """

    def __init__(self, rng: Random, chunks: int, base_bits: int):
        self.base_bits = base_bits
        self.codes = [[rng.randrange(1 << base_bits) for _ in range(32)] for _ in range(chunks)]
        self.draws = [[rng.randrange(4) for _ in range(32)] for _ in range(chunks)]

    def words(self) -> Iterator[dict[str, int]]:
        """With their places, in the order of the layout."""
        for chunk, codes in enumerate(self.codes):
            if self.base_bits % 2 and chunk % 2 == 0:
                pair = [code for codes in self.codes[chunk : chunk + 2] for code in codes]
                halves = [code >> self.base_bits - 1 for code in pair]
                yield {"word": pack(halves, 1), "chunk": chunk, "half": 1, "draw": 0}
            if self.base_bits > 1:
                yield {"word": pack([code % 4 for code in codes], 2), "chunk": chunk, "half": 0, "draw": 0}
            yield {"word": pack(self.draws[chunk], 2), "chunk": chunk, "half": 0, "draw": 1}

    def places(self, chunk: int) -> tuple[list[int], list[int]]:
        """Where a chunk's levels are that the first, and that the second, draws chose, lane by lane."""
        begin = chunk * (2 << self.base_bits)
        rows = list(zip(self.codes[chunk], self.draws[chunk], strict=True))
        return [begin + code + draw // 2 for code, draw in rows], [begin + code + draw % 2 for code, draw in rows]


def some_slots(rng: Random, slots: int) -> list[list[int]]:
    """What tables hold, [lane][slot]: levels of any magnitude, often extreme ones."""
    return [[some_int(rng, 18) for _ in range(slots)] for _ in range(32)]


def looked_up(slots: list[list[int]], addresses: int) -> int:
    """What a port of such tables answers a cycle later."""
    bits = (len(slots[0]) - 1).bit_length()
    return pack([lane[addresses >> bits * j & (1 << bits) - 1] for j, lane in enumerate(slots)], 18)


SQUARES, HINGE, LOGISTIC = range(3)  # losses
NONE, L2, L1, BOX = range(4)  # what the end of a batch does
ONE = 1 << 20  # of a residual or a slope
TABLE = sigmoid_lut()
LIMITS = -(1 << 31), (1 << 31) - 1  # of a master weight


def dots(digits: list[list[list[int]]], base_digits: int, model: list[list[int]]) -> tuple[int, int]:
    """q.X + u1.X and q.X + u2.X of digits [chunk][digit][lane] and weights [chunk][lane]; without draws both q.X.

    A digit 2h + l is 2(+-1) + (+-1), a draw digit the signs u1 and u2.
    """
    sums = [0, 0]
    for chunk, weights in zip(digits, model, strict=False):
        for j, weight in enumerate(weights):
            q = sum((2 * chunk[k][j] - 3) * 4 ** (base_digits - 1 - k) for k in range(base_digits))
            for i, high in enumerate((2, 1)):
                u = 0 if len(chunk) == base_digits else 1 if chunk[base_digits][j] & high else -1
                sums[i] += (q + u) * weight
    return sums[0], sums[1]


def predicted(dot: int, base_digits: int) -> tuple[int, int]:
    """z, and whether it was clipped."""
    exact = rounded(dot, 2 * base_digits)
    return clip(exact, 24), clip(exact, 24) != exact


def slope(loss: int, z: int, label: int) -> tuple[int, tuple[int, int], int]:
    """r, the cost (of HINGE and LOGISTIC) of the margin and out of the table, and whether r was clipped."""
    if loss == SQUARES:
        exact = z - (label << 5)
        return clip(exact, 24), (0, 0), clip(exact, 24) != exact
    y = 1 if label >= 0 else -1
    if loss == HINGE:
        lacks = ONE - y * z
        return (-y * ONE if lacks > 0 else 0), (max(lacks, 0), 0), 0
    tail, logarithm = TABLE[(z if z >= 0 else ~z) >> 13]
    sigmoid = ONE - (tail << 2) if z >= 0 else tail << 2
    return sigmoid - (ONE if y > 0 else 0), (max(-y * z, 0), logarithm << 2), 0


def loss_of(loss: int, r: tuple[int, int], costs: tuple[int, int]) -> int:
    """What a row adds to the loss."""
    return rounded(r[0] * r[1], 8) if loss == SQUARES else sum(costs) << 11


def scaled_gradient(operand: int, scale: tuple[int, int]) -> tuple[int, int]:
    """The sum or difference of two slopes times (mantissa, exponent), and whether it was clipped."""
    mantissa, exponent = scale
    exact = rounded(operand * mantissa, exponent + 4)
    return clip(exact, 32), clip(exact, 32) != exact


def row_terms(total: int, difference: int, base_digits: int, draws: int) -> list[tuple[int, int]]:
    """(P_k, M_k) of the digits of a chunk."""
    terms = [(rounded(3 * total, 2 * k + 4), rounded(total, 2 * k + 4)) for k in range(base_digits)]
    shift = 2 * base_digits + 2
    return terms + [(rounded(total, shift), rounded(difference, shift))] * draws


def chosen(digits: Iterable[int], terms: list[tuple[int, int]]) -> int:
    """t, of the digits of one feature."""
    signs = [1 if digit & 2 else -1 for digit in digits]
    alike = [digit in (0, 3) for digit in digits]
    return sum(sign * (plus if same else minus) for sign, same, (plus, minus) in zip(signs, alike, terms, strict=True))


@dataclass(frozen=True)
class Proximal:
    """What the end of a batch does to a weight."""

    prox: int = NONE
    threshold: int = 0
    low: int = 0
    high: int = 0

    def updated(self, exact: int, spared: bool) -> tuple[int, int]:
        """What becomes of A' = `exact`, and whether it was clipped; `spared` weights have no prox."""
        if not LIMITS[0] <= exact <= LIMITS[1]:
            return clip(exact, 32), 1
        if spared or self.prox == NONE:
            return exact, 0
        if self.prox == L2:
            return exact - math.floor(Fraction(exact, 64)), 0
        if self.prox == L1:
            return max(exact - self.threshold, 0) if exact > 0 else min(exact + self.threshold, 0), 0
        # The box counts in units of 2**16: what is below the low end, or in the high end's unit or above, is moved.
        if exact >= self.high << 16:
            return self.high << 16, 0
        return max(exact, self.low << 16), 0


# --- runs ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """A run on an accelerator of some build. `tails` are the rows in the last group of a batch, and of an epoch."""

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
    half: int = 0
    table: bool = False

    @property
    def digits(self) -> int:
        return self.base_digits + self.draws

    @property
    def config(self) -> AcceleratorConfig:
        return config(self.rows_per_beat, self.outputs, self.table)

    @property
    def levels(self) -> int:
        """Of a feature in its table."""
        return 2 ** (2 * self.base_digits + self.half) + 1 if self.table else 0

    @property
    def gap(self) -> int:
        """Cycles between the last beats of two groups, at least."""
        return (2 if self.table else self.digits) + ROW_GAP

    @property
    def model_beats(self) -> int:
        """Beats of all models, and of levels like models: a chunk is 32 values of 32 bits."""
        return (self.outputs + self.levels) * self.chunks * (16 // self.rows_per_beat)

    @property
    def set_beats(self) -> tuple[int, int]:
        """Beats of a base region and of a draw region."""
        labels = math.ceil(self.groups / 4) * self.outputs
        halves = self.half * math.ceil(self.chunks / 2)
        base = self.groups * (self.chunks * self.base_digits + halves)
        return labels + base, self.groups * self.chunks * self.draws


@dataclass(frozen=True)
class Token:
    """A beat's place in the run; what is not named for its kind, is 0 and without meaning.

    MODEL: output, chunk, part. LABEL: epoch, group (the first it is for), output. Digits: all but output and part, and
    half digits neither first nor last_base.
    """

    kind: int
    epoch: int = 0
    group: int = 0
    output: int = 0
    chunk: int = 0
    part: int = 0  # of a chunk of a model
    rows: int = 0  # in the group
    bank: int = 0  # of the model, that its batch reads
    half: bool = False
    first: bool = False
    last_base: bool = False
    last: bool = False
    row_last: bool = False
    batch_last: bool = False
    epoch_last: bool = False


def tokens(run: Run) -> Iterator[Token]:
    """All beats of a run, in the order of `docs/design.md`."""
    for output in range(run.outputs + run.levels):
        for chunk in range(run.chunks):
            for part in range(16 // run.rows_per_beat):
                yield Token(MODEL, output=output, chunk=chunk, part=part)
    batches = 0  # gone by: versions of the model, besides the loaded one
    for epoch in range(run.epochs):
        oldest = batches
        for group in range(run.groups):
            if group % 4 == 0:
                for output in range(run.outputs):
                    yield Token(LABEL, epoch, group, output)
            epoch_last = group == run.groups - 1
            batch_last = epoch_last or group % run.batch_groups == run.batch_groups - 1
            version = max(oldest, batches - run.staleness)
            for chunk in range(run.chunks):
                place = Token(
                    BASE,
                    epoch,
                    group,
                    chunk=chunk,
                    rows=run.tails[epoch_last] if batch_last else run.rows_per_beat,
                    bank=version % 2 if run.staleness else 0,
                    batch_last=batch_last,
                    epoch_last=epoch_last,
                )
                if run.half and chunk % 2 == 0:
                    yield replace(place, half=True)
                for digit in range(run.digits):
                    last = digit == run.digits - 1
                    yield replace(
                        place,
                        kind=DRAW if digit == run.base_digits else BASE,
                        first=digit == 0,
                        last_base=digit == run.base_digits - 1,
                        last=last,
                        row_last=last and chunk == run.chunks - 1,
                    )
            batches += batch_last


def some_run(rng: Random, rows_per_beat: int = 1, outputs: int = 1, max_beats: int = 400, table: bool = False) -> Run:
    """A run of a few hundred beats that `config(rows_per_beat, outputs, table)` can do."""
    can = config(rows_per_beat, outputs, table)
    while True:
        staleness = rng.randint(0, 1)
        chunks = rng.randint(1, can.max_chunks // (1 + staleness))
        draws = rng.randint(0, 1)
        base_digits = rng.choice((rng.randint(1 - draws, 3), rng.randint(1 - draws, 16 - draws)))
        half = 0
        if table:
            draws, (base_digits, half) = 1, divmod(rng.randint(1, 3), 2)
        groups = rng.randint(1, 14)
        run = Run(
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
            half=half,
            table=table,
        )
        if chunks * run.digits <= can.max_row_words and run.epochs * sum(run.set_beats) <= max_beats:
            return run


def settings(run: Run) -> dict[str, int]:
    """The `settings` port's value."""
    names = ["chunks", "last_lane", "base_digits", "draws", "groups", "batch_groups", "epochs", "staleness"]
    names += ["half"] * run.table
    batch_tail, epoch_tail = run.tails
    return {**{name: getattr(run, name) for name in names}, "batch_tail": batch_tail, "epoch_tail": epoch_tail}
