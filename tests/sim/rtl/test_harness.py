"""The harness: each rule is checked, the memory has the set timing, and random choices repeat.

In the accelerator's place, mischief.v copies bursts of sixteen beats and breaks one rule on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.mischief import Mischief

from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.layout import PORT_WIDTHS
from bitlane_sim.rtl.disturbance import WRITE_ORDERS, Disturbance, WriteOrder
from bitlane_sim.rtl.harness import Harness, ProtocolError

BASE = 0x1000_0000
BEATS = 4096  # of memory; the first half is copied to the second
BURST = 16
CONTROL, STATUS, ENABLE, FROM, TO, BURSTS, MISCHIEF, CYCLES = 0x20, 0x24, 0x28, 0x40, 0x44, 0x48, 0x4C, 0x50
PATIENT = 20_000  # cycles: more than any run here takes


class Port(Harness):
    """The small master on a memory of BEATS beats, `beats` [BEATS, words of a beat], all words different."""

    def __init__(self, library: Path, width: int, timing: MemoryTiming, disturbance: Disturbance | None):
        words = np.arange(1, BEATS * width // 64 + 1, dtype=np.uint64) * np.uint64(0x0123_4567_89AB_CDEF)
        self.beat_bytes = width // 8
        self.beats = words.reshape(BEATS, -1)
        super().__init__(library, words, BASE, timing, disturbance)

    @property
    def target(self) -> int:
        return BASE + BEATS // 2 * self.beat_bytes


Make = Callable[..., Port]


@pytest.fixture(params=PORT_WIDTHS)
def make(mischief: Mischief, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Return make(disturbance, read_latency=, write_latency=), which opens a port; each test runs at every width."""
    library = mischief(request.param)
    made = []

    def make_one(disturbance: Disturbance | None = None, read_latency: int = 9, write_latency: int = 5) -> Port:
        made.append(Port(library, request.param, MemoryTiming(read_latency, write_latency), disturbance))
        return made[-1]

    yield make_one
    for harness in made:
        harness.close()


def copy(harness: Port, bursts: int = 4, mischief: int = 0, source: int = BASE, target: int | None = None) -> int:
    """Run the master to its end. Return the status."""
    for register, value in (
        (ENABLE, 1),
        (FROM, source),
        (TO, harness.target if target is None else target),
        (BURSTS, bursts),
        (MISCHIEF, mischief),
    ):
        harness.write(register, value)
    harness.write(CONTROL, 1)
    harness.run(PATIENT)
    status = harness.read(STATUS)
    harness.write(CONTROL, 4)
    return status


def source_equals_target(harness: Port, bursts: int) -> bool:
    source, target = harness.beats[: BEATS // 2], harness.beats[BEATS // 2 :]
    return bool(np.array_equal(source[: bursts * BURST], target[: bursts * BURST]))


# --- every rule, with the mischief that breaks it
SLOW = Disturbance(stall_ar=0.5, stall_aw=0.5, stall_w=0.5, stall_r=0.5, stall_b=0.5, stall_lite=0.5)
BROKEN = {
    "AR_DROPPED": (1, SLOW),
    "AR_UNSTABLE": (2, SLOW),
    "AR_BOUNDARY": (3, None),
    "AR_LENGTH": (4, None),
    "AR_SIZE": (5, None),
    "AR_BURST": (6, None),
    "AR_ALIGNMENT": (7, None),
    "AW_DROPPED": (11, SLOW),
    "AW_UNSTABLE": (12, SLOW),
    "AW_BOUNDARY": (13, None),
    "AW_LENGTH": (14, None),
    "AW_SIZE": (15, None),
    "AW_BURST": (16, None),
    "AW_ALIGNMENT": (17, None),
    "W_DROPPED": (21, SLOW),
    "W_UNSTABLE": (22, SLOW),
    "W_STROBE": (23, None),
    "W_ADDRESS": (26, None),
    "W_WAITS": (27, Disturbance(write_order="data first")),
    "LITE_R_DROPPED": (31, Disturbance(stall_lite=0.9)),
    "LITE_R_UNSTABLE": (32, Disturbance(stall_lite=0.9)),
    "LITE_B_DROPPED": (33, Disturbance(stall_lite=0.9)),
    "LITE_TIMEOUT": (34, None),
    "LITE_B_EARLY": (35, Disturbance(stall_lite=0.9)),
    "LITE_R_EARLY": (36, None),
    "LITE_B_RESPONSE": (37, None),
    "IRQ_EARLY": (41, None),
    "READ_AFTER_WRITE": (43, None),
    "ASSERTION": (44, None),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_rule_fires(make: Make, rule: str, seed: int) -> None:
    mischief, disturbance = BROKEN[rule]
    harness = make(disturbance and Disturbance(**{**vars(disturbance), "seed": seed}))
    with pytest.raises(ProtocolError, match=rf"^{rule} in cycle \d+: ") as caught:
        for _ in range(8):  # stalls are random; eight runs meet the one that the mischief needs
            copy(harness, 16, mischief)
    assert caught.value.rule == rule


@pytest.mark.parametrize("number", [24, 25], ids=["early", "missing"])
def test_last_beat_is_marked(make: Make, number: int) -> None:
    with pytest.raises(ProtocolError, match=r"^W_LAST in cycle"):
        copy(make(), mischief=number)


def test_valid_in_reset_is_an_error(make: Make) -> None:
    harness = make()
    harness.write(MISCHIEF, 42)
    with pytest.raises(ProtocolError, match=r"^RESET_VALID in cycle"):
        harness.reset()


def test_first_broken_rule_stays_until_reset(make: Make) -> None:
    harness = make()
    with pytest.raises(ProtocolError, match="AR_SIZE") as first:
        copy(harness, mischief=5)
    for call in (lambda: harness.read(STATUS), lambda: harness.run(10), lambda: harness.write(CONTROL, 1)):
        cycles = harness.counters.cycles
        with pytest.raises(ProtocolError) as again:
            call()
        assert str(again.value) == str(first.value)
        assert harness.counters.cycles == cycles
    harness.reset()
    assert copy(harness) == 2
    assert source_equals_target(harness, 4)


# --- the memory
@pytest.mark.parametrize("read_latency", [1, 2, 60])
@pytest.mark.parametrize("write_latency", [1, 2, 20])
def test_latencies_are_exact(make: Make, read_latency: int, write_latency: int) -> None:
    """A burst: AR is accepted in the first cycle, the last R beat follows latency + 15 later; then AW, 16 W and B."""
    harness = make(None, read_latency, write_latency)
    bursts = 5
    assert copy(harness, bursts) == 2
    read = 1 + (read_latency - 1) + BURST
    write = BURST + write_latency
    assert harness.read(CYCLES) == bursts * (read + write)
    assert source_equals_target(harness, bursts)


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.1])
def test_read_rate_is_exact(make: Make, rate: float) -> None:
    """The beats of a burst are 1 / rate cycles apart; a burst starts with a full bucket."""
    harness = make(Disturbance(read_rate=rate), 20, 5)
    assert copy(harness, 1) == 2
    assert harness.read(CYCLES) == pytest.approx(1 + 19 + 15 / rate + 1 + BURST + 5, abs=1)


def test_counters(make: Make) -> None:
    harness = make()
    copy(harness, 7)
    counters = harness.counters
    assert (counters.read_bursts, counters.read_beats) == (7, 7 * BURST)
    assert (counters.write_bursts, counters.write_beats) == (7, 7 * BURST)
    assert counters.error_responses == 0
    assert counters.read_slots == counters.cycles


@pytest.mark.parametrize("slow", [{"stall_r": 0.25}, {"read_rate": 0.3}, {"stall_r": 0.6, "read_rate": 0.5}], ids=str)
def test_slots_are_all_cycles_without_a_delayed_beat(make: Make, slow: dict[str, float], seed: int) -> None:
    """The master accepts each beat at once: the cycles that the memory adds are the cycles without a slot."""
    free, slowed = make(), make(Disturbance(seed, **slow))  # type: ignore[arg-type]
    for harness in (free, slowed):
        copy(harness, 100)
    counters = slowed.counters
    held = counters.cycles - counters.read_slots
    assert held == slowed.read(CYCLES) - free.read(CYCLES) > 0


@pytest.mark.parametrize("error", ["slave", "decode"])
@pytest.mark.parametrize(
    ("where", "number", "code"),
    [("read_error_burst", 3, 2), ("read_error_beat", 3 * BURST + 15, 2), ("write_error_burst", 3, 4)],
)
def test_injected_error(make: Make, where: str, number: int, code: int, error: str) -> None:
    harness = make(Disturbance(**{where: number}, error=error))  # type: ignore[arg-type]
    assert copy(harness, 8) == (code + (error == "decode")) << 8 | 2
    assert harness.read(BURSTS) == (5 if where == "read_error_burst" or "beat" in where else 4)
    assert not source_equals_target(harness, 4)
    assert source_equals_target(harness, 3)
    harness.disturb(Disturbance())
    assert copy(harness, 8) == 2
    assert source_equals_target(harness, 8)


def test_failed_read_is_poison(make: Make) -> None:
    """All words of the failed beat, if the master continues with them."""
    harness = make(Disturbance(read_error_beat=BURST - 1))
    assert copy(harness, 1, mischief=46) == 2
    copied = harness.beats[BEATS // 2 :][:BURST]
    assert np.array_equal(copied[:-1], harness.beats[: BURST - 1])
    assert (copied[-1] == 0xBAD0_BAD0_BAD0_BAD0).all()


@pytest.mark.parametrize("where", ["nowhere", "below", "above", "end of addresses"])
def test_outside_the_memory_is_a_decode_error(make: Make, where: str) -> None:
    harness = make()
    burst = BURST * harness.beat_bytes
    places = {
        "nowhere": 0,
        "below": BASE - burst,
        "above": BASE + harness.beats.nbytes,
        "end of addresses": 2**32 - 4096,
    }
    address = places[where]
    before = harness.beats.copy()
    assert copy(harness, 1, source=address) == 3 << 8 | 2
    assert copy(harness, 1, target=address) == 5 << 8 | 2
    assert np.array_equal(harness.beats, before)


def test_memory_that_ends_inside_a_beat(mischief: Mischief) -> None:
    """A beat that the memory holds in part only is outside."""
    words = np.zeros(8 * BURST - 1, np.uint64)
    harness = Harness(mischief(512), words, BASE, MemoryTiming(9, 5))
    harness.write(FROM, BASE)
    harness.write(BURSTS, 1)
    harness.write(CONTROL, 1)
    harness.idle(100)
    assert harness.read(STATUS) == 3 << 8 | 2
    assert harness.counters.error_responses == 1
    harness.close()


@pytest.mark.parametrize("order", WRITE_ORDERS)
def test_disturbed_runs_have_the_same_result_and_repeat(make: Make, order: WriteOrder, seed: int) -> None:
    disturbance = replace(Disturbance.arbitrary(seed), write_order=order)
    cycles = []
    for _ in range(2):
        harness = make(disturbance)
        assert copy(harness, 12) == 2
        assert source_equals_target(harness, 12)
        cycles.append((harness.read(CYCLES), harness.counters))
    assert cycles[0] == cycles[1]


def test_another_seed_gives_another_run(make: Make, seed: int) -> None:
    runs = []
    for offset in range(4):
        harness = make(Disturbance(seed=seed + offset, stall_r=0.5, stall_w=0.5))
        copy(harness, 12)
        runs.append(harness.read(CYCLES))
    assert len(set(runs)) > 1


@pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
def test_stalls_take_the_expected_cycles(make: Make, channel: str, seed: int) -> None:
    """A transfer that waits with probability p a cycle waits p / (1 - p) cycles on average.

    Data wait for their address here; otherwise they would hide its stalls.
    """
    bursts, probability = 200, 0.5
    free = make(Disturbance(write_order="address first"))
    stalled = make(Disturbance(seed, write_order="address first", **{f"stall_{channel}": probability}))  # type: ignore[arg-type]
    for harness in (free, stalled):
        copy(harness, bursts, source=BASE, target=BASE)
    transfers = bursts * (BURST if channel in "rw" else 1)
    expected = transfers * probability / (1 - probability)
    spread = 6 * (transfers * probability) ** 0.5 / (1 - probability)
    assert stalled.read(CYCLES) - free.read(CYCLES) == pytest.approx(expected, abs=spread)


def test_stalls_of_many_cycles_leave_most_bursts_alone(make: Make, seed: int) -> None:
    """Stalls in a fifth of the cycles miss 3 % of the bursts when each cycle is drawn, and three quarters of them here.

    A stall that a burst meets lasts 60 cycles on average, since its length does not depend on how long it lasted.
    """
    free = make()
    copy(free, 1)
    delays = {}
    for length in (None, 60):
        harness, cycles = make(Disturbance(seed, stall_r=0.2, stall_r_cycles=length)), []
        for _ in range(400):
            copy(harness, 1)
            cycles.append(harness.read(CYCLES) - free.read(CYCLES))
        delays[length] = np.array(cycles)
    assert (delays[None] == 0).mean() < 0.15
    assert 0.5 < (delays[60] == 0).mean() < 0.95
    assert 35 < delays[60][delays[60] > 0].mean() < 110


def test_run_stops_at_irq(make: Make) -> None:
    harness = make()
    harness.write(ENABLE, 1)
    harness.write(FROM, BASE)
    harness.write(TO, harness.target)
    harness.write(BURSTS, 1)
    assert harness.run(50) == 50
    harness.write(CONTROL, 1)
    assert 0 < harness.run(PATIENT) < 100
    assert harness.irq
    assert harness.run(PATIENT) == 0
    before = harness.counters.cycles
    harness.idle(7)
    assert harness.counters.cycles == before + 7
    harness.write(CONTROL, 4)
    assert not harness.irq


def test_reset_in_the_middle_of_a_run(make: Make, seed: int) -> None:
    harness = make(Disturbance(seed=seed, stall_r=0.3, stall_w=0.3))
    for cycles in range(1, 60, 3):
        harness.write(FROM, BASE)
        harness.write(TO, harness.target)
        harness.write(BURSTS, 4)
        harness.write(CONTROL, 1)
        harness.run(cycles)
        harness.reset()
        assert harness.read(STATUS) == 0
    assert copy(harness) == 2
    assert source_equals_target(harness, 4)


# --- the Python side
@pytest.mark.parametrize(
    "wrong",
    [
        {"stall_r": 1.0},
        {"stall_r_cycles": 0.5},
        {"stall_lite": -0.1},
        {"read_rate": 0.0},
        {"outstanding": 0},
        {"error": "both"},
    ],
)
def test_disturbance_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Disturbance(**wrong)  # type: ignore[arg-type]


def test_latencies_are_checked(mischief: Mischief) -> None:
    with pytest.raises(ValueError, match="latencies must be at least 1 cycle"):
        Harness(mischief(64), np.zeros(8, np.uint64), BASE, MemoryTiming(0, 1))


def test_register_value_is_checked(make: Make) -> None:
    with pytest.raises(ValueError, match=r"register 0x040 has 32 bits; got value=0x100000000"):
        make().write(FROM, 1 << 32)
