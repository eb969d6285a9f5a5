"""Cycles against their bounds, time to a loss, and the simulator's speed."""
