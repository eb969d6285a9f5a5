"""The steps of one rank: handshake, average, statistics and saved state. Independent of DDP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from math import isfinite
from operator import or_
from time import perf_counter
from typing import Any, Literal

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import Observation, Sample, joined_sample

from ..auto.chooser import AutoChoice, AutoChooser
from ..chosen_bits import begin_sample, mean_bits, set_bits
from ..codecs.wire import NO_FLAGS, Flag, Header
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import Transport
from ..compressor import Compressor, Layout, Reducer, SavedState, vector_length
from ..compressors.uncompressed import Uncompressed
from ..segments import Segmented, SegmentedReducer, split_layout
from .checks import average_with_checks
from .overlap_trial import OverlapTrial
from .states import as_arrays, as_tensors, check_identity, identity
from .stats import Stats, StepTraffic, ring_bytes

LOG = logging.getLogger(__name__)
NonFinite = Literal["raise", "skip", "pass"]
LARGEST = 2.0**40  # above it, a codec's sums of squares could overflow in float32


@dataclass(frozen=True)
class StepRules:
    """What happens in a step besides the compressor's average; equal on all ranks, and as in `DDPCompression`.

    Attributes
    ----------
    nonfinite : {"raise", "skip", "pass"}
    debug : bool
    start : int
    """

    nonfinite: NonFinite = "raise"
    debug: bool = False
    start: int = 0


class StepRunner:
    """Runs the steps of one rank.

    Parameters
    ----------
    compressor, model
        As in `DDPCompression`; equal on all ranks.
    transport : Transport
        Moves bytes between ranks.
    layout : Layout
        The parameters of the model.
    device : torch.device
        The device of the gradients.
    stats : Stats
        Receives the statistics of each step.
    rules : StepRules, optional

    Attributes
    ----------
    trial : OverlapTrial or None
        Decides whether segments are exchanged during the backward pass; None: they always are.
    segments : list of GradientSegment
        The segments of a `Segmented` compressor; none if a step is exchanged at once.
    """

    def __init__(
        self,
        compressor: Compressor,
        transport: Transport,
        model: AlphaBetaModel,
        layout: Layout,
        device: torch.device,
        stats: Stats,
        rules: StepRules | None = None,
    ):
        rules = rules or StepRules()
        names = [f"parameter {number} of shape {span.shape}" for number, span in enumerate(layout)]
        self.link = Link(transport, "\n".join([repr(compressor), repr(model), repr(rules), *names]))
        self.compressor = compressor
        self.model = model
        self.layout = layout
        self.device = device
        self.segments = split_layout(layout, compressor.least) if isinstance(compressor, Segmented) else []
        self.rules = rules
        self.stats = stats
        self.step = 0
        self._saved: SavedState | None = None
        self._reducer: Reducer | None = None
        self._chooser = compressor.policy.start() if compressor.policy is not None else None
        self._began: float | None = None
        self._samples: list[Sample] = []  # of the segments of this step
        self._segment_states: dict[int, SavedState] = {}  # before the step
        self.trial: OverlapTrial | None = None

    def start_clock(self) -> None:
        """Begin the time of the next step, as bit policies see it; a second call before the step does nothing."""
        self._began = self._began or perf_counter()

    def average(
        self,
        gradient: Callable[[], Tensor],
        loss: float | None = None,
        deliver: Callable[[Tensor], None] = lambda average: None,
        has_batch: bool = True,
    ) -> Tensor:
        """Average the gradients of all ranks. All ranks call it in the same step.

        Parameters
        ----------
        gradient : callable
            Returns the gradient of this rank, float32 [n], which is overwritten with the average. An error that it
            raises is reported to the other ranks.
        loss : float or None, default: None
            Loss of this rank's batch, for bit policies.
        deliver : callable, optional
            Called with the average; its time counts as that of the codec.
        has_batch : bool, default: True
            False on a rank that has no more data.

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
        try:
            start, before = perf_counter(), self.sent_and_waited()
            vector, flags = self.handshake(gradient, vector_length(self.layout))
            nonfinite_rank = next((rank for rank, each in enumerate(flags) if Flag.NOT_FINITE in each), None)
            if nonfinite_rank is not None and self.rules.nonfinite == "raise":
                raise DataError(
                    f"step {self.step}: the gradient of rank {nonfinite_rank} has NaN or infinite values; use "
                    'nonfinite="skip" to skip such steps, or "pass" to average them uncompressed; under DDP with a '
                    "GradScaler use attach(..., grad_scaler=scaler)"
                )
            with self.abort_on_error():
                self._average(vector, reduce(or_, flags))
                self.observe(vector, loss, has_batch, start, self.link.seconds - before[1])
                deliver(vector)
                self.end_trial_step(False, start)
            seconds = perf_counter() - start
            self.record(seconds, seconds, before)
            return vector
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Forget what was measured of a step that ended with an error."""
        self.drop_samples()
        self._began = None

    def drop_samples(self) -> None:
        """Forget the samples of segments that have to be averaged again."""
        self._samples = []

    @property
    def overlaps(self) -> bool:
        """Whether the next step is exchanged in segments, each as soon as all ranks have it."""
        return self._may_overlap and (self.trial is None or self.trial.overlaps)

    @property
    def _may_overlap(self) -> bool:
        return len(self.segments) > 1 and self.step >= self.rules.start

    @property
    def reducers(self) -> Sequence[Reducer]:
        """The reducers of the segments, after the first handshake."""
        return self._reducer.reducers if isinstance(self._reducer, SegmentedReducer) else []

    def residual(self) -> Tensor | None:
        """Return the residual of this rank, as `Reducer.residual`; before the first average it is 0."""
        if self._reducer is None:
            self._prepare()
        assert self._reducer is not None
        return self._reducer.residual()

    def saved_state(self, number: int) -> SavedState:
        """Return a copy of the state of a segment, which the next call for it overwrites."""
        self._segment_states[number] = self.reducers[number].state_dict(self._segment_states.get(number))
        return self._segment_states[number]

    def end_segments(self) -> None:
        """End the averages of all segments of a step."""
        if isinstance(self._reducer, SegmentedReducer):
            self._reducer.end_step()

    def sent_and_waited(self) -> tuple[int, float]:
        """Return the bytes sent so far, and the seconds in exchanges."""
        return self.link.transport.sent, self.link.seconds

    def handshake(self, gradient: Callable[[], Tensor], values: int) -> tuple[Tensor, list[Flag]]:
        """Return the gradient, or that of a segment with `values` values, and the flags of all ranks.

        An error of `gradient` is reported to the other ranks, and raised.
        """
        failure, flags, vector = None, NO_FLAGS, torch.empty(0)
        try:
            self._prepare()
            vector = gradient()
            flags = _flags(vector)
        except Exception as error:  # report it to all ranks before raising it here
            failure, flags = error, Flag.FAILED
        bits = self._reducer.bits if self._reducer is not None else 0
        headers = self.link.handshake(Header(self.compressor.codec, bits, values, 0, flags, step=self.step))
        if failure is not None:
            raise failure
        return vector, [each.flags for each in headers]

    def _prepare(self) -> None:
        """Create the reducer in the first step, and set the bits of this step."""
        if self._reducer is None:
            reducer = self.compressor.reducer(self.layout, self.link, self.model, self.device)
            if self._saved is not None:
                self._load(reducer, self._saved)
            self._reducer, self._saved = reducer, None
        if self._chooser is not None:
            set_bits(self._chooser, self._reducer)

    @contextmanager
    def abort_on_error(self) -> Iterator[None]:
        """Leave the process group if this rank fails between two exchanges, so that the others do not wait."""
        try:
            yield
        except BaseException:
            self.link.transport.abort()
            raise

    def _average(self, vector: Tensor, flags: Flag) -> None:
        assert self._reducer is not None
        if Flag.NOT_FINITE in flags and self.rules.nonfinite == "skip":
            vector.zero_()
            self.stats.skipped += 1
        elif flags or self.step < self.rules.start:
            self._average_uncompressed(vector, Flag.LARGE in flags)
            self.stats.uncompressed += 1
        else:
            self.compress(self._reducer, vector, self.layout)

    def compress(self, reducer: Reducer, vector: Tensor, layout: Layout) -> None:
        """Average a finite vector with a reducer of this layout."""
        sampler = begin_sample(self._chooser, reducer, vector)
        if self.rules.debug:
            average_with_checks(reducer, vector, self.step, self.link, layout)
        else:
            reducer.average(vector, self.step)
        if sampler is not None:
            self._samples.append(sampler(vector))

    def observe(
        self,
        average: Tensor,
        loss: float | None,
        has_batch: bool,
        start: float,
        waited: float,
        computed: float | None = None,
    ) -> None:
        """Report a step to the bit policy: it began at `start` or `start_clock`, and waited `waited` seconds.

        If its exchanges overlapped the backward pass, that ended at `computed`, and otherwise at `start`.
        """
        samples, self._samples = self._samples, []
        if self._chooser is not None and self.step >= self.rules.start:
            began = self._began or start
            sample = joined_sample(samples) if samples else None
            computing, overlapped = (start if computed is None else computed) - began, computed is not None
            seconds, rms = perf_counter() - began, partial(_rms, average)
            observed = Observation(loss, seconds, rms, has_batch, waited, sample, computing, overlapped)
            before = self.choice
            self._chooser.after(observed, self.link.gather_numbers)
            if self.link.rank == 0 and self.choice is not before:
                LOG.info("%s", self.choice)

    @property
    def choice(self) -> AutoChoice | None:
        """What `Auto` has chosen last, and why; None before its first choice, and for other compressors."""
        return self._chooser.choice if isinstance(self._chooser, AutoChooser) else None

    def end_trial_step(self, overlapped: bool, start: float) -> None:
        """Report a step, which began as in `observe`, to the overlap trial; repeated steps do not count."""
        if self.trial is None or self.trial.ended or not self._may_overlap or overlapped != self.trial.overlaps:
            return
        self.trial.add(perf_counter() - (self._began or start), self.link.gather_numbers)
        if self.trial.ended and not self.trial.overlaps:
            self._segment_states.clear()

    def _average_uncompressed(self, vector: Tensor, is_large: bool) -> None:
        """Average in float32. Large values are divided by a power of 2 first, so that their sum does not overflow."""
        reducer = Uncompressed().reducer(self.layout, self.link, self.model, self.device)
        if not is_large:
            reducer.average(vector, self.step)
            return
        divisor = 2.0 ** (self.link.size - 1).bit_length()
        reducer.average(vector.div_(divisor), self.step)
        most = torch.finfo(torch.float32).max / divisor  # a mean that was rounded up may exceed it
        vector.copy_(torch.where(torch.isfinite(vector), vector.clamp(-most, most), vector) * divisor)

    def record(self, seconds: float, blocking: float, before: tuple[int, float]) -> None:
        """End a step that took `seconds`, of which the training waited for `blocking`.

        `before` is what `sent_and_waited` returned at its begin.
        """
        assert self._reducer is not None
        sent, waited = (now - then for now, then in zip(self.sent_and_waited(), before, strict=True))
        values = vector_length(self.layout)
        ring, bits = ring_bytes(values, self.link.size), mean_bits(self._reducer)
        self.stats.record(StepTraffic(int(sent), ring, values, bits, seconds - waited, waited, blocking))
        self.step, self._began = self.step + 1, None

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


def _flags(vector: Tensor) -> Flag:
    """Return what the other ranks have to know of a gradient, from one pass over it."""
    low, high = torch.stack(torch.aminmax(vector)).tolist() if len(vector) else (0.0, 0.0)
    most = max(-low, high)
    return Flag.NOT_FINITE if not isfinite(most) else Flag.LARGE if most > LARGEST else NO_FLAGS


def _rms(vector: Tensor) -> float:
    root: float = float(vector.norm()) / max(1, len(vector)) ** 0.5
    return root
