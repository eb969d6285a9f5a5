"""Hash tables from 64-bit keys to rows of float32, at most 1.2 times the size of their data."""
