"""Measure the memory that each compressor needs beside plain DDP: `python -m bitlane_studies.compression.memory`.

The peak of the resident memory of a rank, over that of plain DDP, in bytes for each parameter. Each training has
processes of its own: 2 ranks, layers of 1024 x 1024, 3 steps of SGD. `state` is what the compressor keeps between
steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.launch import Report, launch
from bitlane.compress.ddp.attach import attach
from bitlane.compress.memory import resident_bytes, state_bytes
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.support.text import align_columns

from ..command import run

SIDE = 1024
RANKS = 2
PLAIN = "plain DDP"
IN_BFLOAT16 = (
    *("qsgd:bits=4,error_feedback=True,residual_dtype=bfloat16", "efsign:residual_dtype=bfloat16"),
    *("topk:density=0.05,residual_dtype=bfloat16", "micro:density=0.05,residual_dtype=bfloat16"),
)


def peak_bytes(report: Report, compress: str, layers: int, bucket_mb: float | None) -> tuple[int, int]:
    """Return the peak of this rank's resident memory since its model was made, and the state of the compressor."""
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(layers)))
    ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb)
    compression = None if compress == PLAIN else attach(ddp, parse_compressor(compress))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs = torch.randn(32, SIDE, generator=torch.Generator().manual_seed(dist.get_rank()))
    before = resident_bytes("VmRSS")
    for _ in range(3):
        optimizer.zero_grad()
        loss = ddp(inputs).square().mean()
        if compression is not None:
            compression.observe(loss)
        loss.backward()
        optimizer.step()
    state = 0 if compression is None else state_bytes(compression._steps)
    return resident_bytes("VmHWM") - before, state


def measured(compress: str, layers: int, bucket_mb: float | None) -> tuple[float, float]:
    """Return peak and state in bytes for each parameter, the medians over ranks."""
    by_rank = launch(peak_bytes, RANKS, compress, layers, bucket_mb)
    values = layers * SIDE * SIDE
    return median(peak for peak, _ in by_rank) / values, median(state for _, state in by_rank) / values


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.compression.memory", description=_SUMMARY)
    parser.add_argument("--layers", type=int, default=16, help="layers of 1024 x 1024 (default: %(default)s)")
    arguments = parser.parse_args(argv)
    rows = [["compressor", "peak over DDP", "one bucket", "state"]]
    one_bucket_mb = 8.0 * arguments.layers  # MB; twice the model
    plain = [measured(PLAIN, arguments.layers, bucket)[0] for bucket in (None, one_bucket_mb)]
    for name in (*EXAMPLES, *IN_BFLOAT16):
        several, state = measured(name, arguments.layers, None)
        one, _ = measured(name, arguments.layers, one_bucket_mb)
        rows.append([name, f"{several - plain[0]:.1f}", f"{one - plain[1]:.1f}", f"{state:.1f}"])
    print(f"bytes for each parameter; plain DDP takes {plain[0]:.1f}, in one bucket {plain[1]:.1f}")
    print(align_columns(rows, left=1))
    return 0


_SUMMARY = "Measure the memory that each compressor needs beside plain DDP."

if __name__ == "__main__":
    run(main)
