"""The sequencer against a model of its conditions, cycle by cycle, with beats that arrive at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import unpack
from tests.helpers.run_shapes import DRAW, LABEL, MODEL, RunShape, Token, random_shape, settings, tokens
from tests.helpers.simulation import run

from bitlane.contract.latencies import words_latency
from bitlane_hw.control.sequencer import Sequencer

BUILDS = [(1, 1, 1), (2, 3, 1), (8, 3, 1), (8, 1, 4)]  # rows_per_beat, outputs, ports


@dataclass(frozen=True)
class Rates:
    """Probabilities, for each cycle, that a beat arrives, that an event happens, and that beats may be taken."""

    arrival: float = 1
    loaded: float = 1
    published: float = 1
    go: float = 1
    enabled: float = 1


class ExpectedSequence:
    """A model of the conditions of the next token."""

    def __init__(self, geometry: RunShape):
        self.geometry = geometry
        self.tokens = list(tokens(geometry))
        self.next = 0
        self.ends: list[int] = []  # cycles of the last beats of groups
        self.drawn = -2  # cycle of the last draw
        self.paused = -1  # cycle in which the update lanes need a pause
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
        too_soon = cycle == self.paused
        too_soon |= self.geometry.table_lanes and token.kind == DRAW and cycle - self.drawn < 2
        return not self.loaded or self.unpublished > self.geometry.staleness or self.unsafe or too_soon

    def take(self, cycle: int) -> None:
        token = self.token
        assert token is not None
        self.next += 1
        if token.kind == DRAW:
            self.drawn = cycle
        if token.row_last:
            self.ends.append(cycle)
            self.paused = cycle + 1 if token.batch_last and self.geometry.chunks == 1 else -1
            self.unpublished += token.batch_last
            self.unsafe = token.epoch_last


class SequencerDriver:
    def __init__(self, rng: Random, geometry: RunShape, rates: Rates, ports: int = 1):
        self.rng = rng
        self.geometry = geometry
        self.rates = rates
        self.config = replace(geometry.config, ports=ports)
        self.dut = Sequencer(self.config)
        self.sent: dict[int, tuple[Token, int]] = {}  # tokens and beats, by the cycle of their words
        self.expected = ExpectedSequence(geometry)
        self.arrived = [False, False]
        self.beats = [self._random_beat(), self._random_beat()]
        self.labels: dict[tuple[int, int], list[int]] = {}  # labels of four groups, by output and row
        self.cycle = 0
        self.stalls = [0, 0]  # memory, model

    def _random_beat(self) -> int:
        return self.rng.getrandbits(64 * self.geometry.rows_per_beat)

    def _inputs(self, ctx: Any) -> bool:
        """Set the inputs of this cycle and record the events in it; return `enable`."""
        dut, rng, rates, expected = self.dut, self.rng, self.rates, self.expected
        for i in range(2):
            self.arrived[i] = self.arrived[i] or rng.random() < rates.arrival
            ctx.set(dut.beats[i].valid, self.arrived[i])
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
        stream = int(token is not None and token.kind == DRAW)
        held = expected.held(self.cycle)
        active = enable and token is not None
        taken = active and not held and self.arrived[stream]

        stall_memory, stall_model = ctx.get(dut.stall_memory), ctx.get(dut.stall_model)
        assert stall_model == (active and held)
        assert stall_memory == (active and not held and not self.arrived[stream])
        assert stall_memory + stall_model + taken == active, "exactly one of stall_memory, stall_model and a transfer"
        self.stalls[0] += stall_memory
        self.stalls[1] += stall_model
        assert [ctx.get(beats.ready) for beats in dut.beats] == [taken and stream == 0, taken and stream == 1]
        if self.config.ports > 1:
            assert ctx.get(dut.batch_taken) == (taken and token.row_last and token.batch_last)
        if taken:
            self.sent[self.cycle + words_latency(self.config.ports)] = token, self.beats[stream]
        sent, beat = self.sent.pop(self.cycle, (None, self.beats[stream]))
        draw = sent is not None and sent.kind == DRAW
        ctx.set(dut.beats[draw].payload, beat)
        ctx.set(dut.beats[1 - draw].payload, self._random_beat())
        assert ctx.get(dut.model.valid) == (sent is not None and sent.kind == MODEL)
        assert ctx.get(dut.digits.valid) == (sent is not None and sent.kind not in (MODEL, LABEL))
        if sent is not None:
            self._check_output(ctx, sent, beat)

        if taken:
            expected.take(self.cycle)
            self.arrived[stream] = False
            self.beats[stream] = self._random_beat()
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
            for row in range(self.geometry.rows_per_beat):
                self.labels[token.output, row] = unpack(beat >> (64 * row), 4, 16)
        else:
            self._check_digits(ctx.get(self.dut.digits.payload), token, beat)

    def _check_digits(self, digits: Any, token: Token, beat: int) -> None:
        assert digits.words == beat
        assert digits.chunk == token.chunk
        assert digits.bank == token.bank
        assert digits.draw == (token.kind == DRAW)
        for flag in ("half_digit", "row_last") if self.geometry.table_lanes else ("first", "last_base", "row_last"):
            assert digits[flag] == getattr(token, flag), flag
        assert digits.end.batch_last == token.batch_last
        assert digits.end.epoch_last == token.epoch_last
        for (output, row), labels in self.labels.items():
            found = digits.rows[output][row]
            assert found.present == (row < token.rows)
            assert found.label == labels[token.group % 4]


def simulate(driver: SequencerDriver) -> None:
    """Simulate until all tokens have passed, and 10 more cycles."""

    async def testbench(ctx: Any) -> None:
        ctx.set(driver.dut.settings, settings(driver.geometry))
        await ctx.tick()  # the settings are valid one cycle earlier
        budget = 100 * len(driver.expected.tokens)
        while driver.expected.token is not None:
            await driver.step(ctx)
            budget -= 1
            assert budget, "no progress"
        for _ in range(10):
            await driver.step(ctx)

    run(driver.dut, testbench)


def stops_before(driver: SequencerDriver) -> Token:
    """Return the token at which the sequencer stops for ever."""

    async def testbench(ctx: Any) -> None:
        ctx.set(driver.dut.settings, settings(driver.geometry))
        await ctx.tick()  # the settings are valid one cycle earlier
        for _ in range(len(driver.expected.tokens) + 50):
            await driver.step(ctx)

    run(driver.dut, testbench)
    assert driver.expected.token is not None
    return driver.expected.token


@pytest.mark.parametrize(("rows_per_beat", "outputs", "ports"), BUILDS)
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
def test_beats_wait_for_their_conditions(
    seed: int, rates: Rates, rows_per_beat: int, outputs: int, ports: int, table: bool
) -> None:
    shape = random_shape(Random(seed), rows_per_beat, outputs, max_beats=250, table_lanes=table)
    simulate(SequencerDriver(Random(seed), shape, rates, ports))


@pytest.mark.parametrize("staleness", [0, 1])
def test_short_batches(seed: int, staleness: int) -> None:
    """Batches of one or two short groups, so that a batch ends while another one is published."""
    rng = Random(seed)
    for published in (1, 0.7, 0.3):
        geometry = RunShape(1, 1, rng.randint(0, 1), 13, rng.randint(1, 2), 3, staleness=staleness)
        simulate(SequencerDriver(rng, geometry, Rates(published=published)))


@pytest.mark.parametrize(
    ("chunks", "digits", "outputs", "plain", "labelled"),
    [
        (1, 1, 1, 1, 2),
        (1, 3, 3, 3, 6),
        (2, 1, 1, 2, 3),
        (3, 2, 3, 6, 9),
    ],
)
def test_groups_of_a_batch_follow_without_a_gap(
    seed: int, chunks: int, digits: int, outputs: int, plain: int, labelled: int
) -> None:
    """Cycles between the last beats of consecutive groups, if no other condition applies: as many as beats."""
    geometry = RunShape(chunks, digits, 0, groups=10, batch_groups=10, epochs=1, outputs=outputs)
    driver = SequencerDriver(Random(seed), geometry, Rates())
    simulate(driver)
    gaps = [later - earlier for earlier, later in pairwise(driver.expected.ends)]
    assert gaps == [labelled if group % 4 == 0 else plain for group in range(1, 10)]
    assert driver.stalls == [0, 0]


@pytest.mark.parametrize(("chunks", "outputs", "plain", "labelled"), [(1, 1, 3, 3), (1, 3, 3, 5), (2, 1, 4, 5)])
def test_batches_of_rows_of_one_chunk_are_a_cycle_apart(
    seed: int, chunks: int, outputs: int, plain: int, labelled: int
) -> None:
    """Batches of one group of two digits, with staleness 1 and a model in time; labels fit into the pause."""
    geometry = RunShape(chunks, 2, 0, groups=10, batch_groups=1, epochs=1, staleness=1, outputs=outputs)
    driver = SequencerDriver(Random(seed), geometry, Rates())
    simulate(driver)
    gaps = [later - earlier for earlier, later in pairwise(driver.expected.ends)]
    assert gaps == [labelled if group % 4 == 0 else plain for group in range(1, 10)]


@pytest.mark.parametrize(
    ("chunks", "base_bits", "plain", "labelled"),
    [
        (1, 1, 2, 3),
        (1, 3, 3, 4),
        (2, 1, 4, 5),  # half digits, a draw, a waiting cycle, a draw
        (2, 2, 4, 5),
        (3, 1, 6, 7),
        (3, 3, 8, 9),  # no draw waits
    ],
)
def test_draw_words_take_table_lanes_two_cycles(
    seed: int, chunks: int, base_bits: int, plain: int, labelled: int
) -> None:
    """Cycles between the last beats of consecutive groups; cycles without a beat count as model stalls."""
    half = base_bits % 2
    geometry = RunShape(
        chunks, base_bits // 2, 1, groups=10, batch_groups=10, epochs=1, half_digit=half, table_lanes=True
    )
    driver = SequencerDriver(Random(seed), geometry, Rates())
    simulate(driver)
    gaps = [later - earlier for earlier, later in pairwise(driver.expected.ends)]
    assert gaps == [labelled if group % 4 == 0 else plain for group in range(1, 10)]
    waits_in_first = chunks // 2 if base_bits == 1 else 0
    row_beats = chunks * (base_bits // 2 + 1) + half * -(-chunks // 2)
    assert driver.stalls == [0, waits_in_first + sum(gaps) - 9 * row_beats - 2]


@pytest.mark.parametrize("outputs", [1, 3])
def test_conditions_of_a_digit(seed: int, outputs: int) -> None:
    """Labels pass. Digits wait for the loaded models, for an updated model, and for the start of the epoch."""
    geometry = RunShape(2, 2, 0, groups=8, batch_groups=4, epochs=2, outputs=outputs)
    for rates, epoch, group in (
        (Rates(loaded=0), 0, 0),
        (Rates(published=0), 0, 4),
        (Rates(go=0), 1, 0),
    ):
        token = stops_before(SequencerDriver(Random(seed), geometry, rates))
        assert (token.epoch, token.group, token.chunk, token.first) == (epoch, group, 0, True)
        assert token.kind not in (MODEL, LABEL)


@pytest.mark.parametrize("staleness", [0, 1])
def test_unpublished_batches_are_limited(seed: int, staleness: int) -> None:
    """One batch may be unpublished, two with staleness 1; at the end of an epoch every batch must be published."""
    for groups, stop in ((8, (0, 2 + 2 * staleness)), (2 + 2 * staleness, (1, 0))):
        geometry = RunShape(1, 2, 1, groups, batch_groups=2, epochs=2, staleness=staleness)
        token = stops_before(SequencerDriver(Random(seed), geometry, Rates(published=0)))
        assert (token.epoch, token.group) == stop


def test_banks_with_staleness(seed: int) -> None:
    """The loaded models are in bank 0; batches write 1, 0, 1, ... and read the model of one batch earlier."""
    geometry = RunShape(1, 1, 0, groups=3, batch_groups=1, epochs=3, staleness=1)
    driver = SequencerDriver(Random(seed), geometry, Rates())
    assert [token.bank for token in driver.expected.tokens if token.row_last] == [0, 0, 1, 1, 1, 0, 0, 0, 1]
    simulate(driver)
