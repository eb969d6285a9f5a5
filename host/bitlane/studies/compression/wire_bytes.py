"""Every compressor under DDP in real processes: what it says that it sends, what the kernel says, and that it ends.

    python -m bitlane.studies.compression.wire_bytes    payloads over 1 MiB: bytes declared, and at the socket
    python -m bitlane.studies.compression.wire_bytes --values 600000 --steps 200     many steps with buckets of 1 MB

Prints a table, and ends with status 1 where a promise does not hold: at the socket at most 1.02 of what is declared,
volumes as promised, the same average on all ranks, and no hang.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.sockets import acknowledged_bytes
from bitlane.compress.ddp.hook import DDPCompression
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

LARGE = 1 << 20  # promises of bytes are for steps that declare more
OVERHEAD = 1.02  # bytes at the socket to bytes declared, at most
VOLUMES = {"qsgd:bits=8": 0.26, "qsgd:bits=4": 0.135, "efsign": 0.04}  # of ring all-reduce, at most
MATRICES = 8
BUCKET_MB = 1


@dataclass(frozen=True)
class WireTrial:
    """A rank's share of a trial. Bytes are of all steps; `digest` is of the last average."""

    declared: int
    socket: int
    volume: float
    seconds: float
    digest: str


class Matrices(nn.Module):  # type: ignore[misc]  # torch has no types here
    """Parameters of about `values` values in all; their gradient is what `forward` is given, and a vector of ones."""

    def __init__(self, values: int):
        super().__init__()
        rows = max(8, round((values / MATRICES * 50) ** 0.5))
        columns = max(1, round(values / MATRICES / rows))
        self.matrices = nn.ParameterList([torch.zeros(rows, columns) for _ in range(MATRICES)])
        self.vector = nn.Parameter(torch.zeros(columns))

    def forward(self, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        pairs = zip(self.matrices, gradients, strict=True)
        return sum((matrix * gradient).sum() for matrix, gradient in pairs) + self.vector.sum()


def run_rank(report: Callable[[str], None], texts: Sequence[str], values: int, steps: int) -> list[WireTrial]:
    """One rank: each compressor for so many steps."""
    rank = torch.distributed.get_rank()
    generator = torch.Generator().manual_seed(rank)
    gradients = [torch.randn(matrix.shape, generator=generator) for matrix in Matrices(values).matrices]
    tried = []
    for text in texts:
        tried.append(_one(text, Matrices(values), gradients, steps))
        report(text)
    return tried


def _one(text: str, model: Matrices, gradients: Sequence[torch.Tensor], steps: int) -> WireTrial:
    ddp = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    compression = DDPCompression(parse_compressor(text))
    ddp.register_comm_hook(compression, DDPCompression.hook)
    torch.distributed.barrier()
    before, began = _settled(), time.perf_counter()
    for step in range(steps):
        ddp.zero_grad()
        compression.observe(1.0 / (step + 1))
        ddp(gradients).backward()
    seconds = time.perf_counter() - began
    after = _settled()
    digest = blake2b(digest_size=8)
    for parameter in model.parameters():
        digest.update(parameter.grad.numpy().tobytes())
    total = compression.stats.total
    return WireTrial(total.bytes_sent, after - before, total.ratio, seconds, digest.hexdigest())


def _settled() -> int:
    """Bytes acknowledged, once nothing is under way any more."""
    last, now = -1, acknowledged_bytes()
    while now != last:
        time.sleep(0.1)
        last, now = now, acknowledged_bytes()
    return now


def verdict(text: str, steps: int, ranks: Sequence[WireTrial]) -> str:
    """What does not hold of a compressor; nothing where all does."""
    wrong = []
    for rank, tried in enumerate(ranks):
        large = tried.declared > LARGE * steps
        if large and tried.socket > OVERHEAD * tried.declared:
            wrong.append(f"rank {rank} sends more than it says")
        promised = next((most for name, most in VOLUMES.items() if text.startswith(name)), None)
        if large and promised is not None and tried.volume > promised:
            wrong.append(f"rank {rank} sends too much")
        if tried.digest != ranks[0].digest:
            wrong.append(f"rank {rank} has another average")
    return "; ".join(wrong)


def row(text: str, steps: int, ranks: Sequence[WireTrial]) -> list[str]:
    """A line of the table: the rank that sends most, for each column."""
    over = max(tried.socket / tried.declared for tried in ranks)
    numbers = [
        f"{max(tried.declared for tried in ranks) / steps / 1e6:.3f}",
        f"{max(tried.socket for tried in ranks) / steps / 1e6:.3f}",
        f"{over:.4f}",
        f"{max(tried.volume for tried in ranks):.4f}",
        f"{max(tried.seconds for tried in ranks):.1f}",
    ]
    return [str(len(ranks)), text, *numbers, verdict(text, steps, ranks) or "holds"]


HEADINGS = ["ranks", "compressor", "declared MB/step", "socket MB/step", "ratio", "volume", "seconds", "promises"]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane.studies.compression.wire_bytes", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("compressors", nargs="*", default=EXAMPLES, help="see bitlane train-ddp --help (one of every kind)")
    add("--ranks", default="2,3,4,8", help="(%(default)s)")
    add("--values", type=int, default=10_000_000, help="of the gradient (%(default)s)")
    add("--steps", type=int, default=2, help="with each compressor (%(default)s)")
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
        found = launch(run_rank, ranks, texts, arguments.values, steps, timeout=arguments.timeout, on_report=_on_report)
        rows = [row(text, steps, [rank[number] for rank in found]) for number, text in enumerate(texts)]
        print(align_columns([HEADINGS, *rows], left=2), flush=True)
        holds = holds and all(line[-1] == "holds" for line in rows)
    return int(not holds)


def _on_report(rank: int, text: str) -> None:
    if rank == 0 and sys.stderr.isatty():
        print(f"{text} done", file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BitlaneError as error:
        sys.exit(f"error: {error}")
