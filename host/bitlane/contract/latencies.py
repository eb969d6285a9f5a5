"""Latencies that RTL and cycle model share, in clock cycles."""

from __future__ import annotations

ROW_GAP = 2  # rows' last words come at least (digits + ROW_GAP) cycles after one another
DRAW_CYCLES = 2  # that a draw word takes table lanes: a product with each of the two levels drawn
PUBLISH_LATENCY = 3  # of random rounding: of what is published
SCALED_GRADIENT_LATENCY = 1  # and of the coefficients


def update_latency(rows_per_beat: int, table_lanes: bool = False, random_rounding: bool = False) -> int:
    """Return the cycles from the last beat of a batch to the first read of the updated model.

    This is the latency with one digit per feature. Each further digit adds one cycle.

    Parameters
    ----------
    rows_per_beat : int
    table_lanes : bool, default=False
        Of table lanes, the words of the first chunk count as its digits, including half digits: 2 or 3 of them.
    random_rounding : bool, default=False
        Whether the build has random rounding, used or not.
    """
    return (
        (28 if table_lanes else 20)
        + (rows_per_beat - 1).bit_length()
        + (PUBLISH_LATENCY + SCALED_GRADIENT_LATENCY) * random_rounding
    )
