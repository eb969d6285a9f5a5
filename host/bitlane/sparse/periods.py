"""Rows between two events of a training: the defaults of all engines."""

FIRST_ROWS = 50_000  # whose mean label is the base rate that a model begins with
WINDOW_ROWS = 50_000  # of a window of progressive validation, or between two removals of keys
CHECKPOINT_ROWS = 5_000_000
PIECE_ROWS = 50_000  # learned in one call, rounded up to minibatches: between two calls a training can stop
CLOCK_ROWS = 1_000  # of a tick of the table's clock, which stamps rows for their expiry


def piece_rows(minibatch_rows: int, window_rows: int) -> tuple[int, int]:
    """Return the rows at whose multiples the pieces of an epoch end, in whole minibatches; the last are a window's."""
    pieces, window = (-(-rows // minibatch_rows) * minibatch_rows for rows in (PIECE_ROWS, window_rows))
    return pieces, window
