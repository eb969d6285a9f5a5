"""Compressors: their settings and their reducers."""
