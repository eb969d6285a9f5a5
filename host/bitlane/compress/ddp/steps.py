"""The steps of one rank: handshake, average, statistics and saved state. Independent of DDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import Observation

from ..codecs.wire import NO_FLAGS, Flag, Header
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import Transport
from ..compressor import Compressor, Layout, Reducer, SavedState, vector_length
from ..compressors.uncompressed import Uncompressed
from .checks import average_with_checks
from .states import as_arrays, as_tensors, check_identity, identity
from .stats import Stats, Traffic, ring_bytes

NonFinite = Literal["raise", "skip", "pass"]


class StepRunner:
    """Runs the steps of one rank.

    Parameters
    ----------
    compressor, model, nonfinite, debug
        As in `DDPCompression`; equal on all ranks.
    transport : Transport
        Moves bytes between ranks.
    layout : Layout
        The parameters of the model.
    device : torch.device
        The device of the gradients.
    stats : Stats
        Receives the statistics of each step.
    """

    def __init__(
        self,
        compressor: Compressor,
        transport: Transport,
        model: AlphaBetaModel,
        layout: Layout,
        device: torch.device,
        stats: Stats,
        nonfinite: NonFinite,
        debug: bool,
    ):
        shapes = [span.shape for span in layout]
        settings = f"{compressor!r}, {model!r}, nonfinite={nonfinite!r}, debug={debug}, parameters {shapes}"
        self.link = Link(transport, settings)
        self.compressor, self.model, self.layout, self.device = compressor, model, layout, device
        self.nonfinite, self.debug = nonfinite, debug
        self.stats, self.step = stats, 0
        self._saved: SavedState | None = None
        self._reducer: Reducer | None = None
        self._chooser = compressor.policy.start() if compressor.policy is not None else None
        self._ended = perf_counter()

    def average(self, gradient: Callable[[], Tensor], loss: float | None = None) -> Tensor:
        """Average the gradients of all ranks. All ranks call it in the same step.

        Parameters
        ----------
        gradient : callable
            Returns the gradient of this rank, float32 [n], which is overwritten with the average. An error that it
            raises is reported to the other ranks.
        loss : float or None, default: None
            Loss of this rank's batch, for bit policies.

        Returns
        -------
        Tensor, float32 [n]
            The average.

        Raises
        ------
        DataError
            On all ranks, if their settings differ, or if a value is not finite and `nonfinite` is "raise".
        RankFailed
            If another rank failed, ended or timed out.
        """
        start, sent, waited = perf_counter(), self.link.transport.sent, self.link.seconds
        vector, nonfinite_ranks = self._handshake(gradient)
        with self._abort_on_error():
            self._average(vector, nonfinite_ranks)
        ended, waited = perf_counter(), self.link.seconds - waited
        self._record(vector, self.link.transport.sent - sent, ended - start - waited, waited)
        self.step += 1
        if self._chooser is not None:
            observed = Observation(loss, ended - self._ended, lambda: float(vector.norm()) / max(1, len(vector)) ** 0.5)
            self._chooser.after(observed, self.link.gather_numbers)
        self._ended = ended
        return vector

    def _handshake(self, gradient: Callable[[], Tensor]) -> tuple[Tensor, list[int]]:
        """Return the gradient, and the ranks whose gradient is not finite."""
        failure, flags, vector = None, NO_FLAGS, torch.empty(0)
        try:
            self._prepare()
            vector = gradient()
            flags = NO_FLAGS if _finite(vector) else Flag.NOT_FINITE
        except Exception as error:  # report it to all ranks before raising it here
            failure, flags = error, Flag.FAILED
        bits = self._reducer.bits if self._reducer is not None else 0
        header = Header(self.compressor.codec, bits, vector_length(self.layout), 0, flags, step=self.step)
        headers = self.link.handshake(header)
        if failure is not None:
            raise failure
        nonfinite_ranks = [rank for rank, each in enumerate(headers) if Flag.NOT_FINITE in each.flags]
        if nonfinite_ranks and self.nonfinite == "raise":
            raise DataError(
                f"step {self.step}: the gradient of rank {nonfinite_ranks[0]} has NaN or infinite values; "
                'use nonfinite="skip" to skip such steps, or "pass" to average them uncompressed'
            )
        return vector, nonfinite_ranks

    def _prepare(self) -> None:
        """Create the reducer in the first step, and set the bits of this step."""
        if self._reducer is None:
            reducer = self.compressor.reducer(self.layout, self.link, self.model, self.device)
            if self._saved is not None:
                self._load(reducer, self._saved)
            self._reducer, self._saved = reducer, None
        if self._chooser is not None:
            self._reducer.bits = self._chooser.bits

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        """Leave the process group if this rank fails between two exchanges, so that the others do not wait."""
        try:
            yield
        except BaseException:
            self.link.transport.abort()
            raise

    def _average(self, vector: Tensor, nonfinite_ranks: list[int]) -> None:
        assert self._reducer is not None
        if nonfinite_ranks and self.nonfinite == "skip":
            vector.zero_()
            self.stats.skipped += 1
        elif nonfinite_ranks:
            Uncompressed().reducer(self.layout, self.link, self.model, self.device).average(vector, self.step)
            self.stats.uncompressed += 1
        elif self.debug:
            average_with_checks(self._reducer, vector, self.step, self.link, self.layout)
        else:
            self._reducer.average(vector, self.step)

    def _record(self, vector: Tensor, sent: int, codec: float, communication: float) -> None:
        assert self._reducer is not None
        ring = ring_bytes(len(vector), self.link.size)
        applied = int(torch.count_nonzero(vector))
        self.stats.record(Traffic(sent, ring, len(vector), applied, self._reducer.bits, codec, communication))

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state that the next step depends on; raise DataError before the first step."""
        if self._reducer is None:
            raise DataError("there is no state before the first step")
        return {
            **identity(self.compressor, self.link.rank, self.link.size, self.layout),
            "step": self.step,
            "reducer": self._reducer.state_dict(),
            "policy": as_tensors(self._chooser.state_dict()) if self._chooser is not None else {},
        }

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`; raise DataError, here or in the first step, if it is not of this rank."""
        if self._reducer is None:
            self._saved = state
        else:
            self._load(self._reducer, state)

    def _load(self, reducer: Reducer, state: SavedState) -> None:
        check_identity(state, identity(self.compressor, self.link.rank, self.link.size, self.layout))
        reducer.load_state_dict(state["reducer"])
        if self._chooser is not None:
            self._chooser.load_state_dict(as_arrays(state["policy"]))
        self.step = state["step"]


def _finite(vector: Tensor) -> bool:
    """Return whether all values are finite: first by the sum, which is faster but can overflow, then value by value."""
    return bool(torch.isfinite(vector.sum())) or bool(torch.isfinite(vector).all())
