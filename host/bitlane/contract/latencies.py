"""Latencies that RTL and cycle model share, in clock cycles."""

from __future__ import annotations

ROW_GAP = 2  # rows' last words come at least (digits + ROW_GAP) cycles after one another
DRAW_CYCLES = 2  # that a draw word takes table lanes: a product with each of the two levels drawn
PUBLISH_LATENCY = 3  # of random rounding: of what is published
SCALED_GRADIENT_LATENCY = 1  # and of the coefficients


def update_latency(rows_per_beat: int, table_lanes: bool = False, random_rounding: bool = False) -> int:
    """From a batch's last beat to the first read of the updated model, one digit a feature; each further one adds 1.

    table: of table lanes, where the words of a first chunk count as its digits, half digits too: 2, 2 or 3 of them.
    random: with random rounding, whether it is used or not.
    """
    return (
        (28 if table_lanes else 20)
        + (rows_per_beat - 1).bit_length()
        + (PUBLISH_LATENCY + SCALED_GRADIENT_LATENCY) * random_rounding
    )
