"""The second use of a row: terms and updates against exact integers, cycle for cycle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bitlane_hw import contract
from bitlane_hw.engine import Engine
from bitlane_hw.gradient import GradientLanes, GradientPass

from .support import CONFIG, clip, pack, rounded, run, settings, some_int, some_run, tokens, unpack

LANES = 32
MASTER_BITS = 32
COEFFICIENT_BITS = 32
SHIFTS = (8, 4)


def test_promised_latencies() -> None:
    assert GradientPass.latency == 2
    assert GradientLanes.latency == 3
    assert GradientLanes.latency + 1 == contract.MIN_ROW
    assert Engine.update_latency == contract.UPDATE_LATENCY == 23


def row_terms(total: int, difference: int, base_digits: int, draws: int) -> list[tuple[int, int]]:
    """(P_k, M_k) of the digits of a chunk."""
    terms = [(rounded(3 * total, 2 * k + 4), rounded(total, 2 * k + 4)) for k in range(base_digits)]
    shift = 2 * base_digits + 2
    return terms + [(rounded(total, shift), rounded(difference, shift))] * draws


@pytest.mark.parametrize("spare", [0, 3])
def test_pass(seed: int, spare: int) -> None:
    """Each row's words with its terms, from two cycles after its coefficients, the next row right behind it."""
    rng = Random(seed)
    for _ in range(8):
        geometry = some_run(rng)
        dut = GradientPass(CONFIG)
        shape = [token for token in tokens(geometry) if token.kind >= 2 and token.epoch == token.row == 0]

        async def testbench(ctx: Any, dut: GradientPass = dut, geometry: Any = geometry, shape: Any = shape) -> None:
            ctx.set(dut.settings, settings(geometry))
            due: dict[int, dict[str, int]] = {}
            next_row = 2
            for cycle in range(3 + 12 * (len(shape) + spare)):
                ctx.set(dut.words.payload, word := rng.getrandbits(64))
                ctx.set(dut.coefficients.valid, cycle == next_row)
                row = {
                    "total": some_int(rng, COEFFICIENT_BITS),
                    "difference": some_int(rng, COEFFICIENT_BITS),
                    "batch_last": rng.randrange(2),
                    "epoch_last": rng.randrange(2),
                }
                shrink = row["batch_last"] * rng.randrange(2)
                ctx.set(dut.coefficients.payload, row)
                ctx.set(dut.shrink, shrink)
                if cycle == next_row:
                    next_row += len(shape) + rng.randint(0, spare)
                    terms = row_terms(row["total"], row["difference"], geometry.base_digits, geometry.draws)
                    for i, token in enumerate(shape):
                        plus, minus = terms[i % geometry.digits]
                        due[cycle + GradientPass.latency + i] = {
                            "plus": plus,
                            "minus": minus,
                            "chunk": token.chunk,
                            "first": token.first,
                            "last": token.last,
                            "tail": token.chunk == geometry.chunks - 1,
                            "shrink": shrink,
                            "batch_last": row["batch_last"],
                            "epoch_last": row["epoch_last"],
                        }
                taking = cycle + 1 in due
                assert ctx.get(dut.words.ready) == taking
                if taking:
                    due[cycle + 1]["word"] = word
                expected = due.pop(cycle, None)
                assert ctx.get(dut.passes.valid) == (expected is not None), cycle
                if expected is not None:
                    seen = ctx.get(dut.passes.payload)
                    assert {name: seen[name] for name in expected} == expected
                await ctx.tick()

        run(dut, testbench)


class Lanes:
    """Feeds rows of passes to the lanes, and works out what each write must be."""

    def __init__(self, rng: Random, chunks: int, digits: int, shift: int):
        self.rng = rng
        self.chunks = chunks
        self.digits = digits
        self.shift = shift
        self.features = rng.randint(2, LANES)  # of the last chunk
        self.dut = GradientLanes(CONFIG)
        self.masters = [[some_int(rng, MASTER_BITS) for _ in range(LANES)] for _ in range(CONFIG.max_chunks)]
        self.masters[0][:2] = -(1 << MASTER_BITS - 1), (1 << MASTER_BITS - 1) - 1
        self.memory = [list(chunk) for chunk in self.masters]  # as the lanes see it
        self.saturated = [0, 0]

    def row(self, outward: bool) -> tuple[list[dict[str, int]], list[tuple[list[int], int]]]:
        """A row's passes; and for each chunk its new masters and how many were clipped.

        `outward` pushes the first two weights over the ends of the range, where they begin.
        """
        rng = self.rng
        bits = rng.choice((30, 30, 12)) - 2
        flags = {"batch_last": rng.randrange(2), "epoch_last": rng.randrange(2)}
        flags["shrink"] = flags["batch_last"] * rng.randrange(2)
        sizes = [bits - 2 * min(k, 4) for k in range(self.digits)]
        terms = [(some_int(rng, size), some_int(rng, size)) for size in sizes]
        if outward:
            flags["shrink"] = 0
            terms = [(1 << size - 2, 1 << size - 2) for size in sizes]
        passes, results = [], []
        for chunk in range(self.chunks):
            tail = chunk == self.chunks - 1
            digits = [[rng.randrange(4) for _ in range(LANES)] for _ in terms]
            for digit in digits if outward else ():
                digit[:2] = 3, 0
            for k, (plus, minus) in enumerate(terms):
                passes.append(
                    {
                        "word": pack(digits[k], 2),
                        "plus": plus,
                        "minus": minus,
                        "chunk": chunk,
                        "first": k == 0,
                        "last": k == self.digits - 1,
                        "tail": tail,
                        **flags,
                    }
                )
            results.append(self._update(chunk, tail, digits, terms, flags["shrink"]))
        return passes, results

    def _update(self, chunk: int, tail: bool, digits: Any, terms: Any, shrink: int) -> tuple[list[int], int]:
        clipped = 0
        for j, old in enumerate(self.masters[chunk]):
            if tail and j >= self.features:
                continue
            t = 0
            for digit, (plus, minus) in zip(digits, terms, strict=True):
                high, low = digit[j] >> 1, digit[j] & 1
                t += (plus if high == low else minus) * (1 if high else -1)
            exact = old - t - ((old >> SHIFTS[self.shift]) if shrink else 0)
            new = self.masters[chunk][j] = clip(exact, MASTER_BITS)
            clipped += new != exact
            self.saturated[exact > 0] += new != exact
        return list(self.masters[chunk]), clipped


def check_lanes(bench: Lanes, rows: int, spare: int) -> None:
    """Rows as close as they may come, or a little apart; every output in its cycle."""
    dut, rng = bench.dut, bench.rng

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.lane_mask, (1 << bench.features) - 1)
        ctx.set(dut.shrink_shift, bench.shift)
        schedule: dict[int, dict[str, int]] = {}
        writes: dict[int, tuple[dict[str, int], list[int], int]] = {}
        words = bench.chunks * bench.digits
        cycle = 1
        for row in range(rows):
            passes, results = bench.row(outward=row == 0)
            for i, payload in enumerate(passes):
                schedule[cycle + i] = payload
                if payload["last"]:
                    masters, clipped = results[payload["chunk"]]
                    writes[cycle + i + GradientLanes.latency] = (payload, masters, clipped)
            cycle += max(words, contract.MIN_ROW) + rng.randint(0, spare)
        read = [0] * LANES
        clipped_before = 0
        for now in range(cycle + 8):
            ctx.set(dut.master, pack(read, MASTER_BITS))
            ctx.set(dut.passes.valid, now in schedule)
            if now in schedule:
                ctx.set(dut.passes.payload, schedule[now])
            write = ctx.get(dut.write)
            assert write == (now in writes), now
            assert ctx.get(dut.clipped) == clipped_before, now
            flags = {name: ctx.get(getattr(dut, name)) for name in ("publish", "published", "epoch_done")}
            clipped_before = 0
            read = list(bench.memory[ctx.get(dut.read_address)])
            if write:
                payload, masters, clipped_before = writes.pop(now)
                chunk = ctx.get(dut.write_address)
                updated = unpack(ctx.get(dut.updated), LANES, MASTER_BITS)
                assert chunk == payload["chunk"]
                assert updated == masters
                assert flags == {
                    "publish": payload["batch_last"],
                    "published": payload["batch_last"] and chunk == 0,
                    "epoch_done": payload["epoch_last"] and payload["tail"],
                }
                bench.memory[chunk] = updated
            else:
                assert not any(flags.values())
            await ctx.tick()
        assert not writes

    run(dut, testbench)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("spare", [0, 3])
def test_lanes(seed: int, shift: int, spare: int) -> None:
    rng = Random(seed)
    saturated = [0, 0]
    for chunks, digits in ((1, 1), (1, 3), (2, 1), (CONFIG.max_chunks, rng.randint(1, 4))):
        bench = Lanes(rng, chunks, digits, shift)
        check_lanes(bench, 25, spare)
        saturated = [a + b for a, b in zip(saturated, bench.saturated, strict=True)]
    assert all(saturated), "both ends of the range were to be met"


def test_the_largest_terms_fit() -> None:
    """The sum of a row's terms never leaves the accumulator, whatever the coefficients."""
    ends = (-(1 << 31), (1 << 31) - 1)
    limit = 1 << (MASTER_BITS - 2)
    for base_digits in range(17):
        for draws in (0, 1) if base_digits < 16 else (0,):
            for total in ends:
                for difference in ends:
                    terms = row_terms(total, difference, base_digits, draws)
                    assert sum(max(abs(plus), abs(minus)) for plus, minus in terms) < limit
