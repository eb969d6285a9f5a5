"""Measure the speed of gradient codecs, relative to a copy of the same tensor: `bitlane bench-compress`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from bitlane.compress.codecs import linear, tensors
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.select import select
from bitlane.compress.collectives.averaging import Quantizer
from bitlane.compress.compressors.factors import LogQuantizer
from bitlane.compress.compressors.quantizers import LinearQuantizer, SignQuantizer
from bitlane.compress.compressors.shares import density_count
from bitlane.errors import BitlaneError, DataError
from bitlane.support.text import align_columns

Work = Callable[[], object]

_MIN_BYTES = 4 << 20  # bytes per measurement; the operation repeats on a smaller tensor
_RESIDUAL = 0.1  # initial standard deviation of the residual, relative to that of the values
_SEED = 1
_ALPHA = 10.0  # of logarithmic levels


@dataclass(frozen=True)
class CodecSpeed:
    """The speed of one operation.

    Attributes
    ----------
    operation : str
        Name of the operation.
    size : int
        Bytes of the float32 tensor.
    seconds : float
        Median duration.
    relative_to_copy : float
        Speed divided by that of `Tensor.copy_`.
    bytes_per_value : float or None
        Bytes of the body per value; for a selection by threshold those of int64 indices and float32 values.
    relative_error : float or None
        Norm of the quantization error divided by that of the values; None for selections.
    """

    operation: str
    size: int
    seconds: float
    relative_to_copy: float
    bytes_per_value: float | None
    relative_error: float | None


def parse_codec(name: str) -> tuple[str, float]:
    """Return a codec and its bits or density from a name such as "sign", "linear-4" or "select-0.01".

    Raises
    ------
    DataError
        If the name has another form.
    """
    kind, _, number = name.partition("-")
    try:
        if kind == "sign" and not number:
            return kind, 1
        if kind in ("linear", "log") and int(number) in linear.BITS:
            return kind, int(number)
        if kind in ("select", "top") and 0 < float(number) < 1:
            return kind, float(number)
    except ValueError:
        pass
    raise DataError(
        f"unknown codec {name!r}: give sign, linear-2 to linear-8, log-2 to log-8, or select-DENSITY or top-DENSITY, "
        "such as select-0.01"
    )


def measure_codecs(
    names: Sequence[str],
    sizes: Sequence[int],
    threads: int,
    repeat: int,
    gpu: bool,
    done: Callable[[], object] = lambda: None,
) -> list[CodecSpeed]:
    """Measure codecs on tensors of normally distributed values.

    Each repetition runs all operations of a codec once, so that disturbances affect all of them alike.

    Parameters
    ----------
    names : sequence of str
        Codecs as `parse_codec` takes them.
    sizes : sequence of int
        Sizes of the tensors, in bytes.
    threads : int
        Threads of `copy_`; the codecs use one.
    repeat : int
        Number of measurements, of which the median is taken.
    gpu : bool
        Measure on the GPU.
    done : callable
        Called after each codec at each size.

    Returns
    -------
    list of CodecSpeed
        The operations of each codec at each size.

    Raises
    ------
    DataError
        If a codec is unknown.
    BitlaneError
        If there is no GPU or not enough memory.
    """
    codecs = [parse_codec(name) for name in names]
    if gpu and not torch.cuda.is_available():
        raise BitlaneError("torch finds no GPU: run without --gpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows: list[CodecSpeed] = []
        for size in sizes:
            for name, (kind, number) in zip(names, codecs, strict=True):
                rows += _rows(name, kind, number, size, repeat, torch.device("cuda" if gpu else "cpu"))
                done()
    finally:
        torch.set_num_threads(before)
    return rows


def speed_table(speeds: Sequence[CodecSpeed]) -> str:
    """Format speeds as a table; GB/s refer to the float32 tensor that is read or written."""
    cells = [["operation", "MiB", "GB/s", "of copy_", "bytes/value", "error"]]
    for row in speeds:
        numbers = ["-" if each is None else f"{each:.4f}" for each in (row.bytes_per_value, row.relative_error)]
        speed = f"{row.size / row.seconds / 1e9:.2f}"
        cells.append([row.operation, f"{row.size / 2**20:g}", speed, f"{row.relative_to_copy:.2f}", *numbers])
    return align_columns(cells)


def _rows(name: str, kind: str, number: float, size: int, repeat: int, device: torch.device) -> Iterator[CodecSpeed]:
    try:
        values = torch.randn(size // 4, generator=torch.Generator().manual_seed(_SEED)).to(device)
        copy = torch.empty_like(values)
    except RuntimeError as reason:
        raise BitlaneError(f"not enough memory for tensors of {size / 2**20:g} MiB: give a smaller --size") from reason
    work: dict[str, Work] = {"copy_": lambda: copy.copy_(values)}
    share, error = None, None
    if kind == "select":
        threshold = float(torch.quantile(values[: 1 << 20].abs(), 1 - number))
        work[name] = lambda: _select(values, threshold)
        share = 12 * len(_select(values, threshold)[0]) / len(values)
    elif kind == "top":
        sent = _top(values, density_count(number, len(values)))
        share = len(sent) / len(values)
        work[f"{name} select and encode"] = lambda: _top(values, density_count(number, len(values)))
        work[f"{name} decode"] = lambda: tensors.decode(sent, len(values), device)
    else:
        quantizer, stochastic = _quantizers(kind, int(number))
        groups = Groups.of(len(values))
        body, out = quantizer.encode(values, groups, None, 0), torch.empty_like(values)
        residual = _RESIDUAL * torch.randn_like(values)
        quantizer.decode(body, groups, out, False)
        share, error = len(body) / len(values), float((out - values).norm() / values.norm())
        with_feedback = "encode stochastically, feedback" if kind == "linear" else "encode, feedback"
        work[f"{name} encode"] = lambda: quantizer.encode(values, groups, None, 0)
        work[f"{name} {with_feedback}"] = lambda: stochastic.encode(values, groups, residual, _SEED)
        work[f"{name} decode"] = lambda: quantizer.decode(body, groups, out, False)
        work[f"{name} decode and add"] = lambda: quantizer.decode(body, groups, out, True)
    seconds = _measured(list(work.values()), max(1, _MIN_BYTES // size), repeat, device)
    for operation, each in list(zip(work, seconds, strict=True))[1:]:
        yield CodecSpeed(operation, size, each, seconds[0] / each, share, error)


def _quantizers(kind: str, bits: int) -> tuple[Quantizer, Quantizer]:
    """Return the quantizer of a codec, and the one that rounds at random, or the same if it does not."""
    if kind == "linear":
        return LinearQuantizer(bits, False), LinearQuantizer(bits, True)
    same: Quantizer = SignQuantizer() if kind == "sign" else LogQuantizer(bits, _ALPHA)
    return same, same


def _top(values: Tensor, count: int) -> Tensor:
    indices = tensors.largest(values, count)
    return tensors.encode(indices, values[indices], len(values))[0]


def _select(values: Tensor, threshold: float) -> tuple[Any, Any]:
    if values.is_cuda:
        on_gpu: tuple[Any, Any] = import_module("bitlane.compress.codecs.gpu.select").select(values, threshold)
        return on_gpu
    return select(values.numpy(), threshold)


def _measured(work: Sequence[Work], times: int, repeat: int, device: torch.device) -> list[float]:
    """Return the median seconds of each operation, without the first round, which compiles."""
    rounds = [[_seconds(each, times, device) for each in work] for _ in range(repeat + 1)]
    return [median(each) for each in zip(*rounds[1:], strict=True)]


def _seconds(work: Work, times: int, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (perf_counter() - start) / times
