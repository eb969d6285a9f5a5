"""Kernels for a GPU that train all epochs in one launch, with the model in registers: float32 rows, and packed codes.

One block of threads takes all batches in order, because a wait of all blocks for one another costs microseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

TILE = 16  # rows that a block reads at once
WARPS = 16


@triton.jit  # type: ignore[untyped-decorator]
def train_floats(  # noqa: PLR0913  # a kernel has no objects
    rows: tl.tensor,
    labels: tl.tensor,
    weights: tl.tensor,
    steps: tl.tensor,
    count: tl.tensor,
    columns: tl.tensor,
    epochs: tl.tensor,
    batch: tl.constexpr,
    tile: tl.constexpr,
    width: tl.constexpr,
) -> None:
    """Train on float32 `rows` [count, columns]; `width` is a power of two of at least `columns`."""
    lanes = tl.arange(0, width)
    inside = lanes < columns
    model = tl.zeros((width,), tl.float32)
    for epoch in range(0, epochs):
        step = tl.load(steps + epoch)
        for start in range(0, count, batch):
            stop = tl.minimum(start + batch, count)
            gradient = tl.zeros((width,), tl.float32)
            for first in range(start, stop, tile):
                at = first + tl.arange(0, tile)
                there = at < stop
                places = at.to(tl.int64)[:, None] * columns + lanes[None, :]
                x = tl.load(rows + places, mask=there[:, None] & inside[None, :], other=0.0)
                residual = tl.sum(x * model[None, :], axis=1) - tl.load(labels + at, mask=there, other=0.0)
                gradient += tl.sum(x * residual[:, None], axis=0)
            model -= step * gradient
    tl.store(weights + lanes, model, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def train_packed(  # noqa: PLR0913  # a kernel has no objects
    rows: tl.tensor,
    units: tl.tensor,
    lows: tl.tensor,
    labels: tl.tensor,
    weights: tl.tensor,
    steps: tl.tensor,
    count: tl.tensor,
    octets: tl.tensor,
    epochs: tl.tensor,
    batch: tl.constexpr,
    tile: tl.constexpr,
    width: tl.constexpr,
) -> None:
    """Train on packed `rows`, uint8 [count, octets]: octet i has the 4-bit codes of feature i and of feature
    i + `octets`. A value is ``lows + code * units`` of its feature.
    """
    lanes = tl.arange(0, width)
    inside = lanes < octets
    unit_a = tl.load(units + lanes, mask=inside, other=0.0)
    unit_b = tl.load(units + octets + lanes, mask=inside, other=0.0)
    low_a = tl.load(lows + lanes, mask=inside, other=0.0)
    low_b = tl.load(lows + octets + lanes, mask=inside, other=0.0)
    model_a = tl.zeros((width,), tl.float32)
    model_b = tl.zeros((width,), tl.float32)
    for epoch in range(0, epochs):
        step = tl.load(steps + epoch)
        for start in range(0, count, batch):
            stop = tl.minimum(start + batch, count)
            gradient_a = tl.zeros((width,), tl.float32)
            gradient_b = tl.zeros((width,), tl.float32)
            for first in range(start, stop, tile):
                at = first + tl.arange(0, tile)
                there = at < stop
                places = at.to(tl.int64)[:, None] * octets + lanes[None, :]
                codes = tl.load(rows + places, mask=there[:, None] & inside[None, :], other=0)
                a = low_a[None, :] + (codes & 15).to(tl.float32) * unit_a[None, :]
                b = low_b[None, :] + (codes >> 4).to(tl.float32) * unit_b[None, :]
                scores = tl.sum(a * model_a[None, :] + b * model_b[None, :], axis=1)
                residual = tl.where(there, scores - tl.load(labels + at, mask=there, other=0.0), 0.0)
                gradient_a += tl.sum(a * residual[:, None], axis=0)
                gradient_b += tl.sum(b * residual[:, None], axis=0)
            model_a -= step * gradient_a
            model_b -= step * gradient_b
    tl.store(weights + lanes, model_a, mask=inside)
    tl.store(weights + octets + lanes, model_b, mask=inside)
