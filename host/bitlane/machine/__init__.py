"""The accelerator in C, built on this machine: it reads the packed words and equals the reference bit for bit."""
