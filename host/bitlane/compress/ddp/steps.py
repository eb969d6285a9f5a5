"""A rank's steps: ranks agree, the compressor averages, and what it keeps is saved and found again.

It knows nothing of DDP: `hook.py` gives it DDP's gradients.
"""

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
    """All steps of a rank.

    Parameters
    ----------
    compressor, model, nonfinite, debug: as in `DDPCompression`; the same on every rank.
    layout: of the model's parameters.
    device: where gradients lie.
    stats: what is told of steps.
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
        shapes = [place.shape for place in layout]
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
        """The average, in place, of what `gradient` gives: this rank's, float32 [n]. All ranks call it for a step.

        loss: of this rank's batch, for policies that choose bits by it.

        Raises
        ------
        DataError: ranks differ in their settings, or a value is not finite and `nonfinite` is "raise"; on all ranks.
        RankFailed: another rank failed, ended, or did not answer in time.
        Whatever `gradient` or the compressor raises.
        """
        began, sent, waited = perf_counter(), self.link.transport.sent, self.link.seconds
        vector, bad = self._agreed(gradient)
        with self._leaving():
            self._average(vector, bad)
        ended, waited = perf_counter(), self.link.seconds - waited
        self._record(vector, self.link.transport.sent - sent, ended - began - waited, waited)
        self.step += 1
        if self._chooser is not None:
            seen = Observation(loss, ended - self._ended, lambda: float(vector.norm()) / max(1, len(vector)) ** 0.5)
            self._chooser.after(seen, self.link.gather_numbers)
        self._ended = ended
        return vector

    def _agreed(self, gradient: Callable[[], Tensor]) -> tuple[Tensor, list[int]]:
        """The gradient, and the ranks whose gradient is not finite."""
        problem, flags, vector = None, NO_FLAGS, torch.empty(0)
        try:
            self._prepare()
            vector = gradient()
            flags = NO_FLAGS if _finite(vector) else Flag.NOT_FINITE
        except Exception as error:  # every rank hears of it before this one raises it
            problem, flags = error, Flag.FAILED
        bits = self._reducer.bits if self._reducer is not None else 0
        header = Header(self.compressor.codec, bits, vector_length(self.layout), 0, flags, step=self.step)
        headers = self.link.handshake(header)
        if problem is not None:
            raise problem
        bad = [rank for rank, each in enumerate(headers) if Flag.NOT_FINITE in each.flags]
        if bad and self.nonfinite == "raise":
            raise DataError(
                f"step {self.step}: the gradient of rank {bad[0]} has NaN or infinite values; "
                'nonfinite="skip" leaves such steps out, "pass" hands them on'
            )
        return vector, bad

    def _prepare(self) -> None:
        """The reducer, made in the first step, with the bits of this one."""
        if self._reducer is None:
            reducer = self.compressor.reducer(self.layout, self.link, self.model, self.device)
            if self._saved is not None:
                self._load(reducer, self._saved)
            self._reducer, self._saved = reducer, None
        if self._chooser is not None:
            self._reducer.bits = self._chooser.bits

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """A rank that fails between two exchanges leaves, so that the others do not wait for it."""
        try:
            yield
        except BaseException:
            self.link.transport.abort()
            raise

    def _average(self, vector: Tensor, bad: list[int]) -> None:
        assert self._reducer is not None
        if bad and self.nonfinite == "skip":
            vector.zero_()
            self.stats.skipped += 1
        elif bad:
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
        """What the next step depends on: tensors, numbers and text, copied. DataError where there was no step yet."""
        if self._reducer is None:
            raise DataError("nothing to save before the first step")
        return {
            **identity(self.compressor, self.link.rank, self.link.size, self.layout),
            "step": self.step,
            "reducer": self._reducer.state_dict(),
            "policy": as_tensors(self._chooser.state_dict()) if self._chooser is not None else {},
        }

    def load_state_dict(self, state: SavedState) -> None:
        """Go on from what `state_dict` gave; DataError, here or in the first step, where it is not of this rank."""
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
    """A sum tells in one pass; it may overflow by itself, and then every value is looked at."""
    return bool(torch.isfinite(vector.sum())) or bool(torch.isfinite(vector).all())
