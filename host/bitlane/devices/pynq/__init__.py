"""PYNQ boards, here or on the network."""
