"""Which of two ways an average of codes takes, by what each costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlphaBetaModel:
    """What it costs to send: `latency` seconds a round, `bandwidth` bytes a second, in and out at a time.

    Where nothing is given bytes are dear: 100 Mb/s, and rounds that cost little. Who compresses has a slow link, and
    the bytes are what was asked for. With a latency of milliseconds, small codes are better gathered: say so here.
    Every rank has to be given the same; `bitlane advise` measures it.
    """

    latency: float = 20e-6
    bandwidth: float = 12.5e6

    def all_gather_seconds(self, body: int, ranks: int) -> float:
        """Everybody sends its codes to everybody: one round."""
        return self.latency + (ranks - 1) * body / self.bandwidth

    def reduce_scatter_seconds(self, body: int, ranks: int) -> float:
        """Each part goes to the rank that owns it, which averages, codes again and sends to everybody: two rounds."""
        return 2 * self.latency + 2 * (ranks - 1) * body / ranks / self.bandwidth

    def prefers_reduce_scatter(self, body: int, ranks: int) -> bool:
        """Whether owners are the quicker way for codes of `body` bytes; a tie goes to the single round."""
        return self.reduce_scatter_seconds(body, ranks) < self.all_gather_seconds(body, ranks)
