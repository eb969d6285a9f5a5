"""`python -m bitlane_sim.cocotb` and `python -m bitlane_sim.cocotb.example`: what a user sees."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from bitlane_sim.cocotb import __main__ as command
from bitlane_sim.cocotb.example import TESTBENCH
from bitlane_sim.cocotb.runner import ICARUS, BenchSimulator

UNAVAILABLE = BenchSimulator(ICARUS).unavailable_reason()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--width", "96"], "width=96 must be one of 64, 128, 256, 512"),
        (["nothere.py"], "nothere.py"),
        (["--simulator", "icarus", "--verilog", __file__], "Icarus Verilog is not installed"),
    ],
)
def test_bad_values_and_missing_tools_end_in_one_line(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as raised:
        command.main([*options, "--out", str(tmp_path / "out")])
    assert raised.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m bitlane_sim.cocotb: error: ") and message in line


def test_the_example_is_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["example", str(tmp_path / "bench")])
    runpy.run_module("bitlane_sim.cocotb.example", run_name="__main__")
    copy = tmp_path / "bench" / TESTBENCH.name
    assert copy.read_text() == TESTBENCH.read_text()
    assert capsys.readouterr().out.endswith(f"run it with: python -m bitlane_sim.cocotb {copy}\n")
    copy.write_text("mine")
    with pytest.raises(SystemExit) as raised:
        runpy.run_module("bitlane_sim.cocotb.example", run_name="__main__")
    assert raised.value.code == 2 and copy.read_text() == "mine"
    assert "File exists" in capsys.readouterr().err


BENCH = """
import cocotb
from bitlane_sim.cocotb.bench import AcceleratorBench

@cocotb.test()
async def reads_the_build(dut):
    bench = AcceleratorBench(dut)
    await bench.reset()
    assert bench.driver.config.max_features == {features}
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
def test_a_users_testbench_and_its_waves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(BENCH.format(features=command.SMALL.max_features))
    (tmp_path / "wrong.py").write_text(BENCH.format(features=1))
    options = ["--simulator", "icarus", "--waves", "--out", str(tmp_path)]
    assert command.main([str(tmp_path / "mine.py"), *options, "--seed", "5"]) == 0
    out = capfd.readouterr().out
    assert "PASS=1 FAIL=0" in out and "all tests passed, with --seed 5" in out
    assert (tmp_path / "waves.fst").stat().st_size > 1000
    assert f'[dumpfile] "{tmp_path / "waves.fst"}"' in (tmp_path / "waves.gtkw").read_text()
    assert command.main([str(tmp_path / "wrong.py"), *options]) == 1
    assert "1 of 1 cocotb tests failed; repeat the run with --seed " in capfd.readouterr().err
