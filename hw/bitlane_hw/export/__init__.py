"""The RTL for other tools: Verilog, pins, IP packaging, the register page."""
