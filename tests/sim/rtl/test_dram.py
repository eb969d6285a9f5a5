"""The DRAM behind a port of a simulated accelerator: rules that no schedule may break, and the rate of a stream."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bitlane_sim.rtl import dram
from bitlane_sim.rtl.dram import DDR3_PYNQ, HBM2, TICKS, DramTicks

CPP = Path(dram.__file__).parent / "cpp"
PROGRAM = """
#include "axi.h"
#include "dram.h"
extern "C" void schedule(const DramSettings* settings, unsigned number, unsigned count, unsigned bursts,
                         const uint64_t* now, const uint64_t* address, const uint32_t* beats, const uint8_t* writes,
                         uint64_t* begins) {
    Dram dram;
    dram.configure(*settings, number, count);
    for (unsigned i = 0; i < bursts; ++i) begins[i] = dram.begin(now[i], address[i], beats[i], writes[i]);
}
"""
Schedule = Callable[..., np.ndarray]


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> Schedule:
    """When the bus begins to move bursts: of their arrivals, addresses, beats and directions."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("dram")
    source, library = folder / "program.cpp", folder / "program.so"
    source.write_text(PROGRAM)
    defined = ["-DBITLANE_PORT_WIDTH=64", "-DBITLANE_PORTS=1"]
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{CPP}", *defined, source, "-o", library], check=True
    )
    function = ctypes.CDLL(str(library)).schedule

    def call(
        ticks: DramTicks,
        now: np.ndarray,
        address: np.ndarray,
        beats: np.ndarray,
        writes: np.ndarray,
        number: int = 0,
        count: int = 1,
    ) -> np.ndarray:
        settings = (ctypes.c_uint32 * 10)(*dataclasses.astuple(ticks))
        arrays = [now.astype(np.uint64), address.astype(np.uint64), beats.astype(np.uint32), writes.astype(np.uint8)]
        begins = np.empty(len(now), np.uint64)
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*arrays, begins)]
        function(ctypes.byref(settings), number, count, len(now), *pointers)
        return begins.astype(np.int64)

    return call


def random_ticks(rng: np.random.Generator) -> DramTicks:
    times = rng.integers(0, 40 * TICKS, 5).tolist()
    refresh = int(rng.integers(0, 100 * TICKS))
    return DramTicks(
        2 ** int(rng.integers(0, 5)),
        1024,
        int(rng.integers(100, 3 * TICKS)),
        *times,
        refresh_every=2 * refresh + int(rng.integers(200, 2000)) * TICKS,
        refresh=refresh,
    )


def test_no_rule_of_a_channel_is_broken(seed: int, schedule: Schedule) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        ticks, count = random_ticks(rng), 300
        now = np.cumsum(rng.integers(0, rng.choice([1, 20, 200]) * TICKS, count))
        address = rng.integers(0, 1 << int(rng.integers(12, 18)), count) // 1024 * 1024
        beats, writes = rng.integers(1, 17, count), rng.random(count) < rng.choice([0, 0.3])
        begins = schedule(ticks, now, address, beats, writes)
        ends = begins + beats * ticks.beat
        assert (begins >= now + ticks.column).all()
        gaps = begins[1:] - ends[:-1]
        assert (gaps >= np.where(writes[1:] != writes[:-1], ticks.turnaround, 0)).all()
        # A refresh finishes what the bus moves, and nothing crosses one.
        assert (begins // ticks.refresh_every == (ends - 1) // ticks.refresh_every).all()
        rows, banks = address // 1024 // ticks.banks, address // 1024 % ticks.banks
        reopened = ticks.precharge + ticks.activate + ticks.column
        last: dict[int, int] = {}
        for i in range(count):
            period, bank = begins[i] // ticks.refresh_every, int(banks[i])
            before = last.get(bank)
            if before is None or begins[before] // ticks.refresh_every != period:
                refreshed = period * ticks.refresh_every + ticks.refresh if period else 0
                assert begins[i] >= refreshed + ticks.activate + ticks.column
            elif rows[before] != rows[i]:
                assert begins[i] >= ends[before] + reopened
            last[bank] = i


@pytest.mark.parametrize("timing", [DDR3_PYNQ, HBM2])
def test_a_stream_takes_all_but_the_refreshes(timing: dram.DramTiming, schedule: Schedule) -> None:
    """Consecutive bursts that arrive early: rows open while others are used."""
    ticks, count = timing.ticks(200e6, 16), 20_000
    zeros = np.zeros(count, np.int64)
    begins = schedule(ticks, zeros, np.arange(count) * 256, zeros + 16, zeros)
    busy, total = count * 16 * ticks.beat, int(begins[-1]) + 16 * ticks.beat
    refreshes = total // ticks.refresh_every
    lost = ticks.precharge + ticks.refresh + ticks.activate + ticks.column + 16 * ticks.beat
    assert refreshes * ticks.refresh < total - busy <= (refreshes + 1) * lost


@pytest.mark.parametrize("count", [1, 2, 16])
def test_channels_refresh_evenly_apart(schedule: Schedule, count: int) -> None:
    """A stream of bursts stops where a refresh is due."""
    ticks, bursts = HBM2.ticks(300e6, 32), 3000
    zeros = np.zeros(bursts, np.int64)
    firsts = []
    for number in range(count):
        begins = schedule(ticks, zeros, np.arange(bursts) * 512, zeros + 16, zeros, number, count)
        stops = begins[:-1][np.diff(begins) > ticks.refresh] + 16 * ticks.beat
        assert np.diff(stops) == pytest.approx(ticks.refresh_every, abs=16 * ticks.beat)
        firsts.append(stops[0])
    apart = ticks.refresh_every / count
    assert firsts == pytest.approx([(number + 1) * apart for number in range(count)], abs=16 * ticks.beat)


def test_rows_of_one_bank_cost_their_cycle(schedule: Schedule) -> None:
    ticks = dataclasses.replace(DDR3_PYNQ.ticks(100e6, 16), refresh_every=1 << 31)
    zeros = np.zeros(100, np.int64)
    begins = schedule(ticks, zeros, np.arange(100) * 2048 * 8, zeros + 1, zeros)
    steps = np.diff(begins)
    reopened = ticks.beat + ticks.precharge + ticks.activate + ticks.column
    assert (steps == max(ticks.row_cycle, reopened)).all()
    other = schedule(ticks, zeros, np.arange(100) * 2048, zeros + 16, zeros)
    assert (np.diff(other) == 16 * ticks.beat).all()


def test_times_are_those_of_the_data_sheet() -> None:
    ticks = HBM2.ticks(300e6, 32)
    assert ticks.beat == round(32 / 14.4e9 * 300e6 * TICKS)
    assert ticks.refresh_every == round(3900e-9 * 300e6 * TICKS)
    assert dataclasses.astuple(ticks)[:2] == (16, 1024)
    with pytest.raises(ValueError, match="a refresh of 350 ns every 600 ns leaves no time"):
        dataclasses.replace(HBM2, refresh_every=600.0).ticks(300e6, 32)
    with pytest.raises(ValueError, match="leaves no time for bursts"):  # a bus that is too slow for one
        dataclasses.replace(HBM2, bytes_per_second=1e6).ticks(300e6, 32)


def test_the_fields_are_those_of_the_simulator() -> None:
    text = (CPP / "abi.h").read_text()
    struct = text[text.index("struct DramSettings {") : text.index("};", text.index("struct DramSettings {"))]
    lines = [line.split("//")[0].strip() for line in struct.splitlines()[1:]]
    names = itertools.chain.from_iterable(
        line.removeprefix("uint32_t").rstrip(";").split(",") for line in lines if line
    )
    assert [name.strip() for name in names] == [field.name for field in dataclasses.fields(DramTicks)]
