"""The gradient pass: beats with their terms, against exact integers, cycle by cycle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import BOX, L1, L2, NONE, random_int, row_terms
from tests.helpers.run_shapes import RunShape, random_shape, settings, small_config, tokens
from tests.helpers.simulation import BlockSimulator, fields

from bitlane_hw.datapath.gradient import GradientPass

SCALED_GRADIENT_BITS = 32
ENDS = -(1 << SCALED_GRADIENT_BITS - 1), (1 << SCALED_GRADIENT_BITS - 1) - 1


def random_scaled_gradients(rng: Random, rows_per_beat: int) -> list[dict[str, int]]:
    """Return scaled gradients, often extreme ones, so that the terms are as large as possible."""
    return [
        {name: rng.choice((random_int(rng, SCALED_GRADIENT_BITS), *ENDS)) for name in ("total", "difference")}
        for _ in range(rows_per_beat)
    ]


class Group:
    """One group: the inputs of its pass and the expected outputs."""

    def __init__(self, rng: Random, geometry: RunShape, batch_begins: bool):
        self.scaled_gradients = random_scaled_gradients(rng, geometry.rows_per_beat)
        self.end = {"batch_last": rng.randrange(2), "epoch_last": rng.randrange(2)}
        self.prox = rng.choice((NONE, L2, L1, BOX))
        terms = [
            row_terms(row["total"], row["difference"], geometry.base_digits, geometry.draws)
            for row in self.scaled_gradients
        ]
        self.passes = []
        for token in tokens(geometry):
            if token.kind >= 2 and token.epoch == token.group == 0:
                words = [rng.getrandbits(64) for _ in terms]
                chosen = [row[len(self.passes) % geometry.digits] for row in terms]
                rows = [
                    {"word": word, "plus": plus, "minus": minus}
                    for word, (plus, minus) in zip(words, chosen, strict=True)
                ]
                self.passes.append(
                    {
                        "rows": rows,
                        "chunk": token.chunk,
                        "first": token.first,
                        "continues": token.first and geometry.chunks == 1 and not batch_begins,
                        "last": token.last,
                        "last_chunk": token.chunk == geometry.chunks - 1,
                        "prox": self.prox,
                        "end": self.end,
                    }
                )


def check_pass(simulator: BlockSimulator, rng: Random, geometry: RunShape, spare: int) -> None:
    """Send groups one after the other, each after the end of the previous one or up to `spare` cycles later."""
    dut = simulator.dut

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, settings(geometry))
        due: dict[int, dict[str, Any]] = {}
        begin, batch_begins = 2, True
        for cycle in range(3 + 8 * (geometry.chunks * geometry.digits + spare)):
            ctx.set(dut.start, cycle == begin)
            if cycle == begin:
                group = Group(rng, geometry, batch_begins)
                batch_begins = bool(group.end["batch_last"])
                for port, row in zip(dut.scaled_gradients, group.scaled_gradients, strict=True):
                    ctx.set(port, row)
                ctx.set(dut.end, group.end)
                ctx.set(dut.prox, group.prox)
                due |= {cycle + GradientPass.latency + i: beat for i, beat in enumerate(group.passes)}
                begin += len(group.passes) + rng.randint(0, spare)
            else:  # used only with `start`
                ctx.set(dut.end.as_value(), rng.getrandbits(2))
                ctx.set(dut.prox, rng.randrange(4))
            beat = due.get(cycle + GradientPass.latency)
            assert ctx.get(dut.beats.ready) == (beat is not None), cycle
            words = rng.getrandbits(64 * geometry.rows_per_beat)
            if beat is not None:
                words = sum(row["word"] << 64 * i for i, row in enumerate(beat["rows"]))
            ctx.set(dut.beats.payload, words)
            expected = due.pop(cycle, None)
            assert ctx.get(dut.passes.valid) == (expected is not None), cycle
            if expected is not None:
                assert fields(ctx.get(dut.passes.payload)) == expected
            await ctx.tick()

    simulator.run(testbench)


@pytest.mark.parametrize("rows_per_beat", [1, 2, 8])
def test_pass(seed: int, rows_per_beat: int) -> None:
    """The beats of each group with their terms, one cycle after its start; the next group follows at once or later."""
    rng = Random(seed)
    simulator = BlockSimulator(GradientPass(small_config(rows_per_beat)))
    assert GradientPass.latency == 1
    corners = [
        RunShape(chunks, base_digits, draws, 1, 1, 1, rows_per_beat=rows_per_beat)
        for chunks, base_digits, draws in ((1, 1, 0), (1, 0, 1), (3, 0, 1), (2, 1, 1), (1, 16, 0), (1, 15, 1))
    ]
    for geometry in (*corners, *(random_shape(rng, rows_per_beat) for _ in range(6))):
        for spare in (0, 3):
            check_pass(simulator, rng, geometry, spare)


def test_the_largest_terms_fit() -> None:
    """The terms of a row add up to less than a quarter of the range of MASTER."""
    for base_digits in range(17):
        for draws in (0, 1) if base_digits < 16 else (0,):
            for total in ENDS:
                for difference in ENDS:
                    terms = row_terms(total, difference, base_digits, draws)
                    assert sum(max(abs(plus), abs(minus)) for plus, minus in terms) < 1 << 30
