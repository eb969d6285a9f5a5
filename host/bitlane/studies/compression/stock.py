"""PowerSGD beside the communication hook that comes with PyTorch: seconds of a step of both, in the same run.

python -m bitlane.studies.compression.stock        one thread, a gradient of 4096 x 4096, ranks 1, 4 and 16
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as stock

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import TorchTransport
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.compressors.lowrank import LQSGD, PowerSGD
from bitlane.support.text import align_columns

_LEFT: list[Any] = []  # process groups that were left
WARM = 2  # steps that are not counted: memory is new to them


def step_seconds(rows: int, columns: int, rank: int, steps: int = 7) -> dict[str, float]:
    """Median seconds of a step on one gradient [rows, columns], of "stock", "PowerSGD" and "LQSGD" in turns.

    One rank, which sends nothing, with as many threads as torch has; all three keep residuals and start warm. Needs a
    process without a process group, and leaves none.
    """
    with single_process_group():
        gradient = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
        ways = {
            "stock": _stock(rank),
            "PowerSGD": _ours(PowerSGD(rank), gradient),
            "LQSGD": _ours(LQSGD(rank), gradient),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for step in range(WARM + steps):
            for name, average in ways.items():
                values = gradient.clone()
                begun = perf_counter()
                average(values, step)
                seconds[name].append(perf_counter() - begun)
        return {name: float(np.median(found[WARM:])) for name, found in seconds.items()}


@contextmanager
def single_process_group() -> Iterator[None]:
    """A process group of this process alone.

    The group's object stays: the stock hook's callbacks hold it too, and where one of gloo's threads is the last to let
    go of it, that thread waits for itself and the process is aborted.
    """
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    _LEFT.append(dist.group.WORLD)
    try:
        yield
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class _Bucket:
    """What the stock hook asks of a bucket, here with one parameter."""

    gradient: Tensor

    def buffer(self) -> Tensor:
        return self.gradient.view(-1)

    def gradients(self) -> list[Tensor]:
        return [self.gradient]

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True


def _stock(rank: int) -> Callable[[Tensor, int], Any]:
    state = stock.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=1)
    state.iter = state.start_powerSGD_iter  # the steps before average without compression
    return lambda gradient, step: stock.powerSGD_hook(state, _Bucket(gradient)).wait()


def _ours(compressor: PowerSGD | LQSGD, gradient: Tensor) -> Callable[[Tensor, int], Any]:
    layout = [ParameterSpan(0, tuple(gradient.shape))]
    reducer = compressor.reducer(layout, Link(TorchTransport(), ""), AlphaBetaModel(), torch.device("cpu"))
    return lambda values, step: reducer.average(values.view(-1), step)


def main() -> None:
    """Print what `step_seconds` finds."""
    torch.set_num_threads(1)
    table = [["rank", "PyTorch's hook, ms", "PowerSGD, ms", "LQ-SGD, ms", "PowerSGD / hook"]]
    for rank in (1, 4, 16):
        seconds = step_seconds(4096, 4096, rank)
        table.append([f"{rank}", *(f"{1e3 * each:.1f}" for each in seconds.values())])
        table[-1].append(f"{seconds['PowerSGD'] / seconds['stock']:.3f}")
    print(align_columns(table))


if __name__ == "__main__":
    main()
