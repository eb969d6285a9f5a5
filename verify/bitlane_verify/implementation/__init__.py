"""Area, timing, netlists and bitstreams from Verilog, with open tools."""
