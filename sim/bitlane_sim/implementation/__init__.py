"""From Verilog to area, timing, netlists and bitstreams, with open tools."""
