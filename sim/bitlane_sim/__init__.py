"""The accelerator without a board: its RTL, translated to C++ by Verilator, as a device of the driver."""
