"""Epochs with a DRAM behind each port: the same model, more cycles, and no more bytes than its bus carries."""

from __future__ import annotations

import dataclasses

import pytest

from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.dram import DDR3_PYNQ, HBM2
from bitlane_verify.benchmarks import dram
from bitlane_verify.benchmarks.dram import DramBuild, DramEpochs, main, measure, memories, row
from bitlane_verify.equivalence.random_jobs import SMALL


def test_a_bus_as_slow_as_the_port_limits_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dram, "FEATURES", 200)
    slow = dataclasses.replace(DDR3_PYNQ, bytes_per_second=0.4e9)
    with RtlDevice(SMALL) as device:
        fast, fast_stalls, long_stalls, again, *_ = measure(DramBuild(SMALL, 100e6, DDR3_PYNQ), device, (4, 4), 3000)
        slowed, *_ = measure(DramBuild(SMALL, 100e6, slow), device, (4,), 3000)
    assert fast.free == slowed.free == again.free
    assert 0.8 < fast.share < 1
    assert 0.7 < fast_stalls.share < 0.9 * fast.share + 0.05
    assert 0.6 < long_stalls.share < 0.95
    assert 0.3 < slowed.share < 0.5
    assert slowed.rate <= 0.4e9


def test_every_memory_but_the_last_is_the_dram() -> None:
    build = DramBuild(SMALL, 100e6, HBM2)
    ticks = HBM2.ticks(100e6, 8)
    assert [(each.dram, each.stall_r) for each in memories(build).values()] == [(ticks, 0), (ticks, 0.1), (None, 0.2)]


def test_a_share_of_one_port() -> None:
    two = dataclasses.replace(SMALL, width=128, ports=2)
    cells = row(DramEpochs(DramBuild(two, 100e6, HBM2), "some", 4, 1000, 1250, 2e9), 0.9)
    assert cells[0] == "2 x 64 bits"
    assert cells[-4:] == ("0.8000", "0.8889", "1.00", "7%")
    assert row(DramEpochs(DramBuild(SMALL, 100e6, HBM2), "some", 4, 1000, 1250, 2e9), None)[-3] == ""


@pytest.mark.slow
def test_each_build_is_compared_with_that_of_one_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = dataclasses.replace(SMALL, width=128, shards=2, ports=2)
    monkeypatch.setattr(dram, "BUILDS", tuple(DramBuild(config, 100e6, HBM2) for config in (SMALL, two)))
    monkeypatch.setattr(dram, "BEATS", 1000)
    monkeypatch.setattr(dram, "FEATURES", 200)
    main(["--most-ports", "2", "--bits", "4"])
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1"] * 3 + ["2"] * 3
    for alone, both in zip(lines[:3], lines[3:], strict=True):
        ratio = float(both.split()[-3])
        assert ratio == pytest.approx(float(both.split()[-4]) / float(alone.split()[-3]), abs=2e-4)
        assert 0.5 < ratio < 1.2
    main(["--fifo", "999"])
    assert len(capsys.readouterr().out.splitlines()) == 2
