"""A DDP communication hook that averages the gradient of a step with a compressor."""

# DDP compares the hook's annotations with types, so they cannot be text: no `from __future__ import annotations`.
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bitlane.errors import DataError

from ..auto.chooser import AutoChoice
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import Compressor, Layout, ParameterSpan, SavedState
from ..compressors.uncompressed import Uncompressed
from ..detached import Detached
from .buckets import Buckets
from .overlap import Overlap, OverlappedStep, StepEnd, checked_overlap, in_segments
from .overlap_trial import OverlapTrial
from .settings import check_settings, step_rules
from .states import check_identity, check_order, identity, renamed
from .stats import Stats
from .steps import NonFinite, StepRunner
from .warm_up import warm_up


class DDPCompression:
    """The state of a DDP communication hook that compresses gradients.

    The buckets of a step are one vector, with the parameters of one type adjacent, in reverse order of registration. It
    is averaged in segments during the backward pass, or with `overlap=False` at its end and as a whole, as in
    the papers. Neither depends on the size of the buckets.

    `attach` makes and registers one; `close` frees its connections and threads. Both happen at the same point on every
    rank. A copy or pickle of it is a `Detached`, which has its state. Gradients can be float64, float32,
    bfloat16 or float16. They are averaged in float32; neither the error of rounding float64 to it, nor that of rounding
    the average to its type is fed back, and values beyond its range are infinite. A bucket that DDP leaves out of a
    step has the gradient 0.

    Registered by hand, without `attach`, it learns the parameters in the first step, and nothing overlaps. With
    `static_graph=True` and gradients of several types the last bucket of that step is unknown, so it is averaged bucket
    by bucket in float32.

    Parameters
    ----------
    compressor : Compressor
        The settings, equal on all ranks.
    process_group : torch.distributed.ProcessGroup or None, default: None
        The process group of the model; None for the default group.
    link_model : AlphaBetaModel or None, default: None
        The cost model that chooses the collective; None for the defaults of `AlphaBetaModel`.
    nonfinite : {"raise", "skip", "pass"}, optional
        What to do if the gradient of any rank has NaN or infinite values. "raise" raises DataError on all ranks, from
        `backward()`; training can continue, and each rank then has its own gradients. "skip" sets the average to zero.
        "pass" averages the step uncompressed. The state of the compressor does not change in any of these cases. The
        default is "raise", or "pass" with a `grad_scaler`, which then skips the step on all ranks.
    debug : bool, default: False
        Check in every step that all ranks got identical bytes and that gradients and residuals are conserved. The
        checks are slow, and their traffic counts as sent.
    timeout : float, default: 600
        Seconds that a rank waits for another before it raises.
    start : int, default: 0
        Number of first steps that are averaged uncompressed (`start_powerSGD_iter` of PyTorch).
    grad_scaler : torch.amp.GradScaler, optional
        The scaler of the loss in mixed precision. Gradients are divided by its scale before they are compressed, and
        the averages multiplied by it, so that residuals stay valid when the scale changes. Powers of 2, as in the
        scaler's defaults, change no bit.
    overlap : bool or "auto", default: "auto"
        Whether a background thread averages the gradient during the backward pass, in segments of at least 2**20 values
        (adjacent parameters). The compressor sees each segment for itself. Lower DDP's `bucket_cap_mb` to 4, so that
        segments are complete early. The state of the compressor is stored twice. "auto" is False for
        a single rank, and for compressors that select from the whole gradient (TopK, DGC, MiCRO: with overlap a density
        is that of each segment). For the others it makes the first ten steps with and without overlap by turns, which
        have the same bits, and keeps the faster mode.

    Attributes
    ----------
    stats : Stats
        Bytes and times of the last step and of all steps.

    Raises
    ------
    DataError
        If a setting has another type or value.
    BitlaneError
        If there is no process group.

    Examples
    --------
    >>> from bitlane.compress import LQSGD, attach
    >>> ddp = DistributedDataParallel(model)  # doctest: +SKIP
    >>> with attach(ddp, LQSGD(rank=2)) as compression:  # doctest: +SKIP
    ...     train(ddp)
    """

    def __init__(  # noqa: PLR0913  # all but the first have defaults
        self,
        compressor: Compressor,
        process_group: dist.ProcessGroup | None = None,
        link_model: AlphaBetaModel | None = None,
        nonfinite: NonFinite | None = None,
        debug: bool = False,
        timeout: float = 600.0,
        start: int = 0,
        grad_scaler: torch.amp.GradScaler | None = None,
        overlap: Overlap = "auto",
    ):
        check_settings(compressor, link_model, timeout, grad_scaler)
        self.compressor = compressor
        self.rules = step_rules(nonfinite, debug, start, grad_scaler)
        self.link_model = link_model or AlphaBetaModel()
        self._overlap = checked_overlap(overlap)
        self.stats = Stats()
        with ExitStack() as on_error:
            self.transport: Transport = TorchTransport(process_group, timeout)
            on_error.callback(self.transport.close)
            warm_up(compressor, self.transport.size)
            self._averaged = in_segments(compressor, overlap, self.transport.size)
            self._buckets = Buckets()
            on_error.pop_all()
        self._overlapped: OverlappedStep | None = None  # the step of this backward pass, if segments are averaged in it
        self._grad_scaler = grad_scaler
        self._error: BaseException | None = None  # of this backward pass
        self._names: list[str] = []  # of the parameters in the order of the vector, if they are known
        self._steps: StepRunner | None = None
        self._saved: SavedState | None = None
        self._loss: float | None = None

    def set_parameters(self, named: Mapping[str, Tensor]) -> None:
        """Set the parameters that have gradients, by name, in the order of registration; before the first step."""
        names = {parameter: name for name, parameter in named.items()}
        self._buckets = Buckets(list(named.values()))
        self._names = [names[parameter] for parameter in self._buckets.parameters]

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """What DDP calls for each bucket; the future holds the bucket's average.

        Raises
        ------
        DataError: a type of gradient that is not supported, ranks with different settings, a value that is not finite.
        RankFailed: another rank failed, ended, or did not answer in time.
        """
        if not isinstance(bucket, dist.GradBucket):
            raise DataError(
                f"DDPCompression is a hook of DistributedDataParallel without compiled autograd, which calls it with a "
                f"GradBucket; got {type(bucket).__name__}. For FSDP2 use attach_fsdp"
            )
        future = self._buckets.add(bucket)
        if self._buckets.waiting == 1:
            self._begin_step()
        if self._overlapped is not None:
            self._overlapped.add(self._buckets.last_gradients)
        if self._buckets.complete:
            self._complete()
        elif self._buckets.last_unknown:
            self._try(self._average_single_buckets)
        return future

    @property
    def overlaps(self) -> bool:
        """Whether the next step is exchanged during the backward pass; False before the first step."""
        return self._steps is not None and self._steps.overlaps

    @property
    def choice(self) -> AutoChoice | None:
        """The bits that `Auto` has chosen last, and why; None before its first choice, and for other compressors."""
        return None if self._steps is None else self._steps.choice

    def close(self) -> None:
        """Free the connections and threads; the state stays. A step after it raises. A second call does nothing."""
        if self._overlapped is not None:
            self._overlapped.stop("the compression was closed in a step")
        self.transport.close()

    def __enter__(self) -> "DDPCompression":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Detached.of(self)

    def observe(self, loss: Tensor | float) -> None:
        """Report the loss of this rank's batch, before `backward()`; bit policies such as MQGrad use it.

        Parameters
        ----------
        loss : Tensor or float
            Mean loss of the batch.
        """
        self._loss = float(loss.detach() if isinstance(loss, Tensor) else loss)
        self.start_clock()

    def start_clock(self, *_: object) -> None:
        """Begin the time of a step, for bit policies: `attach` calls it before a forward pass of training."""
        if self._steps is not None and torch.is_grad_enabled():
            self._abandon()
            self._steps.start_clock()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank, which the next step depends on: tensors, numbers and text.

        Every rank must save its state.

        Raises
        ------
        DataError
            Before the first step.
        """
        if self._steps is not None:
            names = {"names": list(self._names)} if self._names else {}
            return {**self._steps.state_dict(), **names, "order": "elements"}
        if self._saved is None:
            raise DataError("there is no state before the first step")
        return dict(self._saved)

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state that `state_dict` returned on this rank, before the first step or later.

        If parameters were frozen or unfrozen since then, the others keep their residuals: wrap the model again, attach,
        and load the state.

        Raises
        ------
        DataError
            If the state is from another compressor, rank or number of ranks. A state of another model raises in the
            first step, if it was not saved and loaded after `attach`.
        """
        check_identity(state, identity(self._averaged, self.transport.rank, self.transport.size))
        check_order(state, self._buckets.parameters)
        if self._names and state.get("names", self._names) != self._names:
            state = renamed(self.compressor, state, self._names, self._buckets.layout)
        self._saved = state
        if self._steps is not None:
            self._steps.load_state_dict(state)

    def _begin_step(self) -> None:
        """Prepare for the first bucket of a step."""
        self._abandon()
        if _in_backward():  # DDP may leave out the last bucket, and errors wait for the end of the pass
            _queue_callback(self._end_backward)
        if self._buckets.all_known:
            steps = self._step_runner()
            if steps.overlaps:
                scale = self._scale()
                loss, has_batch = self._take_loss(), _in_backward()
                at_end = StepEnd(*self._buckets_of_step(scale), self._buckets.give_back, loss, has_batch)
                self._overlapped = OverlappedStep(steps, self._buckets.memory(), scale, at_end)

    def _abandon(self) -> None:
        """Leave the step of a backward pass that ended with an error."""
        overlapped, self._overlapped = self._overlapped, None
        if overlapped is not None:
            overlapped.abandon()

    def _end_backward(self) -> None:
        """Average what waits at the end of a backward pass. Autograd calls it before DDP waits for its buckets."""
        if self._overlapped is not None:
            self._overlapped.end()
            self._try(self._wait)
        elif self._buckets.waiting:
            self._try(self._step)
        if self._error is not None:
            _queue_callback(self._raise)  # after DDP's own callback, so that DDP can continue

    def _try(self, work: Callable[[], None]) -> None:
        """Call `work`. After an error return the buckets to DDP, and keep the error for the end of the pass."""
        try:
            work()
        except BaseException as error:
            self._buckets.give_back()
            if not _in_backward():
                raise
            self._error = self._error or error

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _complete(self) -> None:
        """Average the buckets of a step that has no more."""
        if self._overlapped is None:
            self._try(self._step)
            return
        self._overlapped.end()  # in the first step of a static graph, DDP waits right after its last bucket
        if not _in_backward():
            self._try(self._wait)

    def _wait(self) -> None:
        overlapped, self._overlapped = self._overlapped, None
        if overlapped is not None:
            overlapped.wait()

    def _step(self) -> None:
        gradient, deliver = self._buckets_of_step(self._scale())
        self._step_runner().average(gradient, self._take_loss(), deliver, has_batch=_in_backward())

    def _buckets_of_step(self, scale: float) -> tuple[Callable[[], Tensor], Callable[[Tensor], None]]:
        """Return what makes the vector of the buckets, and what copies the average to them."""
        return partial(self._buckets.vector, scale), partial(self._buckets.finish, scale=scale)

    def _take_loss(self) -> float | None:
        loss, self._loss = self._loss, None
        return loss

    def _step_runner(self) -> StepRunner:
        """Return what runs the steps; it is made in the first step."""
        if self._steps is None:
            self._steps = self._new_runner(self._averaged, self._buckets.layout, self._buckets.device)
            self._steps.trial = OverlapTrial() if self._overlap == "auto" else None
            if self._saved is not None:
                self._steps.load_state_dict(self._saved)
        return self._steps

    def _scale(self) -> float:
        return 1.0 if self._grad_scaler is None else self._grad_scaler.get_scale()

    def _average_single_buckets(self) -> None:
        """Average each pending bucket separately, uncompressed."""
        for pending in self._buckets.take():
            layout = [ParameterSpan(0, (pending.buffer.numel(),))]
            steps = self._new_runner(Uncompressed(), layout, pending.buffer.device)
            pending.buffer.copy_(steps.average(pending.gradient))
            pending.finish()

    def _new_runner(self, compressor: Compressor, layout: Layout, device: torch.device) -> StepRunner:
        return StepRunner(compressor, self.transport, self.link_model, layout, device, self.stats, self.rules)


def _in_backward() -> bool:
    """Return whether autograd runs; DDP also calls the hook for a rank whose data have ended (`Join`)."""
    return bool(torch._C._current_graph_task_id() != -1)


def _queue_callback(call: Callable[[], None]) -> None:
    """Let autograd call this at the end of the backward pass, after those that were queued before."""
    torch.autograd.Variable._execution_engine.queue_callback(call)
