"""The bins and points of coverage: what was not seen stays empty, and a report with something empty fails."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import HELPERS
from tests.sim.conftest import Mischief

from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import MASTER
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.packing import pack_base
from bitlane.contract.registers import CONTROL_START, FIELDS, REGISTERS, STATUS_ERROR_SHIFT
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver import registers
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DeviceError
from bitlane_sim.coverage.__main__ import WIDE, report_bins, report_points
from bitlane_sim.coverage.bins import Bins
from bitlane_sim.coverage.clipping import watched
from bitlane_sim.coverage.device import Run
from bitlane_sim.coverage.functional import GROUP_POINTS, declared, observe_bus, observe_modes, observe_values, refused
from bitlane_sim.coverage.points import EXCLUSIONS, Exclusion, Point, Report, exclusions, points, read_counts
from bitlane_sim.coverage.runs import RUN_REGISTERS
from bitlane_sim.coverage.source import Lines
from bitlane_sim.equivalence.random_jobs import SMALL, random_job
from bitlane_sim.rtl.build import build_verilog
from bitlane_sim.rtl.harness import CHANNELS, Disturbance, Harness, Moment, Monitor

BASE = 0x1000_0000
NEVER = Moment(None, 0, 0)


def filled(bins: Bins) -> set[str]:
    """All bins that were hit."""
    every = declared(SMALL).missed()
    return set(every) - set(bins.missed())


# --- bins
def test_a_bin_is_hit_or_empty():
    bins = Bins()
    bins.cross("both", "ab", (1, 2))
    bins.hit("both", "a", 2)
    bins.hit("both", "b", 1, times=0)
    assert bins.table() == [("both", 1, 4)]
    assert bins.missed() == ["both: a x 1", "both: b x 1", "both: b x 2"]


def test_only_declared_bins_can_be_hit():
    bins = Bins()
    bins.declare("side", ("low", "high"))
    with pytest.raises(KeyError):
        bins.hit("side", "left")
    with pytest.raises(ValueError, match="side"):
        bins.declare("side", ("low",))
    with pytest.raises(ValueError, match="empty"):
        bins.declare("empty", ())


def test_report_fails_while_a_bin_is_empty(capsys):
    bins = Bins()
    bins.declare("side", ("low", "high"))
    bins.hit("side", "low")
    assert not report_bins(bins, "one of two")
    assert "empty: side: high" in capsys.readouterr().out
    bins.hit("side", "high")
    assert report_bins(bins, "both")


# --- what fills them
def test_modes_fill_their_own_bins_only():
    registers = dict.fromkeys((*RUN_REGISTERS, *FIELDS), 0) | {
        "features": 33, "groups": 10, "batch_groups": 4, "batch_tail": 1, "epoch_tail": 1, "base_digits": 3,
        "draws": 1, "draw_sets": 2, "epochs": 2, "loss": Loss.HINGE, "prox": Prox.L1, "unpenalized_intercept": 1,
        "staleness": 1,
        "decay": NO_DECAY, "step": 5,
    }  # fmt: skip
    bins = declared(SMALL)
    observe_modes(bins, registers, SMALL)
    assert filled(bins) == {
        "loss, prox, staleness: HINGE x L1 x stale", "stored digits: 4", "base digits: 3", "digits read: base and draw",
        "stored digits, last batch: 4 x partial", "batches: partial last", "last lane: 0", "chunks: 2", "sets: 2",
        "epochs: within the sets", "snapshots: off", "decay: off", "class weights: different",
        "prox, last feature: L1 x free",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "batch", "expected"),
    [
        (8, 4, {"full last"}),
        (4, 4, {"one batch an epoch"}),
        (3, 1, {"full last", "one row"}),
        (9, 4, {"partial last"}),
    ],
)
def test_batches(groups, batch, expected):
    registers = dict.fromkeys((*RUN_REGISTERS, *FIELDS), 1) | {"groups": groups, "batch_groups": batch}
    bins = declared(SMALL)
    observe_modes(bins, registers, SMALL)
    assert {name.partition(": ")[2] for name in filled(bins) if name.startswith("batches")} == expected


def test_partial_groups_are_bins_of_wide_ports_only():
    point = GROUP_POINTS[0]
    assert point not in dict((name, of) for name, _, of in declared(SMALL).table())
    bins = declared(WIDE)
    registers = dict.fromkeys((*RUN_REGISTERS, *FIELDS), 1) | {"groups": 3, "batch_groups": 2, "batch_tail": 2}
    observe_modes(bins, registers, WIDE)
    assert f"{point}: full x partial" not in bins.missed()
    assert f"{point}: partial x partial" in bins.missed()


def test_clipped_sides_add_up_to_the_counter(seed):
    """Of squares: what is seen on both sides, copy by copy, is what the accelerator counts."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(20):
        job = random_job(rng, SMALL, features=40, rows=20)
        settings = dataclasses.replace(job.state.settings, loss=Loss.SQUARES)
        job = dataclasses.replace(job, state=ModelState(job.state.master, settings))
        with watched(job.state.settings) as seen:
            outcome = Driver(EmulatorDevice(SMALL)).run(job)
        assert sum(count for (what, _), count in seen.items() if what != "prox") == outcome.counters.saturations
        found += outcome.counters.saturations
    assert found


@pytest.mark.parametrize("side", ["high", "low"])
def test_sides(side, seed):
    """Samples at the upper end of their range, weights at an end of theirs: z leaves its range there, r with it."""
    weight, label = (MASTER.maximum, -1) if side == "high" else (MASTER.minimum, 1)
    geometry = Geometry(32, 4, 2, False, 4)
    codes, labels = np.full((4, 32), 4**2 - 1, np.uint32), np.full((4, 1), label, np.int16)
    job = random_job(np.random.default_rng(seed), SMALL)
    chosen = {"step": 1, "step_negative": 1, "loss": Loss.SQUARES, "prox": Prox.NONE, "staleness": 0}
    settings = dataclasses.replace(job.state.settings, **chosen)
    job = Job(
        geometry, [pack_base(codes, labels, geometry)], [], ModelState(np.full((1, 32), weight, np.int32), settings), 1
    )
    with watched(settings) as seen:
        Driver(EmulatorDevice(SMALL)).run(job)
    assert seen["z", side] == seen["r", side] == 8  # two copies of four rows
    assert not any(count for (_, where), count in seen.items() if where != side)


def test_a_run_that_clips_nothing_fills_no_side(seed):
    rng = np.random.default_rng(seed)
    job = random_job(rng, SMALL, features=40, rows=20)
    widest = {"prox": Prox.BOX, "bounds": (-32768, 32767), "unpenalized_intercept": False}
    quiet = dataclasses.replace(job.state.settings, step=0, step_negative=0, penalty_step=0, loss=Loss.HINGE, **widest)
    job = dataclasses.replace(job, state=ModelState(np.zeros_like(job.state.master), quiet))
    with watched(quiet) as seen:
        Driver(EmulatorDevice(SMALL)).run(job)
    bins = declared(SMALL)
    observe_values(bins, seen)
    assert filled(bins) == {"prox: BOX inside"}


def test_phases():
    run = Run(Moment(None, 100, 10), model_beats=32, trace=0x2000, write_bursts=3)
    assert run.phase(Moment(None, 131, 10)) == "loading"
    assert run.phase(Moment(None, 132, 10)) == "training"
    assert run.phase(Moment(0x1FF0, 200, 10)) == "storing"
    assert run.phase(Moment(0x2000, 200, 12)) == "record"
    assert run.phase(Moment(None, 200, 13)) == "draining"


def test_refused_registers_are_refused_by_the_emulator_too(seed):
    device = EmulatorDevice(SMALL)
    Driver(device).run(random_job(np.random.default_rng(seed), SMALL, features=40, rows=20))
    for rule, values in refused(SMALL).items():
        kept = {name: registers.read(device, name) for name in values}
        write(device, values)
        device.write(REGISTERS["control"].offset, CONTROL_START)
        assert device.read(REGISTERS["status"].offset) >> STATUS_ERROR_SHIFT == ErrorCode.CONFIGURATION, rule
        write(device, kept)


def write(device: EmulatorDevice, values: dict[str, int]) -> None:
    for name, value in values.items():
        registers.write(device, name, value)


# --- the bus monitor, on the small master
def run_of_mischief(library: Path, disturbance: Disturbance) -> Harness:
    """Copies four bursts of sixteen beats; the second one written ends at a multiple of 4096."""
    words = np.arange(4096, dtype=np.uint64)
    harness = Harness(library, words, BASE, MemoryTiming(9, 5), disturbance)
    for offset, value in ((0x28, 1), (0x40, BASE), (0x44, BASE + 0x4000 - 0x100), (0x48, 4), (0x20, 1)):
        harness.write(offset, value)
    harness.run(20_000)
    return harness


def test_monitor_sees_bursts_and_page_ends(mischief: Mischief):
    harness = run_of_mischief(mischief(64), Disturbance())
    monitor = harness.monitor
    assert monitor.read_lengths == (*[0] * 16, 4) == monitor.write_lengths
    assert (monitor.read_page_ends, monitor.write_page_ends) == (0, 1)
    assert not any(monitor.stalls.values())
    assert monitor.error == Moment(0, 0, 0)
    bins = declared(SMALL)
    observe_bus(bins, monitor, SMALL)
    assert filled(bins) == {"read burst: 16", "write burst: chunk", "burst ends at 4 KiB: write"}


@pytest.mark.parametrize("channel", CHANNELS)
def test_monitor_sees_each_channel_stall(mischief: Mischief, channel: str, seed: int):
    harness = run_of_mischief(mischief(64), Disturbance(seed, **{f"stall_{channel}": 0.8}))
    assert {name for name, cycles in harness.monitor.stalls.items() if cycles} == {channel}


def test_monitor_keeps_the_first_error(mischief: Mischief):
    harness = run_of_mischief(mischief(64), Disturbance(write_error_burst=1))
    moment = harness.monitor.error
    assert 2 <= moment.write_bursts <= 3
    harness.disturb(Disturbance(write_error_burst=0))
    assert harness.monitor.error == moment


def test_monitor_knows_when_reset_came(mischief: Mischief):
    harness = run_of_mischief(mischief(64), Disturbance())
    assert harness.monitor.written.base_beats == 0
    harness.reset()
    assert harness.monitor.reset.base_beats == harness.counters.read_beats == 64
    assert harness.monitor.reset.write_bursts == 4


def test_bus_bins_stay_empty_without_traffic():
    bins = declared(SMALL)
    quiet = Monitor((0,) * 17, (0,) * 17, 0, 0, dict.fromkeys(CHANNELS, 0), NEVER, NEVER, NEVER)
    observe_bus(bins, quiet, SMALL)
    assert filled(bins) == set()


# --- lines and branches
VERILOG = r"""
(* src = "/somewhere/hw/bitlane_hw/gate.py:10" *)
(* generator = "Amaranth" *)
module \top.gate (a, clk);
  reg \$auto$verilog_backend.cc:1:dump_module$1  = 0;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:12" *)
  reg [3:0] left = 4'h0;
  assign \$2  = a & (* src = "/somewhere/hw/bitlane_hw/gate.py:20" *) b;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:13" *)
  wire chosen;
  assign chosen = a ? (* src = "/somewhere/hw/bitlane_hw/gate.py:21" *) b : c;
  (* src = "/somewhere/hw/bitlane_hw/gate.py:12" *)
  always @(posedge clk)
    left <= \$1 ;
  always @* begin
    if (\$auto$verilog_backend.cc:1:dump_module$1 ) begin end
    \$1  = left;
    if (\$2 ) begin
      \$1  = chosen;
    end
  end
endmodule
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(VERILOG.splitlines(), 1) if text in line)


def test_points_are_named_by_lines_of_python():
    lines = Lines(VERILOG)
    assert lines.exists_for_yosys(line_of("begin end"))
    branch, mux = line_of("if (\\$2"), line_of(" ? ")
    counts = {
        ("branch", branch, 5, "if", "top"): 0,
        ("branch", mux, 9, "cond_then", "top"): 3,
        ("branch", line_of("begin end"), 5, "if", "top"): 0,
    }
    assert points(counts, lines) == [
        Point("branch", "gate.py", "gate.py, gate: left (gate.py:12) where gate.py:20, if", 0),
        Point("branch", "gate.py", "gate.py, gate: gate.py:21, cond_then", 3),
    ]


def report(hit: int, missed: int, excluded: list[Exclusion]) -> Report:
    """Of so many lines and branches each."""
    found = [
        Point(kind, "a.py", f"a.py: x_{i} (a.py:1), if", int(i < hit))
        for kind in ("line", "branch", "toggle")
        for i in range(hit + missed)
    ]
    return Report(found, excluded)


def test_report_fails_below_the_goal(capsys):
    assert report_points(report(98, 2, []))
    assert not report_points(report(97, 3, []))
    out = capsys.readouterr().out
    assert "never, branch: a.py: x (a.py:1), if (3 times)" in out
    assert "97 of 100  97.00%" in out


def test_exclusions_count_and_have_to_be_of_use():
    excluded = Exclusion("last", r"a\.py: x_9[0-9] ", "there is no such lane")
    assert report(90, 10, [excluded]).figures()["all", "line"] == (90, 90)
    assert report_points(report(90, 10, [excluded]))
    assert not report_points(report(80, 0, [excluded]))


def test_each_exclusion_has_a_reason(tmp_path):
    assert all(exclusion.reason for exclusion in exclusions(EXCLUSIONS))
    file = tmp_path / "exclusions.ini"
    file.write_text("[nothing said]\npoints = x\n")
    with pytest.raises(ValueError, match="nothing said"):
        exclusions(file)


def test_what_verilator_counts_is_read(mischief: Mischief, tmp_path):
    """Arms that a copy takes are counted once there is a copy; a simulator built without coverage says so."""
    with pytest.raises(DeviceError, match="without coverage"):
        run_of_mischief(mischief(64), Disturbance()).write_coverage(tmp_path / "none")
    library = build_verilog(HELPERS / "mischief.v", coverage=True)
    idle = Harness(library, np.zeros(4096, np.uint64), BASE, MemoryTiming(), Disturbance())
    counts: list[Counter] = []
    for harness in (idle, run_of_mischief(library, Disturbance())):
        harness.write_coverage(tmp_path / "coverage.dat")
        counts.append(read_counts(tmp_path / "coverage.dat"))
    assert counts[0].keys() == counts[1].keys()
    for kind in ("line", "branch", "toggle"):
        hit = [sum(1 for key, count in some.items() if key[0] == kind and count) for some in counts]
        assert hit[0] < hit[1], kind
