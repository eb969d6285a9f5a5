"""The example testbench passes with two states and with four, from power-up, and finds faults put in by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bitlane_sim.cocotb.__main__ import SMALL
from bitlane_sim.cocotb.example import TESTBENCH
from bitlane_sim.cocotb.runner import ICARUS, VERILATOR, BenchSimulator, run_bench
from bitlane_sim.rtl.build import TOP, verilog

UNAVAILABLE = {name: BenchSimulator(name).unavailable_reason() for name in (ICARUS, VERILATOR)}
needs_icarus = pytest.mark.skipif(bool(UNAVAILABLE[ICARUS]), reason=UNAVAILABLE[ICARUS])
needs_verilator = pytest.mark.skipif(bool(UNAVAILABLE[VERILATOR]), reason=UNAVAILABLE[VERILATOR])

# Name: the module, what is changed there, and by which comparison the testbench finds it.
FAULTS = {
    "loss not rounded": (
        *("loss_sum", r"(\$signed\(\\\$\d+ \)) \+ \$signed\(\{ 1'h0, \\\$\d+ \[0\] \}\)", r"\1"),
        "found.loss, expected.loss",
    ),
    "gradient not rounded": (
        *("step_0", r"(1'h1 \}\)) \+ \$signed\(\{ 1'h0, shifted_[01]\[0\] \}\)", r"\1"),
        "found.state.master, expected.state.master",
    ),
}
TRIGGERED = re.compile(r"always @\* begin\n    if \(\S+ \) begin end\n    (.+;)\n  end")


@pytest.fixture(scope="module")
def text() -> str:
    return verilog(SMALL).read_text()


def run(text: str, folder: Path, seed: int, simulator: BenchSimulator | None = None) -> None:
    """Run the testbench on a design."""
    (folder / "design.v").write_text(text)
    module = f"bitlane_sim.cocotb.example.{TESTBENCH.stem}"
    run_bench(folder / "design.v", TOP, module, folder, seed, simulator=simulator or BenchSimulator(ICARUS))


def changed(text: str, module: str, pattern: str, replacement: str) -> str:
    """The design with a change in a module of the first model core."""
    start = text.index(f"module \\{TOP}.engine.core_0.{module} (")
    end = text.index("endmodule", start)
    body, count = re.subn(pattern, replacement, text[start:end])
    assert count
    return text[:start] + body + text[end:]


def test_the_testbench_is_short() -> None:
    assert TESTBENCH.read_text().count("\n") <= 40


@needs_icarus
def test_weights_and_losses_with_four_states(text: str, tmp_path: Path, seed: int) -> None:
    run(text, tmp_path, seed)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, text: str, tmp_path: Path, seed: int) -> None:
    *change, comparison = FAULTS[fault]
    with pytest.raises(AssertionError, match="1 of 1 cocotb tests failed") as raised:
        run(changed(text, *change), tmp_path, seed)
    assert f"assert_array_equal({comparison})" in str(raised.value)


@needs_icarus
@pytest.mark.slow
def test_blocks_without_a_trigger_are_found(text: str, tmp_path: Path, seed: int) -> None:
    """As Yosys writes them: values are X."""
    bare, count = TRIGGERED.subn(r"always @*\n    \1", text)
    assert count >= 18
    with pytest.raises(AssertionError, match="non-0/1 values"):
        run(bare, tmp_path, seed)


@needs_verilator
@pytest.mark.slow
def test_weights_and_losses_with_two_states(text: str, tmp_path: Path, seed: int) -> None:
    run(text, tmp_path, seed, BenchSimulator(VERILATOR))
