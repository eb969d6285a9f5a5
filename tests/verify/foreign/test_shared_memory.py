"""Two cores behind verilog-axi's crossbar train at the same time with the bits of the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import JobResult
from bitlane_sim.cocotb.runner import BenchSimulator
from bitlane_verify.foreign.layout import BUILD, CORE_BYTES, CORES
from bitlane_verify.foreign.shared_memory import LEAST_BEATS, SharedRun, random_rounds, train_on_shared_memories

UNAVAILABLE = BenchSimulator().unavailable_reason()


@pytest.mark.slow
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
@pytest.mark.usefixtures("verilog_axi")
def test_both_cores_have_the_bits_of_the_reference(tmp_path: Path, seed: int) -> None:
    for each in range(seed, seed + 3):
        run = train_on_shared_memories(tmp_path, each, random_rounds(each))
        assert run.differences() == [], f"seed {each}"
        assert run.waiting > 500, "the cores met at the crossbar"
        assert run.receiving > 0, "both received data at once, from different memories"


def test_jobs_fit_and_keep_a_core_busy(seed: int) -> None:
    rounds = random_rounds(seed)
    device = EmulatorDevice(BUILD, CORE_BYTES)
    for planned in rounds:
        assert len(planned.jobs) == CORES
        for job in planned.jobs:
            result = Driver(device).run(job)  # DeviceError if the buffers do not fit
            assert result.counters.beats >= LEAST_BEATS
    assert [planned.lost is None for planned in rounds] == [True] * (len(rounds) - 1) + [False]


def test_a_wrong_bit_and_a_missing_error_are_found(seed: int) -> None:
    """Both cores get the results of the reference, but a bit of a loss, and no error of the core without memory."""
    rounds = random_rounds(seed, 2)
    reference = Driver(EmulatorDevice(BUILD))
    results: list[list[JobResult | str]] = [[reference.run(job) for job in planned.jobs] for planned in rounds]
    lost = rounds[1].lost
    assert lost is not None
    error = f"core {lost} ended with READ_DECODE"
    right = [results[0], [error if core == lost else result for core, result in enumerate(results[1])]]
    assert SharedRun(rounds, right, 0, 0).differences() == []
    (line,) = SharedRun(rounds, results, 0, 0).differences()
    assert line.startswith(f"round 1, core {lost}: READ_DECODE is missing")
    first = right[0][0]
    assert isinstance(first, JobResult)
    wrong = [[replace(first, loss=first.loss ^ 1), right[0][1]], right[1]]
    (line,) = SharedRun(rounds, wrong, 0, 0).differences()
    assert line.startswith("round 0, core 0: loss")
    ended = [[right[0][0], "cocotb ended with READ_SLAVE"], right[1]]
    assert SharedRun(rounds, ended, 0, 0).differences() == ["round 0, core 1: cocotb ended with READ_SLAVE"]
