"""The Verilated RTL as a device: Verilog, simulator, harness and memory."""
