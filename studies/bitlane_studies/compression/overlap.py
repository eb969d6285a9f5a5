"""Measure the step of a network of 25 million parameters with and without overlap, beside DDP and PyTorch's own hooks.

python -m bitlane_studies.compression.overlap                          2 ranks on this machine's loopback
python -m bitlane_studies.compression.overlap --ranks 4 --link 1gbit   on emulated links (root, network namespaces)
python -m bitlane_studies.compression.overlap --gpu                    on the GPUs here, which ranks may share

Without a GPU the computing time is that of a device beside the host: the layers' gradients are small products, and each
layer sleeps a fixed time in the backward pass. So the processor is free for codecs, whatever the number of ranks. On a
GPU the layers compute the gradients of a batch, and gloo moves bytes over the host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as stock
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.emulated_links import emulate_links, parse_link
from bitlane.compress.collectives.launch import Report, launch
from bitlane.compress.ddp.attach import attach
from bitlane.compress.ddp.hook import DDPCompression
from bitlane.compress.registry import parse_compressor
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

from ..command import run

LAYERS, SIDE = 16, 1250  # 25 million parameters in matrices of 1250 x 1250
GPU_BATCH = 8192
BUCKET_MB, ONE_BUCKET = 4, 1000
NO_EXCHANGE = "DDP, no exchange"
STOCK = "DDP, PowerSGD hook, rank 4"  # with several buckets it does not end with gloo
WARMUP_STEPS, STEPS = 3, 5
OURS = ("qsgd:bits=4,error_feedback=True", "powersgd:rank=4", "topk:density=0.01")


class _Layer(torch.autograd.Function):
    """A layer whose backward pass takes a fixed time, of which the processor works on the gradient only."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, seconds: float) -> Tensor:
        context.save_for_backward(x, weight)
        context.seconds = seconds
        return x + x @ weight

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = context.saved_tensors
        end = time.perf_counter() + context.seconds
        results = gradient + gradient @ weight.T, x.T @ gradient
        time.sleep(max(0.0, end - time.perf_counter()))
        return *results, None


_layer: Callable[[Tensor, Tensor, float], Tensor] = _Layer.apply


class _Network(nn.Module):
    def __init__(self, compute: float, device: torch.device):
        super().__init__()
        torch.manual_seed(0)
        weights = [torch.randn(SIDE, SIDE) / SIDE for _ in range(LAYERS)]
        self.weights = nn.ParameterList(nn.Parameter(each.to(device)) for each in weights)
        self.seconds = compute / LAYERS

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = _layer(x, weight, self.seconds)
        return x


@dataclass(frozen=True)
class StepTime:
    """The median step of one way to average.

    Attributes
    ----------
    seconds : float
        Of forward and backward pass, with the exchange.
    hook : float
        Seconds of coding and sending, from `stats`; 0 for PyTorch's.
    """

    seconds: float
    hook: float = 0.0


def _plain(ddp: DistributedDataParallel) -> None:
    """Leave DDP as it is."""


def _no_exchange(ddp: DistributedDataParallel) -> None:
    """Leave every bucket as it is: what DDP itself takes."""
    ddp.register_comm_hook(None, lambda _, bucket: _completed(bucket.buffer()))  # DDP reads the types of a function


def _completed(buffer: Tensor) -> torch.futures.Future[Tensor]:
    future: torch.futures.Future[Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future


def _half(ddp: DistributedDataParallel) -> None:
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)


def _stock_powersgd(ddp: DistributedDataParallel) -> None:
    state = stock.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2, min_compression_rate=1)
    ddp.register_comm_hook(state, stock.powerSGD_hook)


def _bitlane(text: str, overlap: bool) -> Callable[[DistributedDataParallel], DDPCompression]:
    return lambda ddp: attach(ddp, parse_compressor(text), overlap=overlap)


def ways() -> dict[str, Callable[[DistributedDataParallel], DDPCompression | None]]:
    """Return what is compared: a function of each registers a hook."""
    ours = {
        f"{text.split(',')[0]}, overlap {'on' if overlap else 'off'}": _bitlane(text, overlap)
        for text in OURS
        for overlap in (False, True)
    }
    return {NO_EXCHANGE: _no_exchange, "DDP": _plain, "DDP, fp16 hook": _half, STOCK: _stock_powersgd, **ours}


def measure(report: Report, compute: float, gpu: bool) -> dict[str, StepTime]:
    """Measure all ways on this rank, one after the other; on a CPU the backward pass alone takes `compute` seconds."""
    torch.set_num_threads(1)
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count()) if gpu else torch.device("cpu")
    x, compute = torch.ones(GPU_BATCH if gpu else 1, SIDE, device=device) / SIDE, 0.0 if gpu else compute
    steps = {"alone": _measure_model(_Network(compute, device), x, None)}
    for name, register in ways().items():
        size = ONE_BUCKET if name == STOCK else BUCKET_MB
        ddp = DistributedDataParallel(_Network(compute, device), bucket_cap_mb=size)
        compression = register(ddp)
        with ExitStack() as stack:
            if compression is not None:
                stack.enter_context(compression)
            steps[name] = _measure_model(ddp, x, compression)
        report(name)
    return steps


def _measure_model(model: nn.Module, x: Tensor, compression: DDPCompression | None) -> StepTime:
    seconds, hook = [], []
    for _ in range(WARMUP_STEPS + STEPS):
        for each in model.parameters():
            each.grad = None
        dist.barrier()
        start = time.perf_counter()
        model(x).sum().backward()
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        seconds.append(time.perf_counter() - start)
        if compression is not None:
            hook.append(compression.stats.codec_seconds + compression.stats.communication_seconds)
    return StepTime(median(seconds[WARMUP_STEPS:]), median(hook[WARMUP_STEPS:]) if hook else 0.0)


def table(steps: dict[str, StepTime]) -> str:
    """Return the steps as text; the last column is the step over the larger of computing, and coding and sending.

    Computing is that in DDP without an exchange: DDP copies gradients to its buckets and back.
    """
    computing = steps[NO_EXCHANGE].seconds
    cells = [["average", "step, ms", "coding and sending, ms", "step / max"]]
    for name, each in steps.items():
        ratio = f"{each.seconds / max(computing, each.hook):.2f}" if each.hook else ""
        cells.append([name, f"{1e3 * each.seconds:.0f}", f"{1e3 * each.hook:.0f}" if each.hook else "", ratio])
    return align_columns(cells, left=1)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table for a link and a number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="number of processes (default 2)")
    parser.add_argument("--link", help="such as 100mbit or 1gbit,0.5ms (default: the loopback)")
    parser.add_argument("--compute", type=float, default=0.4, help="seconds of the backward pass alone (default 0.4)")
    parser.add_argument("--gpu", action="store_true", help="compute on the GPU, as fast as it can")
    options = parser.parse_args(argv)
    if options.gpu and not torch.cuda.is_available():
        raise BitlaneError("torch finds no GPU: run without --gpu")
    with ExitStack() as stack:
        enter, where = None, "loopback"
        if options.link:
            links = stack.enter_context(emulate_links(options.ranks, parse_link(options.link)))
            enter, where = links.enter, f"{options.link}, {links.description}"
        ranks = launch(measure, options.ranks, options.compute, options.gpu, enter=enter, timeout=1800)
    print(f"{options.ranks} ranks, {where}; rank 0, medians of {STEPS} steps")
    print(table(ranks[0]))


if __name__ == "__main__":
    run(main)
