"""A step whose segments a background thread averages during the backward pass.

The thread takes the segments in the order of the vector, which is about that of the backward pass; a segment waits for
its last bucket and for the segments before it. So all ranks exchange the same segments in the same order, whatever
their buckets are.

A step is all or nothing: if a later segment has values that are not finite or too large, or if a rank fails, the
reducers of the earlier segments get the state back that they had before the step.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Literal

import torch
from torch import Tensor

from bitlane.errors import BitlaneError, DataError

from ..collectives.background import BackgroundAverage
from ..compressor import Compressor, ParameterSpan, SavedState
from ..segments import GradientSegment, Segmented
from .steps import StepRunner

Overlap = bool | Literal["auto"]
SEGMENT_VALUES = 1 << 20  # of a segment, at least: 4 MiB of float32
ParameterGradient = tuple[ParameterSpan, Tensor]  # a parameter, and its gradient


class AbandonedStep(BitlaneError):
    """The backward pass of this rank ended early, so that its step gets no more gradients."""


def checked_overlap(overlap: Overlap) -> Overlap:
    """Return the setting; raise DataError if it is neither True nor False nor "auto"."""
    if overlap != "auto" and not isinstance(overlap, bool):
        raise DataError(f'overlap must be True, False or "auto"; got {overlap!r}')
    return overlap


def in_segments(compressor: Compressor, overlap: Overlap, ranks: int) -> Compressor:
    """Return the compressor, or `Segmented` where steps overlap the backward pass.

    "auto" leaves out a single rank, and compressors that select from the whole gradient.
    """
    if overlap == "auto":
        overlap = ranks > 1 and not getattr(compressor, "whole_gradient", False)
    return Segmented(compressor, SEGMENT_VALUES) if overlap else compressor


@dataclass(frozen=True)
class StepEnd:
    """What a step has besides its gradient; `loss`, `has_batch` and `deliver` are those of `StepRunner.average`.

    Attributes
    ----------
    gradient : callable
        Returns the gradient of this rank with all segments, after its last bucket.
    deliver : callable
        Called with the average.
    give_up : callable
        Called after an error.
    loss : float or None, default: None
    has_batch : bool, default: True
    """

    gradient: Callable[[], Tensor]
    deliver: Callable[[Tensor], None]
    give_up: Callable[[], None]
    loss: float | None = None
    has_batch: bool = True


class OverlappedStep:
    """One step of `StepRunner`, in segments. If a value of any rank is not finite or too large, it is made at once.

    The training thread calls `add` for each bucket, `end`, then `wait`; or `abandon`.

    Parameters
    ----------
    runner : StepRunner
        Its compressor is `Segmented`.
    vector : Tensor, float32 [n]
        Memory for the gradient and the average.
    scale : float
        Divisor of the gradients.
    at_end : StepEnd
        Its functions are called in the background thread.
    """

    def __init__(self, runner: StepRunner, vector: Tensor, scale: float, at_end: StepEnd):
        self._runner = runner
        self._vector = vector
        self._scale = scale
        self._at_end = at_end
        self._missing = {span.begin: span for span in runner.layout if span.end > span.begin}
        # Buckets, then None for the end of the backward pass; or an error.
        self._arrivals: queue.SimpleQueue[_Bucket | BaseException | None] = queue.SimpleQueue()
        self._begun, self._before = perf_counter(), runner.sent_and_waited()
        self._idle = self._adding = 0.0
        self._ended: float | None = None  # when the training thread began to wait
        self._has_all = False  # whether the thread gets no more buckets
        self._background = BackgroundAverage(self._run, vector.device)

    def add(self, gradients: Callable[[], Sequence[ParameterGradient]]) -> None:
        """Give a bucket to the thread. An error of `gradients` is reported to all ranks."""
        start = perf_counter()
        try:
            self._arrivals.put(_Bucket(gradients(), self._vector.device))
        except DataError as error:
            self._arrivals.put(error)
        self._adding += perf_counter() - start

    def end(self) -> None:
        """End the gradient: parameters without a bucket have the gradient 0. A second call does nothing."""
        if self._ended is None:
            self._ended = perf_counter()
            self._arrivals.put(None)

    def wait(self) -> None:
        """Wait for the end of the step, after `end`.

        Raises
        ------
        DataError, RankFailed
            As `StepRunner.average`.
        """
        self._background.result()

    def abandon(self) -> None:
        """Leave the step, because the backward pass ended with an error: the other ranks raise RankFailed.

        If all segments have been averaged, the other ranks have made the step, and so has this one.
        """
        self.stop(f"the backward pass of step {self._runner.step} ended early on this rank")
        with suppress(Exception):  # the next step has its own
            self.wait()

    def stop(self, why: str) -> None:
        """Let the thread end, without waiting for it."""
        self._arrivals.put(AbandonedStep(why))

    def _run(self) -> Tensor:
        """Make the step; in the thread."""
        at_end = self._at_end
        try:
            is_averaged = self._average_segments()
            self._take_all()
            if is_averaged:
                with self._runner.abort_on_error():
                    self._runner.end_segments()
                    waited = self._runner.sent_and_waited()[1] - self._before[1]
                    loss, has_batch, begun = at_end.loss, at_end.has_batch, self._begun
                    self._runner.observe(self._vector, loss, has_batch, begun, waited, self._ended)
                    at_end.deliver(self._vector)
                    self._runner.end_trial_step(True, self._begun)
                now = perf_counter()
                waited = 0.0 if self._ended is None else now - self._ended
                self._runner.record(now - self._begun - self._idle, self._adding + waited, self._before)
            else:
                self._runner.average(at_end.gradient, at_end.loss, at_end.deliver, at_end.has_batch)
        except BaseException:
            self._take_all()
            self._runner.give_up()
            at_end.give_up()
            raise
        return self._vector

    def _average_segments(self) -> bool:
        """Average all segments. If a rank has a value that cannot be compressed, change nothing and return False."""
        saved: list[SavedState] = []
        is_made = False
        try:
            for number, segment in enumerate(self._runner.segments):
                collect = partial(self._collected, segment)
                gradient, flags = self._runner.handshake(collect, segment.end - segment.begin)
                if any(flags):
                    return False
                reducer = self._runner.reducers[number]
                saved.append(self._runner.saved_state(number))
                with self._runner.abort_on_error():
                    self._runner.compress(reducer, gradient, segment.layout)
            is_made = True
        finally:
            if not is_made:
                self._runner.drop_samples()
                for reducer, state in zip(self._runner.reducers, saved, strict=False):
                    reducer.load_state_dict(state)
        return True

    def _collected(self, segment: GradientSegment) -> Tensor:
        """Wait for all buckets of a segment, and return its gradient."""
        inside = [segment.begin + span.begin for span in segment.layout if span.end > span.begin]
        while any(begin in self._missing for begin in inside):
            self._take_bucket()
        gradient = self._vector[segment.begin : segment.end]
        return gradient if self._scale == 1 else gradient.div_(self._scale)

    def _take_all(self) -> None:
        """Wait for the end of the backward pass."""
        while not self._has_all:
            with suppress(AbandonedStep, DataError):
                self._take_bucket()

    def _take_bucket(self) -> None:
        """Wait for the next bucket, and copy it to the vector."""
        start = perf_counter()
        arrival = self._arrivals.get()
        self._idle += perf_counter() - start
        if isinstance(arrival, BaseException):
            self._has_all = isinstance(arrival, AbandonedStep)
            raise arrival
        if arrival is None:
            self._has_all = True
            for span in self._missing.values():
                self._vector[span.begin : span.end] = 0
            self._missing.clear()
            return
        for span, gradient in arrival.gradients():
            if span.end > span.begin:
                span.view(self._vector).copy_(gradient)
                self._missing.pop(span.begin, None)


class _Bucket:
    """The gradients of a bucket; on a GPU with the event after which they are complete."""

    def __init__(self, gradients: Sequence[ParameterGradient], device: torch.device):
        self._gradients = gradients
        self._event = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None

    def gradients(self) -> Sequence[ParameterGradient]:
        """Let this thread's stream wait for the gradients, and return them."""
        if self._event is not None:
            self._event.wait()
        return self._gradients
