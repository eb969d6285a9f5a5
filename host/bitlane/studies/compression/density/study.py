"""Steps of MiCRO on made-up gradients, and what they sent: places, their bytes, and what the authors' format has."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log

import numpy as np
import torch
from numpy.typing import NDArray

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import ThreadTransport, run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import density_count

from .gradients import SyntheticGradients

BAND = 0.1  # of the density asked for
SETTLING = 20  # steps until it has to be held


@dataclass(frozen=True)
class DensityResult:
    """What a run sent.

    Attributes
    ----------
    wanted: k.
    counts: int64 [steps, ranks], places that each rank chose.
    index_bytes, entropy: of the codes of all places, and log2 C(values of a part, its places) of all, in bytes.
    sent, authors: bytes of all ranks, as counted and as the authors' format would have.
    """

    wanted: int
    counts: NDArray[np.int64]
    index_bytes: int
    entropy: float
    sent: int
    authors: int

    @property
    def ratios(self) -> NDArray[np.float64]:
        """float64 [steps]: density over the density asked for."""
        ratios: NDArray[np.float64] = self.counts.sum(axis=1) / self.wanted
        return ratios

    @property
    def settled(self) -> int | None:
        """The first step whose density is within the band; None where none is."""
        within = np.flatnonzero(self._within())
        return int(within[0]) if len(within) else None

    @property
    def held(self) -> float:
        """The share of the steps within the band, the first `SETTLING` not counted."""
        return float(self._within()[SETTLING:].mean())

    @property
    def total(self) -> float:
        """Places sent in all, over those asked for."""
        return float(self.ratios.mean())

    def _within(self) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = np.abs(self.ratios - 1) <= BAND
        return within


def run_density(compressor: MiCRO, gradients: SyntheticGradients, ranks: int, steps: int) -> DensityResult:
    """Every rank a thread."""
    n = gradients.n

    def work(transport: ThreadTransport) -> tuple[list[list[int]], int, int]:
        reducer = compressor.reducer(
            [ParameterSpan(0, (n,))], Link(transport, ""), AlphaBetaModel(), torch.device("cpu")
        )
        counts, index_bytes = [], 0
        for step in range(steps):
            vector = torch.from_numpy(gradients.of(transport.rank, step))
            reducer.average(vector, step)
            counts.append(reducer.counts)
            index_bytes += reducer.index_bytes
        return counts, index_bytes, transport.sent

    found = run_ranks_in_threads(ranks, work)
    counts = np.array(found[0][0])
    sent, index_bytes = sum(each[2] for each in found), sum(each[1] for each in found)
    parts = np.array([n * (part + 1) // ranks - n * part // ranks for part in range(ranks)])
    of = (np.arange(steps)[:, None] + np.arange(ranks)) % ranks
    entropy = sum(map(entropy_bytes, parts[of].ravel().tolist(), counts.ravel().tolist()))
    return DensityResult(
        density_count(compressor.density, n), counts, index_bytes, entropy, sent, authors_bytes(counts)
    )


def entropy_bytes(n: int, k: int) -> float:
    """log2 C(n, k), in bytes: what k places of n need at least, in the mean, if all sets are alike likely."""
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8


def authors_bytes(counts: NDArray[np.int64]) -> int:
    """Bytes that all ranks send in the authors' format for selections int64 [steps, ranks].

    The ranks gather one another's counts, 8 bytes, and places, 8 bytes each, as many from every rank as the one with
    the most has; the values go by ring all-reduce, float32. All of it as a ring of `ranks` sends it.
    """
    ranks = counts.shape[1]
    gathered = ranks * (ranks - 1) * 8 * (1 + counts.max(axis=1))
    return int((gathered + 2 * (ranks - 1) * 4 * counts.sum(axis=1)).sum())
