"""From a Verilog top with a PS7 to a bitstream for a Zynq-7000, with open tools alone."""
