"""Engines: who runs the servers and the workers of a training."""
