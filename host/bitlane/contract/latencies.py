"""Latencies in clock cycles, used by the RTL and by the cycle model."""

from __future__ import annotations

BATCH_PAUSE = 1  # cycles without a digit after a batch of rows of one chunk, which the update lanes read again
DRAW_CYCLES = 2  # a draw word occupies table lanes this long: one product for each of the two drawn levels
PUBLISH_LATENCY = 3  # of the random rounding of the published model
SCALED_GRADIENT_LATENCY = 1  # of the random rounding of the scaled gradients
PORT_CROSSING = 2  # registers between several memory ports and the sequencer, in each direction
SHARD_CROSSING = 2  # registers between the shards and the scalar stages, in each direction


def words_latency(ports: int) -> int:
    """Return the cycles from the decision to take a beat to its words: to the ports and back, if there are several."""
    return 2 * PORT_CROSSING if ports > 1 else 0


def dot_sum_latency(shards: int) -> int:
    """Return the cycles from the dot products of the shards to their sum: crossing, and a cycle a level of adders."""
    return SHARD_CROSSING + (shards - 1).bit_length() if shards > 1 else 0


def crossing_latency(shards: int) -> int:
    """Return the cycles from the scaled gradients to the shards."""
    return SHARD_CROSSING if shards > 1 else 0


def update_latency(
    rows_per_beat: int, table_lanes: bool = False, random_rounding: bool = False, shards: int = 1
) -> int:
    """Return the cycles from the last beat of a batch to the first read of the updated model.

    This is the latency with one digit per feature. Each further digit adds one cycle.

    Parameters
    ----------
    rows_per_beat : int
    table_lanes : bool, default=False
        Whether the build has table lanes. Its digits per feature are then the words of the first chunk, half digits
        included: 2 or 3.
    random_rounding : bool, default=False
        Whether the build has random rounding. The latency is the same if it is switched off.
    shards : int, default=1

    Returns
    -------
    int
    """
    return (
        (29 if table_lanes else 21)
        + (rows_per_beat - 1).bit_length()
        + dot_sum_latency(shards)
        + crossing_latency(shards)
        + (PUBLISH_LATENCY + SCALED_GRADIENT_LATENCY) * random_rounding
    )
