"""Codecs: arrays to bytes and back. numpy alone, compiled where numba is installed."""
