"""A simulated PYNQ board: pynq's own code in front of the Verilated accelerator."""
