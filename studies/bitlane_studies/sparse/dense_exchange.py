"""Two ways from the gradients of dense parameters on each worker to new weights on all: servers, and all-reduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.transport import TorchTransport
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRunner
from bitlane.compress.registry import parse_compressor
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.servers.steps import Step
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.servers.updates import join_dense, split_dense

SERVERS, PLAIN = "servers", "all-reduce"  # all other ways are all-reduce with a compressor, by its text

Arrays = Mapping[str, NDArray[np.float32]]


class Exchange(Protocol):
    """One worker's end of a way.

    Attributes
    ----------
    clock : int
        Steps that this worker has taken.
    """

    clock: int

    def exchange(self, gradients: Arrays) -> Arrays:
        """Take part in the step of a clock; return the weights that all workers have then, float32 by name.

        Raises
        ------
        BitlaneError, RuntimeError
            Another worker, or a server, did not answer.
        """
        ...


class ServerExchange:
    """Matrices on servers, with staleness 0: one optimizer step for each worker, in the order of the workers.

    Parameters
    ----------
    servers : TrainingServers
        With the name `rounds.worker_name(worker)`; a worker that comes again goes on behind its last step.
    worker : int
        Index of this worker.
    """

    def __init__(self, servers: TrainingServers, worker: int):
        self._servers, self._worker = servers, worker
        start = servers.resumption()
        self._number, self.clock = start.number, start.clock

    def exchange(self, gradients: Arrays) -> Arrays:
        """See `Exchange`."""
        self._servers.step(self._number, Step(self._worker, self.clock), [], dict(gradients), pack=False)
        self._number, self.clock = self._number + 1, self.clock + 1
        return self._servers.read(np.zeros(0, np.uint64), self.clock, whole=False).dense


class AllReduceExchange:
    """Matrices on each worker: one optimizer step with the mean of the workers' gradients.

    Parameters
    ----------
    spec : ModelSpec
    way : str
        `PLAIN`, for the sums of torch.distributed, or the text of a compressor (`registry.parse_compressor`).
    timeout : float
        Seconds that a worker waits for another. That of plain sums is the process group's.
    """

    def __init__(self, spec: ModelSpec, way: str, timeout: float):
        self.clock = 0
        self._matrices = SparseModel(spec).matrices
        self._runner: StepRunner | None = None
        if way != PLAIN:
            layout, at = [], 0
            for name in sorted(self._matrices):
                layout.append(ParameterSpan(at, self._matrices[name].shape))
                at = layout[-1].end
            compressor, transport, device = parse_compressor(way), TorchTransport(timeout=timeout), torch.device("cpu")
            self._runner = StepRunner(compressor, transport, AlphaBetaModel(), layout, device, Stats())

    def exchange(self, gradients: Arrays) -> Arrays:
        """See `Exchange`."""
        vector = torch.from_numpy(join_dense(gradients))
        if self._runner is None:
            dist.all_reduce(vector)
            vector /= dist.get_world_size()
        else:
            vector = self._runner.average(lambda: vector)
        for name, mean in split_dense(vector.numpy(), self._matrices).items():
            self._matrices[name].push(mean)
        self.clock += 1
        return {name: matrix.pull() for name, matrix in self._matrices.items()}
