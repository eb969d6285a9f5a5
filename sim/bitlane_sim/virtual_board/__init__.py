"""A PYNQ board without the board: pynq's own code in front of the Verilated accelerator."""
