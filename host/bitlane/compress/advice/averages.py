"""The averages of all ranks of a candidate, computed in this process: each rank has its own state, and a thread."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import connect_threads
from ..compressor import Layout
from ..ddp.overlap import in_segments
from ..training.experiment import GradientAverage, StepTimer
from .candidates import Candidate


class RankAverages:
    """Averages vectors as `ranks` ranks would with a candidate, step after step.

    Parameters
    ----------
    candidate : Candidate
        Compressor, or the type of a ring all-reduce.
    layout : Layout
        The parameters.
    ranks : int
        Number of ranks.
    model : AlphaBetaModel
        The link, which chooses the collective.
    clock : StepTimer
        The times that a bit policy sees.

    Attributes
    ----------
    step : int
        Averages so far.
    """

    def __init__(self, candidate: Candidate, layout: Layout, ranks: int, model: AlphaBetaModel, clock: StepTimer):
        self.step = 0
        self._candidate, self._averages = candidate, list[GradientAverage]()
        self._transports = connect_threads(ranks, timeout=600)
        if candidate.compressor is not None:
            averaged = in_segments(candidate.compressor, False if candidate.every else "auto", ranks)
            links = [Link(transport, "") for transport in self._transports]
            self._averages = [GradientAverage(averaged, layout, link, model, clock) for link in links]

    def average(self, vectors: Sequence[Tensor], loss: float) -> Tensor:
        """Return the average of the vectors of all ranks, float32 [n], which all of them get.

        Parameters
        ----------
        vectors : sequence of Tensor, float32 [n]
            One for each rank; they do not change.
        loss : float
            Mean loss of the ranks, for bit policies.
        """
        step, self.step = self.step, self.step + 1
        if not self._averages:
            return _ring(vectors, self._candidate.dtype)
        copies = [vector.clone() for vector in vectors]

        def work(rank: int) -> None:
            try:
                self._averages[rank].average(copies[rank], step, loss)
            except BaseException:
                self._transports[rank].abort()
                raise

        with ThreadPoolExecutor(len(copies)) as threads:
            list(threads.map(work, range(len(copies))))
        return copies[0]

    @property
    def has_residual(self) -> bool:
        """Whether ranks keep back what they have not sent, and send it later."""
        return bool(self._averages) and self._averages[0].has_residual

    @property
    def widths(self) -> NDArray[np.uint8] | None:
        """Bits per value of each group in the next step, uint8 [groups]; None if all have the same."""
        return self._averages[0].widths if self._averages else None


def _ring(vectors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Average as a ring all-reduce in a type does: each vector is divided by their number, then they are added."""
    total = torch.zeros_like(vectors[0], dtype=dtype)
    for vector in vectors:
        total += vector.to(dtype) / len(vectors)
    return total.float()
