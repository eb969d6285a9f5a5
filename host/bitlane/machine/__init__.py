"""The accelerator in machine code: it reads the packed words and equals the reference bit for bit. It needs numba."""
