"""The accelerator behind the ports of a chip: bits of the reference, cycles, errors, and the rules of AXI3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import HELPERS

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.modes import ErrorCode
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane_sim.rtl.build import build_verilog
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.harness import Harness, ProtocolError
from bitlane_sim.rtl.zynq_device import build_fabric, build_two_ports
from bitlane_verify.equivalence.random_jobs import random_job
from bitlane_verify.equivalence.rig import cycle_difference
from bitlane_verify.equivalence.zynq_soak import READ_DELAY, ZynqRig, timed_job

RUNS = 80  # of each width
TIMING = MemoryTiming(read_latency=40, write_latency=20)


@pytest.fixture(scope="module", params=[64, *(pytest.param(width, marks=pytest.mark.slow) for width in (128, 256))])
def pair(request: pytest.FixtureRequest) -> Iterator[ZynqRig]:
    config = AcceleratorConfig(width=request.param, max_features=128, row_buffer_beats=256, address_bits=32)
    pair = ZynqRig(config, TIMING)
    yield pair
    pair.close()


def test_random_runs(pair: ZynqRig, seed: int) -> None:
    """All modes and sizes, partial batches; half of the runs have stalls and skewed ports."""
    for number in range(seed, seed + RUNS):
        rng = np.random.default_rng(number)
        disturbance = Disturbance.arbitrary(number) if rng.integers(2) else Disturbance()
        assert pair.run(random_job(rng, pair.config), disturbance)[1] == [], f"seed {number}"


def test_cycles_on_one_port(pair: ZynqRig, seed: int) -> None:
    """One port adds two cycles to reads and writes: cycles match the prediction."""
    if pair.config.width != 64:
        pytest.skip("of one port")
    slower = MemoryTiming(TIMING.read_latency + READ_DELAY[64], TIMING.write_latency + 2)
    for number in range(seed, seed + 20):
        job = random_job(np.random.default_rng(number), pair.config)
        got, wrong = pair.run(job)
        assert wrong + cycle_difference(got, job, slower) == [], f"seed {number}"


@pytest.mark.parametrize("bits", [4, 16])
def test_cycles_of_a_long_run(pair: ZynqRig, bits: int) -> None:
    """With one or two ports and full bursts: at most 50 cycles more than one port without adapters, for any length."""
    more = []
    for rows in (256, 1024):
        job = timed_job(128, bits, pair.config, rows=rows)
        got, wrong = pair.run(job)
        assert wrong == []
        expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, TIMING).cycles
        more.append(got.counters.cycles - expected)
    assert more[0] == more[1] <= 50


def test_irq_is_high_from_the_end_of_a_run_until_it_is_acknowledged(pair: ZynqRig) -> None:
    levels = []

    def wait_for_irq() -> None:
        levels.append(pair.rtl.irq)
        pair.rtl.run(1_000_000)
        levels.append(pair.rtl.irq)

    Driver(pair.rtl).run(timed_job(100, 4, pair.config, rows=64), while_running=wait_for_irq)
    assert [*levels, pair.rtl.irq] == [False, True, False]


@pytest.mark.parametrize(("error", "code"), [("slave", ErrorCode.READ_SLAVE), ("decode", ErrorCode.READ_DECODE)])
def test_a_failed_word_ends_the_run(pair: ZynqRig, seed: int, error: str, code: ErrorCode) -> None:
    """A read error at any beat of any port ends the run, and the next run is correct."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        job = timed_job(100, 4, pair.config)
        beat = int(rng.integers(2000))
        pair.rtl.disturb(Disturbance(seed=seed, stall_r=0.2, read_error_beat=beat, error=error))  # type: ignore[arg-type]
        with pytest.raises(DeviceError) as raised:
            Driver(pair.rtl).run(job)
        assert raised.value.code == code
        assert pair.run(random_job(rng, pair.config))[1] == []


def test_a_failed_write_ends_the_run(pair: ZynqRig) -> None:
    pair.rtl.disturb(Disturbance(write_error_burst=1))
    with pytest.raises(DeviceError) as raised:
        Driver(pair.rtl).run(timed_job(100, 4, pair.config))
    assert raised.value.code == ErrorCode.WRITE_SLAVE


def test_an_unsupported_width_is_an_error() -> None:
    with pytest.raises(ValueError, match="width=256"):
        build_fabric(AcceleratorConfig(width=256, address_bits=32))
    with pytest.raises(ValueError, match="width=128 must be 256"):
        build_two_ports(AcceleratorConfig(width=128))


# --- the harness's rules of AXI3
BASE = 0x1000_0000
ENABLE, FROM, TO, BURSTS, CONTROL, FAULT = 0x28, 0x40, 0x44, 0x48, 0x20, 0xFF0
BROKEN = [("GP_ID", 1), ("GP_ID", 2), ("GP_LAST", 3), ("W_ID", 4), ("AR_ATTRIBUTES", 5), ("AW_ATTRIBUTES", 6)]


@pytest.fixture(scope="module")
def mischief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the simulator of the small master behind AXI3 ports, which breaks their rules on request."""
    source = tmp_path_factory.mktemp("mischief") / "mischief_zynq.v"
    names = ("mischief.v", "mischief_zynq.v")
    source.write_text("".join((HELPERS / name).read_text() for name in names))
    return build_verilog(source, hp_ports=1)


def copy(library: Path, fault: int) -> tuple[int, np.ndarray]:
    """Run the small master once. Return its status, and the memory afterwards."""
    words = np.arange(256, dtype=np.uint64)
    harness = Harness(library, words, BASE, MemoryTiming())
    try:
        for register, value in (
            (FAULT, fault),
            (ENABLE, 1),
            (FROM, BASE),
            (TO, BASE + 1024),
            (BURSTS, 2),
            (CONTROL, 1),
        ):
            harness.write(register, value)
        harness.run(20_000)
        return harness.read(0x24), words
    finally:
        harness.close()


def test_a_correct_master_breaks_no_rule(mischief: Path) -> None:
    status, words = copy(mischief, 0)
    assert status == 2
    assert np.array_equal(words[128 : 128 + 32], np.arange(32))


@pytest.mark.parametrize(("rule", "fault"), [*BROKEN, ("AR_ATTRIBUTES", 7)])
def test_every_rule_of_axi3_is_checked(mischief: Path, rule: str, fault: int) -> None:
    with pytest.raises(ProtocolError) as raised:
        copy(mischief, fault)
    assert raised.value.rule == rule
