"""Updates of the master weights against exact integers, cycle by cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import (
    BOX,
    L1,
    L2,
    LIMITS,
    NONE,
    Proximal,
    pack,
    random_int,
    row_terms,
    unpack,
    weight_change,
)
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import BlockSimulator

from bitlane.contract.latencies import BATCH_PAUSE
from bitlane_hw.datapath.update import THRESHOLD_BITS, UpdateLanes

LANES = 32
ENDS = -(1 << 31), (1 << 31) - 1  # range of a scaled gradient
LOWEST_BOUND, HIGHEST_BOUND = -(1 << 15), (1 << 15) - 1
NOTHING = Proximal()


@pytest.fixture(
    scope="module",
    params=[(1, False), (2, False), (8, False), (1, True), (8, True)],
    ids=lambda param: f"{param[0]} rows" + param[1] * ", table lanes",
)
def lanes(request: pytest.FixtureRequest) -> BlockSimulator:
    rows_per_beat, table = request.param
    return BlockSimulator(UpdateLanes(small_config(rows_per_beat, table_lanes=table)))


@dataclass(frozen=True)
class UpdateSetup:
    """The constants of a run."""

    rows_per_beat: int
    chunks: int = 1
    base_digits: int = 1
    draws: int = 0
    last_lane: int = 31
    staleness: int = 0
    unpenalized_intercept: int = 0
    proximal: Proximal = NOTHING
    table: bool = False  # the passes carry two terms in each chunk instead of digits

    @property
    def digits(self) -> int:
        return 2 if self.table else self.base_digits + self.draws

    def group_cycles(self, batch_last: bool) -> int:
        """Least distance of the first beats of a group and of the next one, which begins a batch after `batch_last`."""
        return self.chunks * self.digits + BATCH_PAUSE * (self.chunks == 1 and batch_last)


@dataclass(frozen=True)
class Write:
    """The new weights of a chunk, and the flags with them."""

    chunk: int
    masters: list[int]
    publish: bool
    bank: int
    published: bool = False
    epoch_done: bool = False
    load_done: bool = False
    clipped: int = 0


def random_setup(rng: Random, lanes: BlockSimulator, **given: Any) -> UpdateSetup:
    rows_per_beat = len(lanes.dut.passes.payload.rows)
    draws = rng.randrange(2)
    staleness = rng.randrange(2)
    low, high = sorted(random_int(rng, 16) for _ in range(2))
    setup = UpdateSetup(
        rows_per_beat,
        chunks=rng.randint(1, 4 // (1 + staleness)),
        base_digits=rng.randint(1 - draws, 4),
        draws=draws,
        last_lane=rng.randrange(LANES),
        staleness=staleness,
        unpenalized_intercept=rng.randrange(2),
        proximal=Proximal(NONE, rng.getrandbits(rng.randint(0, THRESHOLD_BITS)), low, high),
        table="word" not in dict(lanes.dut.passes.payload.rows.shape().elem_shape),
    )
    return replace(setup, **given)


class UpdatePlan:
    """Loads and groups with their cycles, and the writes that must follow."""

    def __init__(self, rng: Random, lanes: BlockSimulator, setup: UpdateSetup):
        self.rng = rng
        self.lanes = lanes
        self.setup = setup
        self.loads: dict[int, tuple[int, list[int]]] = {}
        self.passes: dict[int, dict[str, Any]] = {}
        self.writes: dict[int, Write] = {}
        self.masters: dict[int, list[int]] = {}
        self.batches = 0
        self.continues = False  # the lanes hold the sum of the only chunk
        self.clips: Counter[bool] = Counter()

    def load(self, cycle: int, chunk: int, masters: list[int]) -> None:
        self.masters[chunk] = masters
        self.loads[cycle] = chunk, masters
        self.continues = False
        done = chunk == self.setup.chunks - 1
        self.writes[cycle + self.lanes.dut.latency] = Write(chunk, masters, publish=True, bank=0, load_done=done)

    def load_all(self, cycle: int) -> int:
        """Load random weights; return the first cycle in which a group may start."""
        for chunk in range(self.setup.chunks):
            self.load(cycle, chunk, [self.rng.choice((random_int(self.rng, 32), *LIMITS)) for _ in range(LANES)])
            cycle += self.rng.randint(1, 4)
        return cycle - 1 + 3

    def group(self, cycle: int, prox: int, corners: list[int] | None = None, batch_last: bool | None = None) -> int:
        """Add a group that starts in this cycle; return the first cycle of the next one.

        With `corners` its weights are loaded first, so that most of them reach one of these values of A'. An operator
        other than NONE is for the last group of a batch.
        """
        rng, setup = self.rng, self.setup
        if batch_last is None:
            batch_last = prox != NONE or rng.random() < 0.5
        end = {"batch_last": int(batch_last), "epoch_last": rng.randrange(2)}
        rows, changes = self._terms() if setup.table else self._digits()
        if corners is not None:
            for chunk, change in enumerate(changes):
                self.load(cycle, chunk, [self._before(t, corners) for t in change])
                cycle += 1
            cycle += 2
        for chunk in range(setup.chunks):
            is_last_chunk = chunk == setup.chunks - 1
            for k in range(setup.digits):
                self.passes[cycle + chunk * setup.digits + k] = {
                    "rows": rows[chunk][k],
                    "chunk": chunk,
                    "first": k == 0,
                    "continues": self.continues,
                    "last": k == setup.digits - 1,
                    "last_chunk": is_last_chunk,
                    "prox": prox,
                    "end": end,
                }
            written = cycle + (chunk + 1) * setup.digits - 1 + self.lanes.dut.latency
            self.writes[written] = self._update(chunk, changes[chunk], prox, **end)
        self.batches += batch_last
        self.continues = setup.chunks == 1 and not batch_last
        return cycle + setup.group_cycles(batch_last)

    def _digits(self) -> tuple[list[list[list[Any]]], list[list[int]]]:
        """Return the payload of the passes, [chunk][digit][row], and the change t of each weight, [chunk][lane]."""
        rng, setup = self.rng, self.setup
        alike = rng.random() < 0.3  # all rows alike, for the largest sums
        scale = rng.choice((8, 20, 32, 32))
        rows = [[rng.choice((random_int(rng, scale), *ENDS)) for _ in range(2)] for _ in range(setup.rows_per_beat)]
        terms = [row_terms(*(rows[0] if alike else row), setup.base_digits, setup.draws) for row in rows]
        digits = [
            [[[rng.randrange(4) for _ in range(LANES)] for _ in range(setup.digits)] for _ in rows]
            for _ in range(setup.chunks)
        ]
        if alike:
            digits = [[chunk[0]] * setup.rows_per_beat for chunk in digits]
        passes = [
            [
                [
                    {"word": pack(row[k], 2), "plus": t[k][0], "minus": t[k][1]}
                    for row, t in zip(chunk, terms, strict=True)
                ]
                for k in range(setup.digits)
            ]
            for chunk in digits
        ]
        return passes, [self._changes(chunk, terms) for chunk in digits]

    def _terms(self) -> tuple[list[list[list[Any]]], list[list[int]]]:
        """Return the same for table lanes: two terms in each chunk, sometimes all as large as possible."""
        rng, setup = self.rng, self.setup
        extreme = rng.choice((None, None, -(1 << 28), (1 << 28) - 1))
        passes = [
            [
                [
                    [random_int(rng, 29) if extreme is None else extreme for _ in range(LANES)]
                    for _ in range(setup.rows_per_beat)
                ]
                for _ in range(2)
            ]
            for _ in range(setup.chunks)
        ]
        return passes, [[sum(row[j] for k in chunk for row in k) for j in range(LANES)] for chunk in passes]

    def _changes(self, digits: list[list[list[int]]], terms: list[list[tuple[int, int]]]) -> list[int]:
        """Return t of each lane, summed over the rows of digits [row][digit][lane]."""
        lanes = [list(zip(*row, strict=True)) for row in digits]
        return [sum(weight_change(row[j], t) for row, t in zip(lanes, terms, strict=True)) for j in range(LANES)]

    def _before(self, t: int, corners: list[int]) -> int:
        """Return a weight that t changes to one of the corners, or a weight at the end of the range."""
        exact = self.rng.choice(corners)
        return exact + t if LIMITS[0] <= exact + t <= LIMITS[1] else self.rng.choice(LIMITS)

    def _update(self, chunk: int, changes: list[int], prox: int, batch_last: int, epoch_last: int) -> Write:
        setup = self.setup
        is_last_chunk = chunk == setup.chunks - 1
        proximal = replace(setup.proximal, prox=prox)
        masters, clipped = list(self.masters[chunk]), 0
        for j in range(setup.last_lane + 1 if is_last_chunk else LANES):
            exact = masters[j] - changes[j]
            masters[j], clips = proximal.updated(
                exact, unpenalized=bool(is_last_chunk and setup.unpenalized_intercept and j == setup.last_lane)
            )
            clipped += clips
            self.clips[exact > 0] += clips
        self.masters[chunk] = masters
        return Write(
            chunk,
            masters,
            publish=bool(batch_last),
            bank=(1 - self.batches % 2) * setup.staleness,
            published=bool(batch_last and chunk == 0),
            epoch_done=bool(epoch_last and is_last_chunk),
            clipped=clipped,
        )

    def check(self) -> None:
        """Simulate; check every output in its cycle, with random inputs wherever they must not matter."""
        dut, rng, setup = self.lanes.dut, self.rng, self.setup
        memory = [rng.getrandbits(32 * LANES) for _ in range(4)]
        idle_bits = len(dut.passes.payload.as_value())

        async def testbench(ctx: Any) -> None:
            for name in ("chunks", "last_lane", "base_digits", "draws", "staleness"):
                ctx.set(dut.settings[name], getattr(setup, name))
            for name in ("threshold", "low", "high"):
                ctx.set(getattr(dut, name), getattr(setup.proximal, name))
            ctx.set(dut.unpenalized_intercept, setup.unpenalized_intercept)
            read = rng.getrandbits(32 * LANES)
            clipped, clipped_before = 0, 0
            for cycle in range(max(self.writes) + 4):
                ctx.set(dut.master, read)
                chunk, loaded = self.loads.get(cycle, (rng.randrange(4), []))
                ctx.set(dut.load, bool(loaded))
                ctx.set(dut.load_chunk, chunk)
                idle = 0 if cycle >= min(self.passes) else rng.getrandbits(32 * LANES)
                ctx.set(dut.loaded, pack(loaded, 32) if loaded else idle)
                ctx.set(dut.passes.valid, cycle in self.passes)
                if cycle in self.passes:
                    ctx.set(dut.passes.payload, self.passes[cycle])
                else:
                    ctx.set(dut.passes.payload.as_value(), rng.getrandbits(idle_bits))
                assert ctx.get(dut.clipped) == clipped_before, cycle
                read = memory[ctx.get(dut.read_address)]
                expected = self.writes.get(cycle)
                assert ctx.get(dut.write) == (expected is not None), cycle
                for flag in ("publish", "published", "epoch_done", "load_done"):
                    assert ctx.get(getattr(dut, flag)) == getattr(expected, flag, 0), (flag, cycle)
                clipped, clipped_before = 0, clipped
                if expected is not None:
                    updated = ctx.get(dut.updated)
                    assert unpack(updated, LANES, 32) == expected.masters, cycle
                    assert ctx.get(dut.write_address) == expected.chunk
                    assert not expected.publish or ctx.get(dut.bank) == expected.bank
                    memory[expected.chunk] = updated
                    clipped = expected.clipped
                await ctx.tick()

        self.lanes.run(testbench)


def test_latency(lanes: BlockSimulator) -> None:
    rows_per_beat = len(lanes.dut.passes.payload.rows)
    assert lanes.dut.latency == 3 + {1: 0, 2: 1, 8: 3}[rows_per_beat]


def test_groups(seed: int, lanes: BlockSimulator) -> None:
    """Random groups, as close as allowed or up to `spare` cycles further apart."""
    rng = Random(seed)
    clips: Counter[bool] = Counter()
    shapes = ({"chunks": 1, "base_digits": 1, "draws": 0}, {"chunks": 2, "base_digits": 0, "draws": 1}, {}, {})
    for shape, spare in zip(shapes, (0, 1, 0, 4), strict=True):
        plan = UpdatePlan(rng, lanes, random_setup(rng, lanes, **shape))
        cycle = plan.load_all(0)
        for _ in range(10):
            cycle = plan.group(cycle, rng.choice((NONE, NONE, L2, L1, BOX))) + rng.randint(0, spare)
        plan.check()
        clips += plan.clips
    assert clips[True] and clips[False], "the test must clip at both ends of the range"


def test_a_chunk_returns_as_early_as_allowed(seed: int, lanes: BlockSimulator) -> None:
    """Held by the lanes, forwarded in the cycle of the write or one later, or read from memory."""
    rng = Random(seed)
    for chunks, base_digits in ((1, 1), (1, rng.randint(2, 5)), (2, 1), (3, 1)):
        shape = {"chunks": chunks, "base_digits": base_digits, "draws": 0, "staleness": 0}
        plan = UpdatePlan(rng, lanes, random_setup(rng, lanes, **shape))
        cycle = plan.load_all(0)
        for prox, batch_last, distance in (
            (NONE, False, 0),
            (NONE, False, 0),
            (NONE, False, 2),
            (L2, True, 0),
            (NONE, False, 1),
            (L1, True, 1),
            (BOX, True, 2),
            (NONE, False, 0),
            (L1, True, 3),
            (L2, True, 0),
            (L2, True, 0),
        ):
            cycle = plan.group(cycle, prox, batch_last=batch_last) + distance
        plan.check()


def test_loads(seed: int, lanes: BlockSimulator) -> None:
    """A chunk can be loaded in any cycle without a group, also directly after a group that updates it."""
    rng = Random(seed)
    for _ in range(2):
        plan = UpdatePlan(rng, lanes, random_setup(rng, lanes))
        cycle = plan.load_all(rng.randrange(3))
        for _ in range(10):
            plan.group(cycle, L2)
            cycle = max(plan.passes) + 1
            for _ in range(rng.randrange(4)):
                cycle += rng.randrange(4)
                plan.load(cycle, rng.randrange(plan.setup.chunks), [random_int(rng, 32) for _ in range(LANES)])
                cycle += 1
            cycle += 2
        plan.check()


def proximals(rng: Random) -> Iterator[tuple[Proximal, list[int]]]:
    """Yield proximal operators, and values of A' on both sides of each of their corners."""
    yield Proximal(NONE), [0, -1]
    yield Proximal(L2), [*range(-2, 3), *range(62, 67), *range(-66, -61)]
    for threshold in (0, 1, (1 << THRESHOLD_BITS) - 1, rng.getrandbits(THRESHOLD_BITS)):
        yield (
            Proximal(L1, threshold),
            [*range(-2, 3), *range(threshold - 2, threshold + 3)] + [-threshold + near for near in range(-2, 3)],
        )
    some = rng.randrange(-100, 100)
    boxes = [(some, some), (0, 0), (LOWEST_BOUND, HIGHEST_BOUND), (LOWEST_BOUND, LOWEST_BOUND)]
    for low, high in (*boxes, tuple(sorted(random_int(rng, 16) for _ in range(2)))):
        ends = [end << 16 for end in (low, low + 1, high, high + 1)]
        yield Proximal(BOX, 0, low, high), [end + near for end in ends for near in (-1, 0, 1)]


def test_prox(seed: int, lanes: BlockSimulator) -> None:
    """At the end of a batch, for weights around each corner and around the limits of their format."""
    rng = Random(seed)
    limits = [limit + near for limit in LIMITS for near in (-1, 0, 1)]
    clips: Counter[bool] = Counter()
    for proximal, corners in proximals(rng):
        plan = UpdatePlan(
            rng, lanes, random_setup(rng, lanes, chunks=rng.randint(1, 2), base_digits=1, proximal=proximal)
        )
        cycle = 0
        for _ in range(3):
            cycle = plan.group(cycle, proximal.prox, corners + limits) + rng.randint(1, 3)
        plan.check()
        clips += plan.clips
    assert clips[True] and clips[False], "the test must clip at both ends of the range"


def test_prox_applies_at_the_end_of_a_batch_only(seed: int, lanes: BlockSimulator) -> None:
    """Within a batch the operator does nothing; it skips the intercept and the lanes after the last feature."""
    rng = Random(seed)
    last_lanes = rng.sample((0, 30, 31), 3)
    for prox, last_lane in zip((L2, L1, BOX), last_lanes, strict=True):
        proximal = Proximal(NONE, 1 << 27, -1, 1)
        plan = UpdatePlan(
            rng,
            lanes,
            random_setup(rng, lanes, chunks=2, last_lane=last_lane, unpenalized_intercept=1, proximal=proximal),
        )
        cycle = plan.load_all(0)
        for group in range(4):
            cycle = plan.group(cycle, prox if group % 2 else NONE)
        plan.check()
