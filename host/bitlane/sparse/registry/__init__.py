"""Versions of a model: full bases and deltas with checksums, labels with a history, readers, garbage."""
