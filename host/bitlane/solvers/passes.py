"""One read of coded rows for many linear models: their losses, slopes and gradients. The C code is in `passes.c`."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CodedRows, Codes, Floats
from bitlane.support.c_library import LibraryError, load_library

from .losses import KINDS, SmoothLoss
from .reference_pass import (
    GROUP,
    LANES,
    SUMS,
    TILE,
    Singles,
    block_gradients,
    block_scores,
    conjugate,
    group_sums,
    of_loss,
)

SOURCE = Path(__file__).with_name("passes.c")

_logger = logging.getLogger(__name__)


class PassArguments(ctypes.Structure):
    """The arguments of a pass over a block, as `struct pass` in `passes.c`."""

    _fields_ = (
        ("codes", ctypes.c_void_p),
        ("rows", ctypes.c_ssize_t),
        ("columns", ctypes.c_ssize_t),
        ("models", ctypes.c_ssize_t),
        ("loss", ctypes.c_ssize_t),
        ("width", ctypes.c_float),
        ("reaches", ctypes.c_void_p),
        ("certify", ctypes.c_ssize_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("row_weights", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("scaled", ctypes.c_void_p),
        ("scores", ctypes.c_void_p),
        ("curvatures", ctypes.c_void_p),
        ("tile", ctypes.c_void_p),
        ("slopes", ctypes.c_void_p),
        ("gradients", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
    )


@dataclass(frozen=True, eq=False)
class PassSums:
    """What a pass found for each model, as sums over the rows with their weights.

    Attributes
    ----------
    losses, slopes : float64 arrays [models]
    sizes : float64 array [models]
        Of the absolute slopes; with a certificate, of the conjugates of the loss.
    gradients : float64 array [models, m]
        Of the losses by the weights of the codes.
    """

    losses: Floats
    slopes: Floats
    sizes: Floats
    gradients: Floats


@dataclass(frozen=True, eq=False)
class PassModels:
    """Linear models in units of codes: the score of a row is ``bias + weights @ codes``, and an offset of the row.

    Attributes
    ----------
    weights : float64 array [models, m]
        Rounded to float32 where they are used; so are the others.
    bias : float64 array [models]
    targets : sequence of float32 arrays [rows]
        One a model; -1 and 1 but for squares.
    row_weights : sequence of float32 arrays [rows], optional
        One a model; by default all are 1.
    offsets : sequence of float32 arrays [rows], optional
        One a model, added to its scores.
    reaches : float64 array [models], optional
        Of hinge: the margins around 1 over which the curvature is ``1 / reach``; by default the width of the smooth
        part.
    """

    weights: Floats
    bias: Floats
    targets: Sequence[Singles]
    row_weights: Sequence[Singles] | None = None
    offsets: Sequence[Singles] | None = None
    reaches: Floats | None = None


@dataclass(frozen=True, eq=False)
class RowOutputs:
    """Where a pass writes numbers of rows; None is not written.

    Attributes
    ----------
    scores, curvatures : sequences of float32 arrays [rows], optional
        One a model. Curvatures are second derivatives of the loss by the score, times the weight of the row.
    kept : int array, optional
        Numbers of rows, rising, whose codes are copied to `kept_codes`.
    kept_codes : int8 array [kept, m], optional
    """

    scores: Sequence[Singles] | None = None
    curvatures: Sequence[Singles] | None = None
    kept: NDArray[np.intp] | None = None
    kept_codes: Codes | None = None


def run_pass(
    rows: CodedRows,
    models: PassModels,
    smooth_loss: SmoothLoss,
    outputs: RowOutputs | None = None,
    certificate: Floats | None = None,
    bits: int | None = None,
    threads: int = 1,
) -> PassSums:
    """Read all rows once.

    The result has the same bits with any number of threads, any vector instructions and without a compiler, for the
    same blocks of rows.

    Parameters
    ----------
    rows : CodedRows
    models : PassModels
    smooth_loss : SmoothLoss
    outputs : RowOutputs, optional
    certificate : float array [models, 3], optional
        For a duality gap: factors of slopes above 0 and below 0, and what is then added to each slope. The slopes in
        the result are those; the losses are of hinge without smoothing; and the conjugates are taken.
    bits : int, optional
        Of the codes; by default all that the table has.
    threads : int, default=1

    Returns
    -------
    PassSums
    """
    outputs = outputs or RowOutputs()
    columns = rows.shape[1]
    padded = columns + -columns % LANES
    weights = np.zeros((len(models.weights), padded), np.float32)
    weights[:, :columns] = models.weights
    scaled = np.zeros((len(weights), 3), np.float32)
    if certificate is not None:
        scaled[:] = certificate
    reaches = np.full(len(weights), smooth_loss.width, np.float32)
    if models.reaches is not None:
        reaches[:] = models.reaches
    numbers = _Numbers(weights, np.asarray(models.bias, np.float32), scaled, reaches, certificate is not None)
    kernels = c_passes()
    made = _NumpyPass if kernels is None else partial(_CompiledPass, kernels, threads)
    one_pass = made(smooth_loss, numbers, models, outputs)
    totals, sums, done = np.zeros(weights.shape), np.zeros((len(weights), SUMS)), 0
    with one_pass:
        for first, codes in rows.blocks(bits):
            sums_of_groups = one_pass.add_block(first, codes, totals)
            for each in sums_of_groups:
                sums += each
            if outputs.kept is not None and outputs.kept_codes is not None:
                end = int(np.searchsorted(outputs.kept, first + len(codes)))
                np.take(codes, outputs.kept[done:end] - first, axis=0, out=outputs.kept_codes[done:end])
                done = end
    return PassSums(sums[:, 1], sums[:, 0], sums[:, 2], totals[:, :columns])


class _Numbers(NamedTuple):
    """Of all models, in float32 and C order."""

    weights: Singles
    bias: Singles
    scaled: Singles
    reaches: Singles
    certify: bool


class _NumpyPass:
    """The blocks of a pass by numpy."""

    def __init__(self, smooth_loss: SmoothLoss, numbers: _Numbers, models: PassModels, outputs: RowOutputs):
        self.loss, self.numbers, self.models, self.outputs = smooth_loss, numbers, models, outputs

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def add_block(self, first: int, codes: Codes, totals: Floats) -> Floats:
        """Add the gradients of a block, and return the sums of its groups, float64 [groups, models, 3]."""
        weights, bias, scaled, reaches, certify = self.numbers
        models, outputs, span = self.models, self.outputs, slice(first, first + len(codes))
        found = np.empty((-(-len(codes) // GROUP), len(weights), SUMS))
        for k in range(len(weights)):
            z, y = block_scores(codes, weights[k]) + bias[k], models.targets[k][span]
            of_rows = np.ones_like(z) if models.row_weights is None else models.row_weights[k][span]
            if models.offsets is not None:
                z = z + models.offsets[k][span]
            slope, value, curvature = of_loss(self.loss, z, y, certify, reaches[k])
            if certify:
                slope = slope * np.where(slope > 0, scaled[k, 0], scaled[k, 1]) + scaled[k, 2]
                sizes = of_rows * conjugate(self.loss, slope, y)
            slope = slope * of_rows
            if not certify:
                sizes = np.abs(slope)
            for s, numbers in enumerate((slope, of_rows * value, sizes)):
                found[:, k, s] = group_sums(numbers)
            for group in block_gradients(codes, slope, weights.shape[1]):
                totals[k] += group
            for wanted, numbers in ((outputs.scores, z), (outputs.curvatures, of_rows * curvature)):
                if wanted is not None:
                    wanted[k][span] = numbers
        return found


class _CompiledPass:
    """The blocks of a pass by the C code, groups of rows in several threads."""

    def __init__(
        self,
        kernels: CompiledPasses,
        threads: int,
        smooth_loss: SmoothLoss,
        numbers: _Numbers,
        models: PassModels,
        outputs: RowOutputs,
    ):
        self._kernels, self._kept = kernels, numbers
        count, padded = numbers.weights.shape
        self._tiles = [np.empty((TILE, padded), np.float32) for _ in range(threads)]
        self._slopes = [np.empty((count, TILE), np.float32) for _ in range(threads)]
        self._shared = {
            "models": count,
            "loss": KINDS.index(smooth_loss.name),
            "width": smooth_loss.width,
            "certify": numbers.certify,
            "weights": numbers.weights.ctypes.data,
            "bias": numbers.bias.ctypes.data,
            "scaled": numbers.scaled.ctypes.data,
            "reaches": numbers.reaches.ctypes.data,
        }
        of_rows = {
            "targets": models.targets,
            "row_weights": models.row_weights,
            "offsets": models.offsets,
            "scores": outputs.scores,
            "curvatures": outputs.curvatures,
        }
        self._starts = {name: _addresses(arrays) for name, arrays in of_rows.items() if arrays is not None}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def add_block(self, first: int, codes: Codes, totals: Floats) -> Floats:
        """Add the gradients of a block, and return the sums of its groups, float64 [groups, models, 3]."""
        groups, (count, padded) = -(-len(codes) // GROUP), totals.shape
        gradients, sums = np.empty((groups, count, padded), np.float32), np.empty((groups, count, SUMS))
        at = {name: addresses + np.uintp(4 * first) for name, addresses in self._starts.items()}
        of_block = {name: addresses.ctypes.data for name, addresses in at.items()} | {
            "codes": codes.ctypes.data,
            "rows": codes.shape[0],
            "columns": codes.shape[1],
            "gradients": gradients.ctypes.data,
            "sums": sums.ctypes.data,
        }
        jobs = [
            PassArguments(tile=tile.ctypes.data, slopes=slopes.ctypes.data, **of_block, **self._shared)
            for tile, slopes in zip(self._tiles, self._slopes, strict=True)
        ]
        cuts = [groups * i // len(jobs) for i in range(len(jobs) + 1)]
        spread = map if self._pool is None else self._pool.map
        list(spread(self._kernels.of_groups, jobs, cuts[:-1], cuts[1:]))
        self._kernels.add_groups(gradients.ctypes.data, groups, totals.size, totals.ctypes.data)
        return sums


def _addresses(arrays: Sequence[Singles]) -> NDArray[np.uintp]:
    if not all(array.dtype == np.float32 and array.flags.c_contiguous for array in arrays):
        raise ValueError("numbers of rows must be float32, one after the other")
    return np.array([array.ctypes.data for array in arrays], np.uintp)


class CompiledPasses(NamedTuple):
    """The functions of `passes.c`. They run without the interpreter's lock."""

    of_groups: Callable[..., Any]
    add_groups: Callable[..., Any]


@cache
def c_passes() -> CompiledPasses | None:
    """Return the passes in C, built if this machine has not built them yet; None, and a log line, if it cannot."""
    try:
        library = load_library([SOURCE], {"GROUP": str(GROUP)})
    except LibraryError as error:
        _logger.warning("note: linear models are fitted by numpy, many times slower than compiled code: %s", error)
        return None
    groups, add = library.bitlane_pass, library.bitlane_add_groups
    groups.argtypes = [ctypes.POINTER(PassArguments), ctypes.c_ssize_t, ctypes.c_ssize_t]
    add.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_void_p]
    groups.restype = add.restype = None
    return CompiledPasses(groups, add)
