"""The synthesised netlist as a device, cell by cell, to compare its bits and cycles with the reference."""
