"""The sequencer against a model of its holds, cycle for cycle, with beats arriving at random."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.helpers.blocks import DRAW, LABEL, MODEL, Run, Token, run, settings, some_run, tokens, unpack

from bitlane_hw.control.sequencer import Sequencer

BUILDS = [(1, 1), (2, 3), (8, 3)]  # rows_per_beat, outputs


@dataclass(frozen=True)
class Rates:
    """How likely, in a cycle, a beat comes, what is waited for happens, and beats may be taken."""

    arrival: float = 1
    loaded: float = 1
    published: float = 1
    go: float = 1
    enabled: float = 1


class Expected:
    """When the next token may pass."""

    def __init__(self, geometry: Run):
        self.geometry = geometry
        self.tokens = list(tokens(geometry))
        self.next = 0
        self.ends: list[int] = []  # cycles of the groups' last beats
        self.drawn = -2  # cycle of the last draw
        self.loaded = False
        self.unpublished = 0
        self.unsafe = False

    @property
    def token(self) -> Token | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def held(self, cycle: int) -> bool:
        token = self.token
        if token is None or token.kind in (MODEL, LABEL):
            return False
        too_soon = token.row_last and bool(self.ends) and cycle - self.ends[-1] < self.geometry.gap
        too_soon |= self.geometry.table and token.kind == DRAW and cycle - self.drawn < 2
        return not self.loaded or self.unpublished > self.geometry.staleness or self.unsafe or too_soon

    def take(self, cycle: int) -> None:
        token = self.token
        assert token is not None
        self.next += 1
        if token.kind == DRAW:
            self.drawn = cycle
        if token.row_last:
            self.ends.append(cycle)
            self.unpublished += token.batch_last
            self.unsafe = token.epoch_last


class Bench:
    def __init__(self, rng: Random, geometry: Run, rates: Rates):
        self.rng = rng
        self.geometry = geometry
        self.rates = rates
        self.dut = Sequencer(geometry.config)
        self.expected = Expected(geometry)
        self.present = [False, False]
        self.beats = [self._some_beat(), self._some_beat()]
        self.labels: dict[tuple[int, int], list[int]] = {}  # of four groups, by output and column
        self.cycle = 0
        self.stalls = [0, 0]  # memory, model

    def _some_beat(self) -> int:
        return self.rng.getrandbits(64 * self.geometry.rows_per_beat)

    def _inputs(self, ctx: Any) -> bool:
        """Sets this cycle's inputs, and says what they change from the next cycle on; returns enable."""
        dut, rng, rates, expected = self.dut, self.rng, self.rates, self.expected
        for i in range(2):
            self.present[i] = self.present[i] or rng.random() < rates.arrival
            ctx.set(dut.beats[i].valid, self.present[i])
            ctx.set(dut.beats[i].payload, self.beats[i])
        models_taken = expected.next >= self.geometry.model_beats
        self.now_loaded = models_taken and not expected.loaded and rng.random() < rates.loaded
        self.now_published = expected.unpublished > 0 and rng.random() < rates.published
        self.now_safe = expected.unsafe and not expected.unpublished and rng.random() < rates.go
        enable = rng.random() < rates.enabled
        ctx.set(dut.enable, enable)
        ctx.set(dut.loaded, self.now_loaded)
        ctx.set(dut.published, self.now_published)
        ctx.set(dut.epoch_go, self.now_safe)
        return enable

    async def step(self, ctx: Any) -> None:
        dut, expected = self.dut, self.expected
        enable = self._inputs(ctx)
        token = expected.token
        which = int(token is not None and token.kind == DRAW)
        held = expected.held(self.cycle)
        active = enable and token is not None
        taken = active and not held and self.present[which]

        stall_memory, stall_model = ctx.get(dut.stall_memory), ctx.get(dut.stall_model)
        assert stall_model == (active and held)
        assert stall_memory == (active and not held and not self.present[which])
        assert stall_memory + stall_model + taken == active, "each cycle is one of the three"
        self.stalls[0] += stall_memory
        self.stalls[1] += stall_model
        assert [ctx.get(beats.ready) for beats in dut.beats] == [taken and which == 0, taken and which == 1]
        assert ctx.get(dut.model.valid) == (taken and token.kind == MODEL)
        assert ctx.get(dut.digits.valid) == (taken and token.kind not in (MODEL, LABEL))
        if taken:
            self._check_output(ctx, token, self.beats[which])

        if taken:
            expected.take(self.cycle)
            self.present[which] = False
            self.beats[which] = self._some_beat()
        expected.loaded |= self.now_loaded
        expected.unpublished -= self.now_published
        expected.unsafe &= not self.now_safe
        self.cycle += 1
        await ctx.tick()

    def _check_output(self, ctx: Any, token: Token, beat: int) -> None:
        if token.kind == MODEL:
            model = ctx.get(self.dut.model.payload)
            assert (model.words, model.chunk, model.output, model.part) == (
                beat, token.chunk, token.output, token.part,
            )  # fmt: skip
        elif token.kind == LABEL:
            for column in range(self.geometry.rows_per_beat):
                self.labels[token.output, column] = unpack(beat >> (64 * column), 4, 16)
        else:
            self._check_digits(ctx.get(self.dut.digits.payload), token, beat)

    def _check_digits(self, digits: Any, token: Token, beat: int) -> None:
        assert digits.words == beat
        assert digits.chunk == token.chunk
        assert digits.bank == token.bank
        assert digits.draw == (token.kind == DRAW)
        for flag in ("half", "row_last") if self.geometry.table else ("first", "last_base", "row_last"):
            assert digits[flag] == getattr(token, flag), flag
        assert digits.end.batch_last == token.batch_last
        assert digits.end.epoch_last == token.epoch_last
        for (output, column), labels in self.labels.items():
            row = digits.rows[output][column]
            assert row.present == (column < token.rows)
            assert row.label == labels[token.group % 4]


def simulate(bench: Bench) -> None:
    """Until all tokens have passed, and a little longer."""

    async def testbench(ctx: Any) -> None:
        ctx.set(bench.dut.settings, settings(bench.geometry))
        await ctx.tick()  # the registers are there a cycle before
        budget = 100 * len(bench.expected.tokens)
        while bench.expected.token is not None:
            await bench.step(ctx)
            budget -= 1
            assert budget, "no progress"
        for _ in range(10):
            await bench.step(ctx)

    run(bench.dut, testbench)


def stops_before(bench: Bench) -> Token:
    """The token at which all stands still, for as long as anybody wants to wait."""

    async def testbench(ctx: Any) -> None:
        ctx.set(bench.dut.settings, settings(bench.geometry))
        await ctx.tick()  # the registers are there a cycle before
        for _ in range(len(bench.expected.tokens) + 50):
            await bench.step(ctx)

    run(bench.dut, testbench)
    assert bench.expected.token is not None
    return bench.expected.token


@pytest.mark.parametrize(("rows_per_beat", "outputs"), BUILDS)
@pytest.mark.parametrize(
    "rates",
    [
        Rates(),
        Rates(loaded=0.1, published=0.1, go=0.1),
        Rates(published=0.03),
        Rates(arrival=0.5, published=0.9),
        Rates(arrival=0.3, loaded=0.1, published=0.1),
        Rates(arrival=0.9, published=0.5, enabled=0.6),
    ],
    ids=["free", "model", "publishing", "memory", "both", "enable"],
)
@pytest.mark.parametrize("table", [False, True], ids=["digits", "table"])
def test_holds(seed: int, rates: Rates, rows_per_beat: int, outputs: int, table: bool) -> None:
    simulate(Bench(Random(seed), some_run(Random(seed), rows_per_beat, outputs, max_beats=250, table=table), rates))


@pytest.mark.parametrize("staleness", [0, 1])
def test_short_batches(seed: int, staleness: int) -> None:
    """Batches of one or two groups of few beats, so that a batch ends in cycles in which another is published."""
    rng = Random(seed)
    for published in (1, 0.7, 0.3):
        geometry = Run(1, 1, rng.randint(0, 1), 13, rng.randint(1, 2), 3, staleness=staleness)
        simulate(Bench(rng, geometry, Rates(published=published)))


@pytest.mark.parametrize(
    ("chunks", "digits", "outputs", "plain", "labelled"),
    [
        (1, 1, 1, 3, 3),  # the gap alone: digits + ROW_GAP, into which a label fits
        (1, 1, 3, 3, 4),
        (1, 3, 1, 5, 5),
        (1, 3, 3, 5, 6),
        (2, 1, 1, 3, 3),
        (2, 2, 1, 4, 5),  # the beats alone
        (3, 1, 3, 3, 6),
    ],
)
def test_groups_are_a_gap_apart(seed: int, chunks: int, digits: int, outputs: int, plain: int, labelled: int) -> None:
    """Cycles from a group's last beat to the next one's, where nothing else is waited for."""
    geometry = Run(chunks, digits, 0, groups=10, batch_groups=10, epochs=1, outputs=outputs)
    bench = Bench(Random(seed), geometry, Rates())
    simulate(bench)
    gaps = [later - earlier for earlier, later in pairwise(bench.expected.ends)]
    assert gaps == [labelled if group % 4 == 0 else plain for group in range(1, 10)]
    assert bench.stalls == [0, sum(gaps) - 9 * chunks * digits - 2 * outputs]


@pytest.mark.parametrize(
    ("chunks", "base_bits", "plain", "labelled"),
    [
        (1, 1, 4, 4),  # the gap alone: a half word and a draw fit, and a label
        (1, 3, 4, 4),
        (2, 1, 4, 5),  # a half word, a draw, a cycle's wait, a draw
        (2, 2, 4, 5),
        (3, 1, 6, 7),
        (3, 3, 8, 9),  # no draw waits
    ],
)
def test_draws_take_tables_two_cycles(seed: int, chunks: int, base_bits: int, plain: int, labelled: int) -> None:
    """Cycles from a group's last beat to the next one's; what no beat is taken in, the model is waited for."""
    half = base_bits % 2
    geometry = Run(chunks, base_bits // 2, 1, groups=10, batch_groups=10, epochs=1, half=half, table=True)
    bench = Bench(Random(seed), geometry, Rates())
    simulate(bench)
    gaps = [later - earlier for earlier, later in pairwise(bench.expected.ends)]
    assert gaps == [labelled if group % 4 == 0 else plain for group in range(1, 10)]
    waits_in_first = chunks // 2 if base_bits == 1 else 0
    row_beats = chunks * (base_bits // 2 + 1) + half * -(-chunks // 2)
    assert bench.stalls == [0, waits_in_first + sum(gaps) - 9 * row_beats - 2]


@pytest.mark.parametrize("outputs", [1, 3])
def test_what_a_digit_waits_for(seed: int, outputs: int) -> None:
    """Labels pass; without the models, an updated model, or the word to go on, the digits behind them do not."""
    geometry = Run(2, 2, 0, groups=8, batch_groups=4, epochs=2, outputs=outputs)
    for rates, epoch, group in (
        (Rates(loaded=0), 0, 0),
        (Rates(published=0), 0, 4),
        (Rates(go=0), 1, 0),
    ):
        token = stops_before(Bench(Random(seed), geometry, rates))
        assert (token.epoch, token.group, token.chunk, token.first) == (epoch, group, 0, True)
        assert token.kind not in (MODEL, LABEL)


@pytest.mark.parametrize("staleness", [0, 1])
def test_how_far_batches_run_ahead(seed: int, staleness: int) -> None:
    """One batch without any update published, two with staleness 1; at the epoch's end all wait."""
    for groups, stop in ((8, (0, 2 + 2 * staleness)), (2 + 2 * staleness, (1, 0))):
        geometry = Run(1, 2, 1, groups, batch_groups=2, epochs=2, staleness=staleness)
        token = stops_before(Bench(Random(seed), geometry, Rates(published=0)))
        assert (token.epoch, token.group) == stop


def test_banks_of_stale_batches(seed: int) -> None:
    """The loaded models are in bank 0; batches write 1, 0, 1, ... and read what was written a batch earlier."""
    geometry = Run(1, 1, 0, groups=3, batch_groups=1, epochs=3, staleness=1)
    bench = Bench(Random(seed), geometry, Rates())
    assert [token.bank for token in bench.expected.tokens if token.row_last] == [0, 0, 1, 1, 1, 0, 0, 0, 1]
    simulate(bench)
