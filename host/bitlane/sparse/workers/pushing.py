"""What a worker sends of its gradients: all of them, fewer bits of them, or the largest rows with error feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.row_codecs import UNIT, GradientChunk, round_to_half
from bitlane.sparse.tables.mixing import words_of
from bitlane.sparse.workers.error_feedback import ErrorFeedback
from bitlane.sparse.workers.rounding import LIMIT, to_ternary, to_units
from bitlane.support.scalars import as_integer, as_number

KINDS = ("full", "float16", "ternary", "few", "topk")
VALUES = ("ternary", "fixed")
FEW_BITS = 3  # of "few", where nothing else is said
_FINE = 16  # bits that a gradient is rounded to before it becomes a ternary one

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PushSettings:
    """How a worker compresses its pushes.

    Parameters
    ----------
    kind : {"full", "float16", "ternary", "few", "topk"}, default="full"
        ``"full"``: float32, unchanged. ``"float16"``, ``"ternary"`` and ``"few"``, which has `entry_bits` bits: rounded
        at random, right on average, without memory. ``"topk"``: the largest rows, with error feedback.
    share : float, default=0.1
        Of a minibatch's rows that ``"topk"`` sends because they are large, above 0, at most 1.
    residual_rows : int, default=0
        Rows that ``"topk"`` keeps at most. Each takes 4 bytes for each value and 24 to 40 more, from the start on.
    values : {"ternary", "fixed"}, default="ternary"
        What ``"topk"`` sends of the largest rows: ternary values, or all of their bits.
    entry_bits : int, optional
        Bits, beside the sign, that ``"few"`` and ``"topk"`` leave of a row's largest gradient when it comes in, 1 to
        16; rounded at random, right on average. What is sent at full precision is then short. Default: 3 for
        ``"few"``; with ``"topk"``, gradients are rounded to the nearest multiple of 2^-20.
    pack_keys : bool, default=True
        Write keys in few bytes (`bitlane.sparse.servers.key_codec`).
    debug : bool, default=False
        Check the sums of ``"topk"`` at each push, slowly.

    Raises
    ------
    DataError
    """

    kind: str = "full"
    share: float = 0.1
    residual_rows: int = 0
    values: str = "ternary"
    entry_bits: int | None = None
    pack_keys: bool = True
    debug: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("kind", KINDS), ("values", VALUES)):
            if getattr(self, name) not in choices:
                raise DataError(f"{name} of a push must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        share = as_number("share of a push", self.share)
        if not 0 < share <= 1:
            raise DataError(f"share of a push must be above 0 and at most 1; got {share}")
        object.__setattr__(self, "share", share)
        rows = as_integer("residual_rows of a push", self.residual_rows, 0, 1 << 30)
        object.__setattr__(self, "residual_rows", rows)
        if self.entry_bits is not None:
            object.__setattr__(self, "entry_bits", as_integer("entry_bits of a push", self.entry_bits, 1, 16))


class Pusher:
    """Chooses what a worker sends. One thread at a time.

    Parameters
    ----------
    settings : PushSettings
    values : int
        Of a row of gradients.
    seed : int
        Of the random rounding, 0 to 2^64 - 1. Workers need different ones.
    groups : sequence of int, optional
        Sizes of the groups of neighbours in a row that differ in size, such as an FM's linear weight and factors: each
        is rounded on its own. Default: one group.

    Raises
    ------
    DataError
        The groups do not make up a row.

    Attributes
    ----------
    settings : PushSettings
    rows_received : int
        Rows of all minibatches.
    rows_sent : int
        Rows of all chunks.
    """

    def __init__(self, settings: PushSettings, values: int, seed: int, groups: Sequence[int] | None = None):
        self.settings = settings
        self.rows_received = self.rows_sent = 0
        self._groups = (values,) if groups is None else tuple(groups)
        if sum(self._groups) != values or min(self._groups, default=0) < 1:
            raise DataError(f"groups of a push must have {values} values in all; got {self._groups}")
        chooses = settings.kind == "topk"
        rows, share = (settings.residual_rows, settings.share) if chooses else (0, 1.0)
        self._bits = settings.entry_bits or (FEW_BITS if settings.kind == "few" else 0)
        self._feedback = ErrorFeedback(
            rows, self._groups, share, chooses and settings.values == "ternary", settings.debug
        )
        self._seed = seed

    @property
    def residual_rows(self) -> int:
        """Rows whose gradients wait now."""
        return self._feedback.table.count

    @property
    def residual_bytes(self) -> int:
        """Memory for residuals, the same from the start on."""
        return self._feedback.nbytes

    @property
    def rows_evicted(self) -> int:
        """Rows sent at full precision because the table was full."""
        return self._feedback.evicted

    def choose(self, keys: Keys, gradients: Floats) -> list[GradientChunk]:
        """Return what is sent of a minibatch.

        Parameters
        ----------
        keys : uint64 [n]
            Distinct.
        gradients : float32 [n, values]

        Returns
        -------
        list of GradientChunk
            No key is twice among them. Rows of zeros are left out, except for ``"full"`` and ``"float16"``.

        Raises
        ------
        DataError
            For ``"ternary"`` and ``"topk"``: a gradient, or the sum of gradients that wait, is 2,048 or more.
        """
        kind = self.settings.kind
        keys = np.require(keys, np.uint64, ("C", "ALIGNED", "WRITEABLE"))
        gradients = np.require(gradients, np.float32, ("C", "ALIGNED", "WRITEABLE"))
        if kind == "full":
            chunks = [GradientChunk("float32", keys, gradients)]
        elif kind == "float16":
            chunks = [GradientChunk("float16", keys, round_to_half(gradients, self._next_seed()))]
        elif kind == "ternary":
            chunks = [self._ternary(keys, gradients)]
        else:
            units = self._units(keys, gradients, self._bits)
            row = self._feedback.add(keys, units)
            if row >= 0:
                self._refuse("the sum of gradients", int(keys[row]), gradients[row])
            chunks = self._feedback.choose(keys, units)
        self.rows_received += len(keys)
        self.rows_sent += sum(len(chunk.keys) for chunk in chunks)
        return chunks

    def flush(self) -> list[GradientChunk]:
        """Return all residuals at full precision, for the end of a training, and keep none."""
        chunks = self._feedback.flush()
        self.rows_sent += sum(len(chunk.keys) for chunk in chunks)
        return chunks

    def _next_seed(self) -> Any:
        self._seed = (self._seed + 0x9E3779B97F4A7C15) % (1 << 64)
        return words_of(np.array([self._seed], np.uint64))[0]

    def _units(self, keys: Keys, gradients: Floats, bits: int) -> NDArray[np.int64]:
        units = np.empty(gradients.shape, np.int64)
        row = to_units(gradients, np.array(self._groups), bits, self._next_seed(), units)
        if row >= 0:
            self._refuse("the gradient", int(keys[row]), gradients[row])
        return units

    def _ternary(self, keys: Keys, gradients: Floats) -> GradientChunk:
        units = self._units(keys, gradients, _FINE)
        symbols, scales = np.empty(units.shape, np.int8), np.empty((len(keys), len(self._groups)), np.uint8)
        to_ternary(units, np.array(self._groups), self._next_seed(), symbols, scales)
        return GradientChunk("ternary", keys, symbols, scales, self._groups).take(np.flatnonzero(symbols.any(axis=1)))

    def _refuse(self, what: str, key: int, row: NDArray[Any]) -> None:
        raise DataError(
            f"a push of kind {self.settings.kind!r} takes sizes below {(LIMIT + 128) * UNIT:,.0f}; {what} of key {key} "
            f"is larger or not finite, its last gradient {row.tolist()}; use fewer rows per minibatch, or kind 'full'"
        )
