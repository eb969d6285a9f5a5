"""Make a bitstream for a Zynq-7000 from Verilog with a PS7, with open tools only."""
