"""How fast codecs are here, beside a plain copy of the same tensor in the same run: `bitlane bench-compress`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from bitlane.compress.codecs import linear
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.select import select
from bitlane.compress.collectives.averaging import Quantizer
from bitlane.compress.compressors.dense import LinearQuantizer, SignQuantizer
from bitlane.errors import BitlaneError, DataError
from bitlane.support.text import align_columns

Work = Callable[[], object]

_LEAST = 4 << 20  # bytes that a measurement goes through; a smaller tensor is coded again and again
_RESIDUAL = 0.1  # of the values' spread, at the start
_SEED = 1


@dataclass(frozen=True)
class CodecSpeed:
    """An operation measured.

    Attributes
    ----------
    size: bytes of the float32 tensor.
    seconds: median.
    copies: how many times the speed of `Tensor.copy_`.
    bytes_a_value: of a body; of places as int64 and values for a selection.
    error: norm of what the codes do not say, over that of the values; None where nothing is coded.
    """

    what: str
    size: int
    seconds: float
    copies: float
    bytes_a_value: float | None
    error: float | None


def parse_codec(name: str) -> tuple[str, float]:
    """A codec's name and its bits or density: "sign", "linear-4", "select-0.01"; DataError for any other."""
    kind, _, number = name.partition("-")
    try:
        if kind == "sign" and not number:
            return kind, 1
        if kind == "linear" and int(number) in linear.BITS:
            return kind, int(number)
        if kind == "select" and 0 < float(number) < 1:
            return kind, float(number)
    except ValueError:
        pass
    raise DataError(f"codec {name!r}: give sign, linear-2 to linear-8, or select- and a density such as select-0.01")


def bench(
    names: Sequence[str],
    sizes: Sequence[int],
    threads: int,
    repeat: int,
    gpu: bool,
    done: Callable[[], object] = lambda: None,
) -> list[CodecSpeed]:
    """Rows of every codec of `names` for tensors of normal values of so many bytes each.

    Repetitions go round: all operations once, and then again, so that a machine's bad moment meets all alike.

    Parameters
    ----------
    threads: of `copy_`; the codecs take one.
    done: called after each codec at each size.

    Raises
    ------
    DataError: a name that `parse` does not know.
    BitlaneError: a GPU is asked for, and there is none; no memory.
    """
    codecs = [parse_codec(name) for name in names]
    if gpu and not torch.cuda.is_available():
        raise BitlaneError("no GPU that torch can use: leave --gpu out")
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


def table(rows: Sequence[CodecSpeed]) -> str:
    """Rows as text: GB/s are those of the float32 tensor, read or written."""
    cells = [["operation", "MiB", "GB/s", "of copy_", "bytes a value", "error"]]
    for row in rows:
        numbers = ["-" if each is None else f"{each:.4f}" for each in (row.bytes_a_value, row.error)]
        speed = f"{row.size / row.seconds / 1e9:.2f}"
        cells.append([row.what, f"{row.size / 2**20:g}", speed, f"{row.copies:.2f}", *numbers])
    return align_columns(cells)


def _rows(name: str, kind: str, number: float, size: int, repeat: int, device: torch.device) -> Iterator[CodecSpeed]:
    try:
        values = torch.randn(size // 4, generator=torch.Generator().manual_seed(_SEED)).to(device)
        copy = torch.empty_like(values)
    except RuntimeError as reason:
        raise BitlaneError(f"no memory for tensors of {size / 2**20:g} MiB: give a smaller size") from reason
    work: dict[str, Work] = {"copy_": lambda: copy.copy_(values)}
    share, error = None, None
    if kind == "select":
        threshold = float(torch.quantile(values[: 1 << 20].abs(), 1 - number))
        work[name] = lambda: _select(values, threshold)
        share = 12 * len(_select(values, threshold)[0]) / len(values)
    else:
        quantizer: Quantizer = SignQuantizer() if kind == "sign" else LinearQuantizer(int(number), False)
        random: Quantizer = SignQuantizer() if kind == "sign" else LinearQuantizer(int(number), True)
        groups = Groups.of(len(values))
        body, out = quantizer.encode(values, groups, None, 0), torch.empty_like(values)
        residual = _RESIDUAL * torch.randn_like(values)
        quantizer.decode(body, groups, out, False)
        share, error = len(body) / len(values), float((out - values).norm() / values.norm())
        drawn = "encode, feedback" if kind == "sign" else "encode at random, feedback"
        work[f"{name} encode"] = lambda: quantizer.encode(values, groups, None, 0)
        work[f"{name} {drawn}"] = lambda: random.encode(values, groups, residual, _SEED)
        work[f"{name} decode"] = lambda: quantizer.decode(body, groups, out, False)
        work[f"{name} decode and add"] = lambda: quantizer.decode(body, groups, out, True)
    seconds = _measured(list(work.values()), max(1, _LEAST // size), repeat, device)
    for what, each in list(zip(work, seconds, strict=True))[1:]:
        yield CodecSpeed(what, size, each, seconds[0] / each, share, error)


def _select(values: Tensor, threshold: float) -> tuple[Any, Any]:
    if values.is_cuda:
        on_gpu: tuple[Any, Any] = import_module("..codecs.gpu.select", __package__).select(values, threshold)
        return on_gpu
    return select(values.numpy(), threshold)


def _measured(work: Sequence[Work], times: int, repeat: int, device: torch.device) -> list[float]:
    """Median seconds of each; the first round, which compiles, does not count."""
    rounds = [[_seconds(each, times, device) for each in work] for _ in range(repeat + 1)]
    return [median(each) for each in zip(*rounds[1:], strict=True)]


def _seconds(work: Work, times: int, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    begin = perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (perf_counter() - begin) / times
