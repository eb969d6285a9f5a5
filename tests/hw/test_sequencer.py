"""The sequencer against a model of its holds, cycle for cycle, with words arriving at random."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bitlane_hw.contract import MIN_ROW
from bitlane_hw.sequencer import Sequencer

from .support import CONFIG, DRAW, LABEL, MODEL, Run, Token, run, settings, some_run, tokens


class Expected:
    """When the next token may pass."""

    def __init__(self, geometry: Run):
        self.tokens = list(tokens(geometry))
        self.next = 0
        self.row_end = -MIN_ROW  # cycle of the last word of the last row
        self.unpublished = False
        self.unsafe = False

    @property
    def token(self) -> Token | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def held(self, cycle: int) -> bool:
        token = self.token
        if token is None or token.kind in (MODEL, LABEL):
            return False
        return self.unpublished or self.unsafe or (token.row_last and cycle - self.row_end < MIN_ROW)

    def take(self, cycle: int) -> None:
        token = self.token
        assert token is not None
        self.next += 1
        if token.row_last:
            self.row_end, self.unpublished, self.unsafe = cycle, token.batch_last, token.epoch_last


class Bench:
    def __init__(self, rng: Random, geometry: Run, arrival: float, answer: float, enabled: float = 1):
        self.rng = rng
        self.geometry = geometry
        self.rates = arrival, answer, enabled
        self.dut = Sequencer(CONFIG)
        self.expected = Expected(geometry)
        self.present = [False, False]
        self.words = [rng.getrandbits(64), rng.getrandbits(64)]
        self.labels = [0] * 4
        self.cycle = 0
        self.stalls = [0, 0]  # memory, model

    def _inputs(self, ctx: Any) -> tuple[bool, bool, bool]:
        """Sets this cycle's inputs: enable, published, epoch_go."""
        arrival, answer, enabled = self.rates
        dut, rng, expected = self.dut, self.rng, self.expected
        for i in range(2):
            self.present[i] = self.present[i] or rng.random() < arrival
            ctx.set(dut.words[i].valid, self.present[i])
            ctx.set(dut.words[i].payload, self.words[i])
        published = expected.unpublished and rng.random() < answer
        go = expected.unsafe and not expected.unpublished and rng.random() < answer
        enable = rng.random() < enabled
        ctx.set(dut.enable, enable)
        ctx.set(dut.published, published)
        ctx.set(dut.epoch_go, go)
        return enable, published, go

    async def step(self, ctx: Any) -> None:
        dut, expected = self.dut, self.expected
        enable, published, go = self._inputs(ctx)
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
        assert [ctx.get(words.ready) for words in dut.words] == [taken and which == 0, taken and which == 1]
        assert ctx.get(dut.model.valid) == (taken and token.kind == MODEL)
        assert ctx.get(dut.digits.valid) == (taken and token.kind not in (MODEL, LABEL))
        if taken:
            self._check_output(ctx, token, self.words[which])

        if published:
            expected.unpublished = False
        if go:
            expected.unsafe = False
        if taken:
            expected.take(self.cycle)
            self.present[which] = False
            self.words[which] = self.rng.getrandbits(64)
        self.cycle += 1
        await ctx.tick()

    def _check_output(self, ctx: Any, token: Token, word: int) -> None:
        if token.kind == MODEL:
            assert ctx.get(self.dut.model.payload) == word
        elif token.kind == LABEL:
            fields = [(word >> (16 * i)) & 0xFFFF for i in range(4)]
            self.labels = [field - (field >> 15 << 16) for field in fields]
        else:
            digit = ctx.get(self.dut.digits.payload)
            assert digit.word == word
            assert digit.chunk == token.chunk
            assert digit.draw == (token.kind == DRAW)
            for flag in ("first", "last_base", "row_last"):
                assert digit[flag] == getattr(token, flag), flag
            assert digit.end.label == self.labels[token.row % 4]
            assert digit.end.batch_last == token.batch_last
            assert digit.end.epoch_last == token.epoch_last


def simulate(bench: Bench) -> None:
    async def testbench(ctx: Any) -> None:
        ctx.set(bench.dut.settings, settings(bench.geometry))
        budget = 100 * len(bench.expected.tokens)
        while bench.expected.token is not None:
            await bench.step(ctx)
            budget -= 1
            assert budget, "no progress"
        for _ in range(10):
            await bench.step(ctx)

    run(bench.dut, testbench)


@pytest.mark.parametrize(
    ("arrival", "answer"), [(1, 1), (1, 0.1), (0.5, 0.9), (0.3, 0.1)], ids=["free", "model", "memory", "both"]
)
def test_holds(seed: int, arrival: float, answer: float) -> None:
    rng = Random(seed)
    for _ in range(5):
        simulate(Bench(rng, some_run(rng), arrival, answer))


def test_enable(seed: int) -> None:
    rng = Random(seed)
    for _ in range(4):
        simulate(Bench(rng, some_run(rng), 0.9, 0.5, enabled=0.6))


def test_short_rows_are_min_row_apart(seed: int) -> None:
    """One word a row, nothing else to wait for: MIN_ROW cycles a row; a label fits into the hold."""
    geometry = Run(chunks=1, base_digits=1, draws=0, rows=9, batch=9, epochs=1)
    bench = Bench(Random(seed), geometry, 1, 1)
    simulate(bench)
    labels_after_first = 2
    assert bench.stalls == [0, (geometry.rows - 1) * (MIN_ROW - 1) - labels_after_first]


def test_a_label_passes_while_a_batch_waits(seed: int) -> None:
    geometry = Run(chunks=2, base_digits=2, draws=0, rows=5, batch=4, epochs=1)
    bench = Bench(Random(seed), geometry, 1, 0)
    label = [i for i, token in enumerate(bench.expected.tokens) if token.kind == LABEL][1]

    async def testbench(ctx: Any) -> None:
        ctx.set(bench.dut.settings, settings(geometry))
        for _ in range(len(bench.expected.tokens) + 50):
            await bench.step(ctx)

    run(bench.dut, testbench)
    assert bench.expected.next == label + 1
