"""Frozen models and their scores, in one process."""
