"""The alpha-beta cost model, which chooses between two collectives for an average of codes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlphaBetaModel:
    """The cost of sending: a latency per round (alpha) and a time per byte (beta). The link is full duplex.

    The defaults describe a slow link, 100 Mb/s with a short latency, so that averages take the collective with the
    fewest bytes. With a latency of milliseconds a single round is faster for small codes: set `latency` then.
    `bitlane advise` measures both values. All ranks must have the same model.

    Parameters
    ----------
    latency : float, default: 20e-6
        Seconds per round.
    bandwidth : float, default: 12.5e6
        Bytes per second in each direction.

    Examples
    --------
    >>> from bitlane.compress.collectives.cost_model import AlphaBetaModel
    >>> AlphaBetaModel().prefers_reduce_scatter(1_000_000, ranks=4)
    True
    >>> AlphaBetaModel(latency=0.005).prefers_reduce_scatter(1_000, ranks=4)
    False
    """

    latency: float = 20e-6
    bandwidth: float = 12.5e6

    def all_gather_seconds(self, body: int, ranks: int) -> float:
        """Return the seconds of an all-gather: one round, in which each rank sends `body` bytes to each other rank."""
        return self.latency + (ranks - 1) * body / self.bandwidth

    def reduce_scatter_seconds(self, body: int, ranks: int) -> float:
        """Return the seconds of a reduce-scatter and an all-gather: two rounds with 1/ranks of the `body` bytes."""
        return 2 * self.latency + 2 * (ranks - 1) * body / ranks / self.bandwidth

    def prefers_reduce_scatter(self, body: int, ranks: int) -> bool:
        """Return whether reduce-scatter and all-gather is faster than all-gather only; False on a tie."""
        return self.reduce_scatter_seconds(body, ranks) < self.all_gather_seconds(body, ranks)
