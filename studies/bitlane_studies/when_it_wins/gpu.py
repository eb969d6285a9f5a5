"""The same training on a GPU: `python -m bitlane_studies.when_it_wins.gpu`.

MNIST, 20 epochs, each batch size, in four ways: a loop of torch's calls; the calls of an epoch in a CUDA graph; a
Triton kernel that keeps the model in registers for all epochs, on float32 rows; and the same on packed codes of 4 bits.
Rows are on the GPU before. Without a GPU the program tells what it would run. Its loops and kernels are tested on a
processor; only the CUDA graph itself needs a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bitlane.support.text import align_columns
from bitlane_studies.command import run
from bitlane_studies.float_sgd import Floats, ScaledTable, loss, rate_for, steps_of

from .table import BATCHES, EPOCHS, mnist

CODES = 15  # the largest code of 4 bits
HEAD = ("batch", "way", "million rows/s", "20 epochs, s", "loss")


@dataclass(frozen=True)
class TorchTable:
    """A scaled table on a device of torch.

    Attributes
    ----------
    rows : float32 tensor [rows, m]
    labels : float32 tensor [rows]
    """

    rows: Tensor
    labels: Tensor

    @classmethod
    def of(cls, table: ScaledTable, device: str) -> TorchTable:
        """Copy a table to a device."""
        return cls(torch.from_numpy(table.rows).to(device), torch.from_numpy(table.labels).to(device))


@dataclass(frozen=True)
class PackedTable:
    """A table of 4-bit codes, rounded to the nearest of 16 levels between the least and the largest value of a column.

    Attributes
    ----------
    rows : uint8 tensor [rows, octets]
        Octet i has the codes of columns i (low bits) and i + octets.
    units, lows : float32 tensors [2 octets]
        A value is ``lows + code * units``; both are 0 for a column that only fills the last octet.
    labels : float32 tensor [rows]
    """

    rows: Tensor
    units: Tensor
    lows: Tensor
    labels: Tensor

    @classmethod
    def of(cls, table: TorchTable) -> PackedTable:
        """Round a table."""
        rows = torch.nn.functional.pad(table.rows, (0, table.rows.shape[1] % 2))
        lows, octets = rows.amin(0), rows.shape[1] // 2
        units = (rows.amax(0) - lows) / CODES
        codes = ((rows - lows) / units.where(units > 0, torch.ones_like(units))).round_().to(torch.uint8)
        return cls(codes[:, :octets] | codes[:, octets:] << 4, units, lows, table.labels)


def update(table: TorchTable, weights: Tensor, batch: int, step: Tensor) -> None:
    """Run an epoch: weights float32 [m], changed; step float32, learning rate over batch size."""
    for some, labels in zip(table.rows.split(batch), table.labels.split(batch), strict=True):
        residual = torch.mv(some, weights).sub_(labels)
        weights.sub_(torch.mv(some.T, residual).mul_(step))


def plain(table: TorchTable, batch: int, steps: Floats) -> Tensor:
    """Train in a loop of torch's calls, and return the weights, float32 [m]."""
    weights = table.rows.new_zeros(table.rows.shape[1])
    for step in torch.from_numpy(steps).to(weights.device):
        update(table, weights, batch, step)
    return weights


def graph(table: TorchTable, batch: int, steps: Floats) -> Callable[[], Tensor]:
    """Record an epoch as a CUDA graph, and return what trains by replaying it; elsewhere the calls themselves."""
    weights, step = table.rows.new_zeros(table.rows.shape[1]), table.rows.new_zeros(())
    there = torch.from_numpy(steps).to(weights.device)

    def epoch() -> None:
        update(table, weights, batch, step)

    replay = epoch
    if weights.is_cuda:
        few = TorchTable(table.rows[:batch], table.labels[:batch])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # loads cuBLAS, which a recording may not
            update(few, weights, batch, step)
        torch.cuda.current_stream().wait_stream(side)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            epoch()
        replay = recorded.replay

    def train() -> Tensor:
        weights.zero_()
        for each in there:
            step.copy_(each)
            replay()
        return weights

    return train


def persistent(table: TorchTable | PackedTable, batch: int, steps: Floats) -> Tensor:
    """Train by one launch of a kernel that keeps the model on the chip, and return the weights, float32 [m]."""
    from .kernel import TILE, WARPS, train_floats, train_packed, triton

    rows, columns = table.rows.shape
    sizes = {"batch": batch, "tile": TILE, "width": triton.next_power_of_2(columns), "num_warps": WARPS}
    there = torch.from_numpy(steps).to(table.rows.device)
    if isinstance(table, PackedTable):
        weights = torch.zeros_like(table.units)
        given = table.rows, table.units, table.lows, table.labels, weights, there
        train_packed[(1,)](*given, rows, columns, len(steps), **sizes)
        return weights
    weights = table.rows.new_zeros(columns)
    train_floats[(1,)](table.rows, table.labels, weights, there, rows, columns, len(steps), **sizes)
    return weights


def ways(table: TorchTable, batch: int, steps: Floats) -> dict[str, Callable[[], Tensor]]:
    """Return the trainings by name; each returns the weights, float32 [m or one more]."""
    packed = PackedTable.of(table)
    return {
        "loop of calls": lambda: plain(table, batch, steps),
        "CUDA graph of an epoch": graph(table, batch, steps),
        "persistent kernel, float32": lambda: persistent(table, batch, steps),
        "persistent kernel, 4 bits": lambda: persistent(packed, batch, steps),
    }


def lines(X: Floats, y: Floats, device: str, repeats: int) -> list[tuple[str, ...]]:
    """Return the table of all ways and batch sizes, without its head, for X [rows, n] and y [rows]."""
    scaled = ScaledTable.of(X, y)
    table = TorchTable.of(scaled, device)
    found: list[tuple[str, ...]] = []
    for batch in BATCHES:
        for name, train in ways(table, batch, steps_of(rate_for(X, batch), batch, EPOCHS)).items():
            seconds = []
            for _ in range(1 + repeats):
                begin = time.perf_counter()
                weights = train().cpu().numpy()  # waits for the device
                seconds.append(time.perf_counter() - begin)
            coef, intercept = scaled.model(weights[: scaled.rows.shape[1]])
            least = min(seconds[1:])
            cells = f"{EPOCHS * len(X) / least / 1e6:.2f}", f"{least:.3f}", f"{loss(X, y, coef, intercept):.4f}"
            found.append((str(batch), name, *cells))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or without a GPU what would run."""
    parser = argparse.ArgumentParser(description="Train MNIST on a GPU in four ways.")
    parser.add_argument("--repeats", type=int, default=5, help="trainings that count (default: %(default)s)")
    repeats = parser.parse_args(arguments).repeats
    if not torch.cuda.is_available():
        print(f"no GPU here: would train {EPOCHS} epochs of MNIST with batches of {', '.join(map(str, BATCHES))} rows")
        print("in a loop of calls, a CUDA graph of an epoch, and a persistent kernel on float32 and on 4 bits")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; rows on the GPU before")
    print(align_columns([HEAD, *lines(*mnist(), "cuda", repeats)], left=2))


if __name__ == "__main__":
    run(main)
