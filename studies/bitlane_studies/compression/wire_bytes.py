"""Compare the bytes that each compressor declares under DDP with those that the kernel counts at the socket.

    python -m bitlane_studies.compression.wire_bytes    payloads over 1 MiB
    python -m bitlane_studies.compression.wire_bytes --values 600000 --steps 200     many steps with buckets of 1 MB

Prints a table. The exit status is 1 if a guarantee does not hold: at most 1.02 times the declared bytes at the socket,
the volumes of `VOLUMES`, identical averages on all ranks, and no hang.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.sockets import bytes_at_rest
from bitlane.compress.ddp.attach import attach
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.support.text import align_columns

from ..command import run

LOG = logging.getLogger("bitlane.wire_bytes")
LARGE = 1 << 20  # bytes per step above which the guarantees on bytes apply
OVERHEAD = 1.02  # largest ratio of bytes at the socket to declared bytes
VOLUMES = {"qsgd:bits=8": 0.26, "qsgd:bits=4": 0.135, "efsign": 0.04}  # largest ratio to ring all-reduce in float32
MATRICES = 8
BUCKET_MB = 1


@dataclass(frozen=True)
class WireTrial:
    """The result of one rank and compressor.

    Attributes
    ----------
    declared_bytes : int
        Bytes of all steps that the compressor declares.
    socket_bytes : int
        Bytes of all steps that the kernel counts.
    volume : float
        Declared bytes divided by those of ring all-reduce in float32.
    seconds : float
        Duration of all steps.
    digest : str
        Hash of the last average.
    """

    declared_bytes: int
    socket_bytes: int
    volume: float
    seconds: float
    digest: str


class Matrices(nn.Module):
    """Matrices and a vector with about `values` values in total.

    The gradients of the matrices are the arguments of `forward`; that of the vector is 1.
    """

    def __init__(self, values: int):
        super().__init__()
        rows = max(8, round((values / MATRICES * 50) ** 0.5))
        columns = max(1, round(values / MATRICES / rows))
        self.matrices = nn.ParameterList([torch.zeros(rows, columns) for _ in range(MATRICES)])
        self.vector = nn.Parameter(torch.zeros(columns))

    def forward(self, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        pairs = zip(self.matrices, gradients, strict=True)
        total: torch.Tensor = sum(((matrix * gradient).sum() for matrix, gradient in pairs), self.vector.sum())
        return total


def run_rank(report: Callable[[str], None], texts: Sequence[str], values: int, steps: int) -> list[WireTrial]:
    """Run each compressor for a number of steps on one rank; report each when it is done."""
    rank = torch.distributed.get_rank()
    generator = torch.Generator().manual_seed(rank)
    gradients = [torch.randn(matrix.shape, generator=generator) for matrix in Matrices(values).matrices]
    trials = []
    for text in texts:
        trials.append(_run_compressor(text, Matrices(values), gradients, steps))
        report(text)
    return trials


def _run_compressor(text: str, model: Matrices, gradients: Sequence[torch.Tensor], steps: int) -> WireTrial:
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    with attach(ddp, parse_compressor(text)) as compression:  # its connections close here, not in a later trial
        torch.distributed.barrier()
        before, start = bytes_at_rest(), time.perf_counter()
        for step in range(steps):
            ddp.zero_grad()
            compression.observe(1.0 / (step + 1))
            ddp(gradients).backward()
        seconds = time.perf_counter() - start
        after = bytes_at_rest()
        torch.distributed.barrier()  # no rank closes while another one counts
    digest = blake2b(digest_size=8)
    for parameter in model.parameters():
        assert parameter.grad is not None
        digest.update(parameter.grad.numpy().tobytes())
    total = compression.stats.total
    return WireTrial(total.bytes_sent, after - before, total.ratio, seconds, digest.hexdigest())


def verdict(text: str, steps: int, ranks: Sequence[WireTrial]) -> str:
    """Return the guarantees of a compressor that do not hold, as text; empty if all hold."""
    violations = []
    for rank, trial in enumerate(ranks):
        large = trial.declared_bytes > LARGE * steps
        if large and trial.socket_bytes > OVERHEAD * trial.declared_bytes:
            violations.append(f"rank {rank} sends more bytes than declared")
        limit = next((volume for name, volume in VOLUMES.items() if text.startswith(name)), None)
        if large and limit is not None and trial.volume > limit:
            violations.append(f"rank {rank} exceeds the guaranteed volume")
        if trial.digest != ranks[0].digest:
            violations.append(f"rank {rank} has another average")
    return "; ".join(violations)


def table_row(text: str, steps: int, ranks: Sequence[WireTrial]) -> list[str]:
    """Return a row of the table: in each column the maximum over ranks."""
    ratio = max(trial.socket_bytes / trial.declared_bytes for trial in ranks)
    numbers = [
        f"{max(trial.declared_bytes for trial in ranks) / steps / 1e6:.3f}",
        f"{max(trial.socket_bytes for trial in ranks) / steps / 1e6:.3f}",
        f"{ratio:.4f}",
        f"{max(trial.volume for trial in ranks):.4f}",
        f"{max(trial.seconds for trial in ranks):.1f}",
    ]
    return [str(len(ranks)), text, *numbers, verdict(text, steps, ranks) or "holds"]


HEADINGS = ["ranks", "compressor", "declared MB/step", "socket MB/step", "ratio", "volume", "seconds", "guarantees"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.compression.wire_bytes", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add(
        "compressors",
        nargs="*",
        default=EXAMPLES,
        metavar="NAME[:SETTINGS]",
        help="compressors as in bitlane train-ddp --compress (default: one or more of every kind)",
    )
    add("--ranks", default="2,3,4,8", help="numbers of ranks, a list (default: %(default)s)")
    add("--values", type=int, default=10_000_000, help="values of the gradient (default: %(default)s)")
    add("--steps", type=int, default=2, help="steps with each compressor (default: %(default)s)")
    add(
        "--timeout",
        type=float,
        default=600,
        help="time limit for each number of ranks, in seconds (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    for text in arguments.compressors:
        parse_compressor(text)
    texts, steps, holds = list(arguments.compressors), arguments.steps, True
    for ranks in map(int, arguments.ranks.split(",")):
        LOG.info("running %d compressors on %d ranks", len(texts), ranks)
        by_rank = launch(
            run_rank, ranks, texts, arguments.values, steps, timeout=arguments.timeout, on_report=_on_report
        )
        rows = [table_row(text, steps, [rank[number] for rank in by_rank]) for number, text in enumerate(texts)]
        print(align_columns([HEADINGS, *rows], left=2), flush=True)
        holds = holds and all(line[-1] == "holds" for line in rows)
    return int(not holds)


def _on_report(rank: int, text: str) -> None:
    if rank == 0 and sys.stderr.isatty():
        print(f"{text} done", file=sys.stderr)


if __name__ == "__main__":
    run(main)
