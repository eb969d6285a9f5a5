"""Codecs: arrays to bytes and back, in numpy; compiled loops when numba is installed."""
