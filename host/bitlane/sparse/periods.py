"""Rows between two events of a training: the defaults of all engines."""

FIRST_ROWS = 50_000  # whose mean label is the base rate that a model begins with
WINDOW_ROWS = 50_000  # of a window of progressive validation, or between two removals of keys
CHECKPOINT_ROWS = 5_000_000
CLOCK_ROWS = 1_000  # of a tick of the table's clock, which stamps rows for their expiry
