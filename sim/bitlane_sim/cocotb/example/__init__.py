"""A testbench of the exported Verilog, to copy and to change: `python -m bitlane_sim.cocotb.example DIR`."""

from pathlib import Path

TESTBENCH = Path(__file__).with_name("testbench.py")
