"""Run MiCRO on synthetic gradients, and count the indices and bytes it sends."""

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
from bitlane.compress.compressors.shares import density_count

from .gradients import SyntheticGradients

BAND = 0.1  # allowed deviation from the requested density, relative
SETTLING = 20  # first steps that are not counted


@dataclass(frozen=True)
class DensityResult:
    """The indices and bytes of a run.

    Attributes
    ----------
    wanted : int
        Requested number of indices per step (k).
    counts : int64 [steps, ranks]
        Indices that each rank selected.
    index_bytes : int
        Bytes of all encoded indices.
    entropy : float
        Sum of log2 C(values of a partition, its indices) over all partitions and steps, in bytes.
    sent : int
        Bytes sent by all ranks.
    authors_bytes : int
        Bytes that all ranks would send in the authors' format.
    """

    wanted: int
    counts: NDArray[np.int64]
    index_bytes: int
    entropy: float
    sent: int
    authors_bytes: int

    @property
    def ratios(self) -> NDArray[np.float64]:
        """Density of each step relative to the requested one, float64 [steps]."""
        ratios: NDArray[np.float64] = self.counts.sum(axis=1) / self.wanted
        return ratios

    @property
    def first_in_band(self) -> int | None:
        """The first step with a density within the band; None if there is none."""
        within = np.flatnonzero(self._within())
        return int(within[0]) if len(within) else None

    @property
    def share_in_band(self) -> float:
        """Share of the steps within the band, without the first `SETTLING` steps."""
        return float(self._within()[SETTLING:].mean())

    @property
    def total(self) -> float:
        """Indices of all steps relative to the requested number."""
        return float(self.ratios.mean())

    def _within(self) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = np.abs(self.ratios - 1) <= BAND
        return within


def run_density(compressor: MiCRO, gradients: SyntheticGradients, ranks: int, steps: int) -> DensityResult:
    """Run MiCRO with each rank a thread.

    Parameters
    ----------
    compressor : MiCRO
        The settings.
    gradients : SyntheticGradients
        The gradients of all ranks.
    ranks, steps : int
        Number of ranks and steps.
    """
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

    by_rank = run_ranks_in_threads(ranks, work)
    counts = np.array(by_rank[0][0])
    sent, index_bytes = sum(each[2] for each in by_rank), sum(each[1] for each in by_rank)
    sizes = np.array([n * (number + 1) // ranks - n * number // ranks for number in range(ranks)])
    of = (np.arange(steps)[:, None] + np.arange(ranks)) % ranks
    entropy = sum(map(entropy_bytes, sizes[of].ravel().tolist(), counts.ravel().tolist()))
    return DensityResult(
        density_count(compressor.density, n), counts, index_bytes, entropy, sent, authors_bytes(counts)
    )


def entropy_bytes(n: int, k: int) -> float:
    """Return log2 C(n, k) in bytes: the entropy of k of n indices if all sets are equally likely."""
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8


def authors_bytes(counts: NDArray[np.int64]) -> int:
    """Return the bytes that all ranks send in the authors' format for selections int64 [steps, ranks].

    A ring all-gather exchanges the counts (8 bytes) and the indices (8 bytes each), padded to the largest count of all
    ranks. A ring all-reduce averages the float32 values.
    """
    ranks = counts.shape[1]
    gathered = ranks * (ranks - 1) * 8 * (1 + counts.max(axis=1))
    return int((gathered + 2 * (ranks - 1) * 4 * counts.sum(axis=1)).sum())
