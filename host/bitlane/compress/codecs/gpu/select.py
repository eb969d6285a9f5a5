"""Selection by threshold on a GPU: each block counts, a prefix sum gives the offsets, each block writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

_BLOCK = 1024


def select(values: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Select as `codecs.select.select` does, on the device of the contiguous float32 [n] `values`.

    Waits for the device, because the number of selected values sets the size of the result.

    Returns
    -------
    indices : int64 [k]
    values : float32 [k]
    """
    blocks = triton.cdiv(len(values), _BLOCK)
    least = float(np.float32(threshold))
    counts = torch.zeros(blocks + 1, dtype=torch.int64, device=values.device)
    if blocks:
        _count[(blocks,)](values, counts, len(values), least, _BLOCK)
    ends = counts.cumsum(0)
    total = int(ends[-1])
    indices = torch.empty(total, dtype=torch.int64, device=values.device)
    selected = torch.empty(total, dtype=torch.float32, device=values.device)
    if total:
        _write[(blocks,)](values, ends, indices, selected, len(values), least, _BLOCK)
    return indices, selected


@triton.jit  # type: ignore[untyped-decorator]
def _count(values: tl.tensor, counts: tl.tensor, total: tl.tensor, least: tl.tensor, size: tl.constexpr) -> None:
    block = tl.program_id(0)
    indices = block.to(tl.int64) * size + tl.arange(0, size)
    x = tl.load(values + indices, mask=indices < total, other=0.0)
    chosen = ((tl.abs(x) >= least) & (indices < total)).to(tl.int32)
    tl.store(counts + block + 1, tl.sum(chosen, axis=0).to(tl.int64))


@triton.jit  # type: ignore[untyped-decorator]
def _write(
    values: tl.tensor,
    starts: tl.tensor,
    to: tl.tensor,
    selected: tl.tensor,
    total: tl.tensor,
    least: tl.tensor,
    size: tl.constexpr,
) -> None:
    block = tl.program_id(0)
    indices = block.to(tl.int64) * size + tl.arange(0, size)
    x = tl.load(values + indices, mask=indices < total, other=0.0)
    chosen = (tl.abs(x) >= least) & (indices < total)
    at = tl.load(starts + block) + tl.cumsum(chosen.to(tl.int32), axis=0) - 1
    tl.store(to + at, indices, mask=chosen)
    tl.store(selected + at, x, mask=chosen)
