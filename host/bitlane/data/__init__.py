"""Data sets by name, tables from files, and checks of arrays."""
