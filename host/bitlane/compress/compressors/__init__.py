"""Compressors: settings, and the reducers that ranks make of them."""
