"""The gradient pass of table lanes: its terms against exact integers, cycle by cycle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.coded_rows import CodedRow, random_slots, read_levels
from tests.helpers.integer_model import BOX, L1, L2, NONE, clip, random_int, rounded
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import BlockSimulator, fields

from bitlane_hw.datapath.table_pass import TablePass

LANES, SLOTS, LATENCY = 32, 64, 5
ENDS = -(1 << 31), (1 << 31) - 1  # range of a scaled gradient


class Group:
    """One group: the inputs of its pass and the expected outputs, by the cycle after its start."""

    def __init__(
        self,
        rng: Random,
        rows_per_beat: int,
        chunks: int,
        base_bits: int,
        slots: list[list[list[int]]],
        batch_begins: bool,
    ):
        self.scaled_gradients = [
            {name: rng.choice((random_int(rng, 32), *ENDS)) for name in ("total", "difference")}
            for _ in range(rows_per_beat)
        ]
        self.end = {"batch_last": rng.randrange(2), "epoch_last": rng.randrange(2)}
        self.prox = rng.choice((NONE, L2, L1, BOX))
        rows = [CodedRow(rng, chunks, base_bits) for _ in range(rows_per_beat)]
        exact = [
            [rounded(row["total"] + sign * row["difference"], 6) for sign in (-1, 1)] for row in self.scaled_gradients
        ]
        limited = [[clip(c, 25) for c in row] for row in exact]
        self.clipped = sum(
            (c != exact[row][i]) << 2 * row + i for row, pair in enumerate(limited) for i, c in enumerate(pair)
        )
        self.beats: dict[int, int] = {}
        self.terms: dict[int, dict[str, Any]] = {}
        cycle, drawn = 0, -2
        for words in zip(*(row.words() for row in rows), strict=True):
            chunk, draw = words[0]["chunk"], words[0]["draw"]
            cycle += draw and cycle == drawn + 1  # a waiting cycle
            self.beats[cycle] = sum(word["word"] << 64 * i for i, word in enumerate(words))
            if draw:
                drawn = cycle
                for k in range(2):
                    levels = [
                        [lane[address] for lane, address in zip(slots[i], row.addresses(chunk)[k], strict=True)]
                        for i, row in enumerate(rows)
                    ]
                    self.terms[cycle + LATENCY + k] = {
                        "rows": [
                            [rounded(level * limited[i][1 - k], 13) for level in row] for i, row in enumerate(levels)
                        ],
                        "chunk": chunk,
                        "first": k == 0,
                        "continues": chunks == 1 and not batch_begins,
                        "last": k == 1,
                        "last_chunk": chunk == chunks - 1,
                        "prox": self.prox,
                        "end": self.end,
                    }
            cycle += 1
        self.cycles = cycle  # least distance of the next start


def check_pass(
    simulator: BlockSimulator, rng: Random, rows_per_beat: int, chunks: int, base_bits: int, spare: int
) -> None:
    """Send groups one after the other, each after the end of the previous one or up to `spare` cycles later."""
    dut = simulator.dut
    slots = [random_slots(rng, SLOTS) for _ in range(rows_per_beat)]

    async def testbench(ctx: Any) -> None:
        ctx.set(
            dut.settings, {"chunks": chunks, "base_digits": base_bits // 2, "half_digit": base_bits % 2, "draws": 1}
        )
        beats: dict[int, int] = {}
        terms: dict[int, dict[str, Any]] = {}
        clipped: dict[int, int] = {}
        begin, batch_begins, read = 2, True, [0] * rows_per_beat
        for cycle in range(10 + 6 * (4 + 3 * chunks + spare)):
            ctx.set(dut.start, cycle == begin)
            if cycle == begin:
                group = Group(rng, rows_per_beat, chunks, base_bits, slots, batch_begins)
                batch_begins = bool(group.end["batch_last"])
                for port, row in zip(dut.scaled_gradients, group.scaled_gradients, strict=True):
                    ctx.set(port, row)
                ctx.set(dut.end, group.end)
                ctx.set(dut.prox, group.prox)
                beats |= {begin + at: beat for at, beat in group.beats.items()}
                terms |= {begin + at: expected for at, expected in group.terms.items()}
                clipped[begin + 2] = group.clipped
                begin += group.cycles + rng.randint(0, spare)
            else:  # used only with `start`
                ctx.set(dut.end.as_value(), rng.getrandbits(2))
                ctx.set(dut.prox, rng.randrange(4))
            ctx.set(dut.beats.payload, beats.get(cycle, rng.getrandbits(64 * rows_per_beat)))
            assert ctx.get(dut.beats.ready) == (cycle in beats), cycle
            for port, levels in zip(dut.codebooks, read, strict=True):
                ctx.set(port.levels, levels)
            read = [
                read_levels(table, ctx.get(port.addresses)) for table, port in zip(slots, dut.codebooks, strict=True)
            ]
            assert ctx.get(dut.clipped) == clipped.get(cycle, 0), cycle
            expected = terms.pop(cycle, None)
            assert ctx.get(dut.passes.valid) == (expected is not None), cycle
            if expected is None:
                assert not ctx.get(dut.passes.payload.first) and not ctx.get(dut.passes.payload.last)
            else:
                assert fields(ctx.get(dut.passes.payload)) == expected, cycle
            await ctx.tick()

    simulator.run(testbench)


@pytest.mark.parametrize("rows_per_beat", [1, 2])
def test_pass(seed: int, rows_per_beat: int) -> None:
    """The terms of each group; the next group follows at once or later; each clipped value is flagged once."""
    rng = Random(seed)
    simulator = BlockSimulator(TablePass(small_config(rows_per_beat, table_lanes=True)))
    assert TablePass.latency == LATENCY
    for base_bits in (1, 2, 3):
        for chunks in (1, 2, rng.randint(3, 4)):
            check_pass(simulator, rng, rows_per_beat, chunks, base_bits, rng.choice((0, 3)))
