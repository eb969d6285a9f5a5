"""A DDP communication hook that averages the gradient of a step with a compressor."""

# DDP compares the hook's annotations with types, so they cannot be text: no `from __future__ import annotations`.
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import Compressor, Layout, ParameterSpan, SavedState
from ..compressors.uncompressed import Uncompressed
from .buckets import TYPES, Buckets
from .states import check_identity, identity
from .stats import Stats
from .steps import NonFinite, StepRunner


class DDPCompression:
    """The state of a DDP communication hook that compresses gradients.

    All buckets of a step are averaged as one vector, when the last one has arrived. The vector has the parameters of
    one type adjacent, in reverse order of registration. So the size of the buckets does not change the result, and the
    compressor sees the whole gradient, as in the papers.

    `attach` makes and registers one; `close` frees its connections and threads. Both happen at the same point on every
    rank. Gradients can be float32, bfloat16 or float16. They are averaged in float32; the error of rounding the average
    to its type is not fed back. A bucket that DDP leaves out of a step has the gradient 0.

    Registered by hand, without `attach`, it learns the parameters in the first step. With `static_graph=True` and
    gradients of several types the last bucket of that step is unknown, so it is averaged bucket by bucket in float32.

    Parameters
    ----------
    compressor : Compressor
        The settings, equal on all ranks.
    process_group : torch.distributed.ProcessGroup or None, default: None
        The process group of the model; None for the default group.
    link_model : AlphaBetaModel or None, default: None
        The cost model that chooses the collective; None for the defaults of `AlphaBetaModel`.
    nonfinite : {"raise", "skip", "pass"}, default: "raise"
        What to do if the gradient of any rank has NaN or infinite values. "raise" raises DataError on all ranks. "skip"
        sets the average to zero. "pass" averages the step uncompressed, so that a GradScaler sees the values. The
        state of the compressor does not change in any of these cases.
    debug : bool, default: False
        Check in every step that all ranks got identical bytes and that gradients and residuals are conserved. The
        checks are slow, and their traffic counts as sent.
    timeout : float, default: 600
        Seconds that a rank waits for another before it raises.

    Attributes
    ----------
    stats : Stats
        Bytes and times of the last step and of all steps.

    Raises
    ------
    DataError
        If `nonfinite` has another value.
    BitlaneError
        If there is no process group.

    Examples
    --------
    >>> from bitlane.compress import LQSGD, attach
    >>> ddp = DistributedDataParallel(model)  # doctest: +SKIP
    >>> with attach(ddp, LQSGD(rank=2)) as compression:  # doctest: +SKIP
    ...     train(ddp)
    """

    def __init__(
        self,
        compressor: Compressor,
        process_group: dist.ProcessGroup | None = None,
        link_model: AlphaBetaModel | None = None,
        nonfinite: NonFinite = "raise",
        debug: bool = False,
        timeout: float = 600.0,
    ):
        if nonfinite not in get_args(NonFinite):
            raise DataError(f"nonfinite must be one of {', '.join(get_args(NonFinite))}; got {nonfinite!r}")
        self.compressor, self.nonfinite, self.debug = compressor, nonfinite, debug
        self.link_model = link_model or AlphaBetaModel()
        self.transport: Transport = TorchTransport(process_group, timeout)
        self.stats = Stats()
        self._buckets = Buckets()
        self._steps: StepRunner | None = None
        self._saved: SavedState | None = None
        self._loss: float | None = None

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """What DDP calls for each bucket; the future holds the bucket's average.

        Raises
        ------
        DataError: a type of gradient that is not supported, ranks with different settings, a value that is not finite.
        RankFailed: another rank failed, ended, or did not answer in time.
        """
        if not isinstance(bucket, dist.GradBucket):
            raise DataError(
                "DDPCompression requires DistributedDataParallel: FSDP2 calls its all-reduce hook after the gradients "
                "have been averaged within the mesh, so that nothing is left to compress"
            )
        future = self._buckets.add(bucket)
        if self._buckets.complete:
            self._step()
        elif self._buckets.last_unknown:
            self._average_single_buckets()
        elif self._buckets.waiting == 1 and torch._C._current_graph_task_id() != -1:
            # The first bucket of a backward pass: DDP may leave out the last one.
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        return future

    def close(self) -> None:
        """Free the connections and threads; the state stays. A step after it raises. A second call does nothing."""
        self.transport.close()

    def __enter__(self) -> "DDPCompression":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def observe(self, loss: Tensor | float) -> None:
        """Report the loss of this rank's batch, before `backward()`; bit policies such as MQGrad use it.

        Parameters
        ----------
        loss : Tensor or float
            Mean loss of the batch.
        """
        self._loss = float(loss)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank, which the next step depends on: tensors, numbers and text.

        Every rank must save its state.

        Raises
        ------
        DataError
            Before the first step.
        """
        if self._steps is not None:
            state: dict[str, Any] = self._steps.state_dict()
            return state
        if self._saved is None:
            raise DataError("there is no state before the first step")
        return dict(self._saved)

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state that `state_dict` returned on this rank, before the first step or later.

        Raises
        ------
        DataError
            If the state is from another compressor, rank or number of ranks. A state of another model raises in the
            first step.
        """
        check_identity(state, identity(self.compressor, self.transport.rank, self.transport.size))
        self._saved = state
        if self._steps is not None:
            self._steps.load_state_dict(state)

    def _end_backward(self) -> None:
        """Average what waits at the end of a backward pass. Autograd calls it before DDP waits for its buckets."""
        if self._buckets.waiting:
            self._step()

    def _step(self) -> None:
        if self._steps is None:
            self._steps = self._step_runner(self.compressor, self._buckets.layout, self._buckets.device)
            if self._saved is not None:
                self._steps.load_state_dict(self._saved)
        loss, self._loss = self._loss, None
        self._buckets.finish(self._steps.average(self._buckets.vector, loss))

    def _average_single_buckets(self) -> None:
        """Average each pending bucket separately, uncompressed."""
        for pending in self._buckets.take():
            layout = [ParameterSpan(0, (pending.buffer.numel(),))]
            steps = self._step_runner(Uncompressed(), layout, pending.buffer.device)
            pending.buffer.copy_(steps.average(pending.gradient))
            pending.finish()

    def _step_runner(self, compressor: Compressor, layout: Layout, device: torch.device) -> StepRunner:
        settings = (self.transport, self.link_model, layout, device, self.stats, self.nonfinite, self.debug)
        return StepRunner(compressor, *settings)


def attach(ddp: DistributedDataParallel, compressor: Compressor, **settings: Any) -> DDPCompression:
    """Compress the gradients of a model in DDP, over its own process group.

    Call it at the same point on every rank, before the first step. DDP takes one hook: wrap the model again to attach
    another compressor.

    Parameters
    ----------
    ddp : DistributedDataParallel
        The model. All of its parameters are known before the first step, so that DDP may leave out any bucket of any
        step, and a static graph needs no exception.
    compressor : Compressor
        The settings, equal on all ranks.
    **settings
        Other arguments of `DDPCompression`.

    Returns
    -------
    DDPCompression
        Close it, or use it as a context manager, when the training is over.

    Raises
    ------
    DataError
        The model is not in DDP, or has parameters of a type that is not supported; a wrong setting.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise DataError(f"attach takes a model in DistributedDataParallel; got {type(ddp).__name__}")
    ignored = getattr(ddp, "parameters_to_ignore", ())
    named = [(name, each) for name, each in ddp.module.named_parameters() if each.requires_grad and name not in ignored]
    for name, each in named:
        if each.dtype not in TYPES:
            raise DataError(f"{name} has the type {each.dtype}: its gradient must be float32, bfloat16 or float16")
    compression = DDPCompression(compressor, process_group=ddp.process_group, **settings)
    compression._buckets = Buckets([each for _, each in named])
    ddp.register_comm_hook(compression, DDPCompression.hook)
    return compression
