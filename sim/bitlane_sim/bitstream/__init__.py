"""From the RTL to a bitstream, with open tools alone."""
