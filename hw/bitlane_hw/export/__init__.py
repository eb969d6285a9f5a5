"""The RTL for other tools: Verilog, pins, IP packaging, the page of the registers."""
