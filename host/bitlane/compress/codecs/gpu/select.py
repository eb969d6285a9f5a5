"""Selection by threshold on a GPU: every block counts, the counts are added up, every block writes."""

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
    """Places int64 [k] and values float32 [k] as `codecs.select.select` has them, on the device of `values`.

    values: float32 [n], contiguous. Waits for the device, which has to say how many there are.
    """
    blocks = triton.cdiv(len(values), _BLOCK)
    least = float(np.float32(threshold))
    counts = torch.zeros(blocks + 1, dtype=torch.int64, device=values.device)
    if blocks:
        _count[(blocks,)](values, counts, len(values), least, _BLOCK)
    ends = counts.cumsum(0)
    total = int(ends[-1])
    places = torch.empty(total, dtype=torch.int64, device=values.device)
    found = torch.empty(total, dtype=torch.float32, device=values.device)
    if total:
        _write[(blocks,)](values, ends, places, found, len(values), least, _BLOCK)
    return places, found


@triton.jit  # type: ignore[untyped-decorator]
def _count(values: tl.tensor, counts: tl.tensor, total: tl.tensor, least: tl.tensor, size: tl.constexpr) -> None:
    block = tl.program_id(0)
    places = block.to(tl.int64) * size + tl.arange(0, size)
    x = tl.load(values + places, mask=places < total, other=0.0)
    chosen = ((tl.abs(x) >= least) & (places < total)).to(tl.int32)
    tl.store(counts + block + 1, tl.sum(chosen, axis=0).to(tl.int64))


@triton.jit  # type: ignore[untyped-decorator]
def _write(
    values: tl.tensor,
    starts: tl.tensor,
    to: tl.tensor,
    found: tl.tensor,
    total: tl.tensor,
    least: tl.tensor,
    size: tl.constexpr,
) -> None:
    block = tl.program_id(0)
    places = block.to(tl.int64) * size + tl.arange(0, size)
    x = tl.load(values + places, mask=places < total, other=0.0)
    chosen = (tl.abs(x) >= least) & (places < total)
    at = tl.load(starts + block) + tl.cumsum(chosen.to(tl.int32), axis=0) - 1
    tl.store(to + at, places, mask=chosen)
    tl.store(found + at, x, mask=chosen)
