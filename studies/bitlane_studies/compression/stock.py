"""Compare PowerSGD and LQ-SGD with PyTorch's own PowerSGD hook, hook against hook, in the same run.

python -m bitlane_studies.compression.stock        one thread, a gradient of 4096 x 4096, factors of rank 1, 4 and 16
python -m bitlane_studies.compression.stock --gpu  the same on a GPU

Times on a CPU are those of the processor. A single thread that sends nothing takes no longer, and other programs change
them less. On a GPU they run until its last kernel has ended.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as stock
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import TorchTransport
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.compressors.lowrank import LQSGD, PowerSGD
from bitlane.compress.ddp.attach import attach
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

from ..command import run

_CLOSED_GROUPS: list[Any] = []  # keeps destroyed process groups alive; see `single_process_group`
WARMUP_STEPS = 2  # not counted: they allocate memory
CPU = torch.device("cpu")


def step_seconds(rows: int, columns: int, rank: int, steps: int = 7) -> dict[str, float]:
    """Measure steps on one gradient [rows, columns] on a single process, which sends nothing.

    Both use error feedback and a warm start. The process must have no process group; the function
    creates one and destroys it.

    Parameters
    ----------
    rows, columns : int
        Shape of the gradient.
    rank : int
        Columns of the factors.
    steps : int, default: 7
        Measured steps of each implementation, in turns.

    Returns
    -------
    dict
        Median seconds of "PowerSGD" and "LQSGD".
    """
    with single_process_group():
        gradient = _gradient(rows, columns, CPU)
        averages = {
            "PowerSGD": _ours(PowerSGD(rank), gradient),
            "LQSGD": _ours(LQSGD(rank), gradient),
        }
        seconds: dict[str, list[float]] = {name: [] for name in averages}
        for step in range(WARMUP_STEPS + steps):
            for name, average in averages.items():
                values = gradient.clone()
                start = process_time()
                average(values, step)
                seconds[name].append(process_time() - start)
        return {name: float(np.median(times[WARMUP_STEPS:])) for name, times in seconds.items()}


def _gradient(rows: int, columns: int, device: torch.device) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)).to(device)


@contextmanager
def single_process_group(backend: str = "gloo") -> Iterator[None]:
    """Create a process group of only this process for the duration of the context.

    The object of the group is kept alive. The callbacks of PyTorch's hook hold it too, and if a gloo thread released
    the last reference, it would wait for itself and abort the process.
    """
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    _CLOSED_GROUPS.append(dist.group.WORLD)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _stock_state(rank: int) -> Any:
    state = stock.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=1)
    state.iter = state.start_powerSGD_iter  # earlier steps are uncompressed
    return state


def _ours(compressor: PowerSGD | LQSGD, gradient: Tensor) -> Callable[[Tensor, int], Any]:
    layout = [ParameterSpan(0, tuple(gradient.shape))]
    reducer = compressor.reducer(layout, Link(TorchTransport(), ""), AlphaBetaModel(), torch.device("cpu"))
    return lambda values, step: reducer.average(values.view(-1), step)


class _OneMatrix(nn.Module):
    """A model whose gradient is a given matrix, so that its backward pass computes little."""

    def __init__(self, gradient: Tensor):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(gradient))
        self.gradient = gradient

    def forward(self) -> Tensor:
        return (self.weight * self.gradient).sum()


def added_seconds(rows: int, columns: int, rank: int, steps: int = 7, device: torch.device = CPU) -> dict[str, float]:
    """Measure what a whole hook adds to a backward pass of DDP, on a single process, which sends nothing.

    Parameters
    ----------
    rows, columns, rank, steps
        As in `step_seconds`.
    device : torch.device, default: CPU
        The device of the gradient.

    Returns
    -------
    dict
        Median seconds over those of DDP without a hook: "stock" (PyTorch's hook), "PowerSGD" and "LQSGD".
    """
    with single_process_group("nccl" if device.type == "cuda" else "gloo"):
        gradient = _gradient(rows, columns, device)
        models = {
            name: DistributedDataParallel(_OneMatrix(gradient)) for name in ("plain", "stock", "PowerSGD", "LQSGD")
        }
        models["stock"].register_comm_hook(_stock_state(rank), stock.powerSGD_hook)
        ours = [attach(models[each.__name__], each(rank)) for each in (PowerSGD, LQSGD)]
        seconds: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(WARMUP_STEPS + steps):
            for name, model in models.items():
                model.zero_grad(set_to_none=False)
                loss = model()
                start = _clock(device)
                loss.backward()
                seconds[name].append(_clock(device) - start)
        for each in ours:
            each.close()
    medians = {name: float(np.median(times[WARMUP_STEPS:])) for name, times in seconds.items()}
    plain = medians.pop("plain")
    return {name: each - plain for name, each in medians.items()}


def _clock(device: torch.device) -> float:
    """Return the seconds of the processor; on a GPU those of the clock, after its last kernel."""
    if device.type == "cpu":
        return process_time()
    torch.cuda.synchronize(device)
    return perf_counter()


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table of `added_seconds` for three ranks of the factors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="measure on the GPU")
    options = parser.parse_args(argv)
    if options.gpu and not torch.cuda.is_available():
        raise BitlaneError("torch finds no GPU: run without --gpu")
    device = torch.device("cuda") if options.gpu else CPU
    torch.set_num_threads(1)
    table = [["rank", "PyTorch's hook, ms", "PowerSGD, ms", "LQ-SGD, ms", "PowerSGD / hook", "LQ-SGD / hook"]]
    for rank in (1, 4, 16):
        seconds = added_seconds(4096, 4096, rank, 25 if options.gpu else 7, device)
        table.append([f"{rank}", *(f"{1e3 * each:.2f}" for each in seconds.values())])
        table[-1] += [f"{seconds[name] / seconds['stock']:.3f}" for name in ("PowerSGD", "LQSGD")]
    print("milliseconds that a hook adds to the backward pass of DDP")
    print(align_columns(table))


if __name__ == "__main__":
    run(main)
