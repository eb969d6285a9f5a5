"""A DDP communication hook: the gradient of a step as one vector, averaged by a compressor, in place."""

# DDP compares the hook's annotations with types, so they cannot be text: no `from __future__ import annotations`.
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import Compressor, Layout, ParameterSpan, SavedState
from ..compressors.uncompressed import Uncompressed
from .buckets import Buckets
from .states import check_identity, identity
from .stats import Stats
from .steps import NonFinite, StepRunner


class DDPCompression:
    """The state of a communication hook: `model.register_comm_hook(compression, DDPCompression.hook)`.

    Buckets wait for the last of their step, and go as one vector: in the order in which the model registered its
    parameters, last first, those of a type together, however DDP cuts and orders its buckets. So a step is all or
    nothing, a bucket's size changes no bit, and compressors see the whole gradient, as their papers have it.

    It is made on every rank at the same point, and registered before the first step. Gradients are float32, bfloat16 or
    float16, averaged in float32; rounding the average to its type is not fed back. With static_graph=True and
    gradients of several types DDP does not tell in the first step which bucket is the last: it goes bucket by bucket,
    in float32.

    Parameters
    ----------
    compressor: settings, the same on every rank.
    process_group: that of the model; None for the default group.
    link_model: what sending costs, by which a way of averaging is chosen.
    nonfinite: where some rank's gradient has NaN or infinite values, "raise" raises DataError on every rank, "skip"
        gives every rank zeros, and "pass" averages this step in float32, uncompressed, so that a GradScaler sees it.
        In all three cases what is kept from step to step stays as it is.
    debug: check in every step that all ranks got the same bytes, and that no gradient was lost; slow, and its own bytes
        count as sent.
    patience: seconds that a rank waits for another before it raises.

    """

    def __init__(
        self,
        compressor: Compressor,
        process_group: dist.ProcessGroup | None = None,
        link_model: AlphaBetaModel | None = None,
        nonfinite: NonFinite = "raise",
        debug: bool = False,
        patience: float = 600.0,
    ):
        if nonfinite not in get_args(NonFinite):
            raise DataError(f"nonfinite={nonfinite!r}: choose one of {', '.join(get_args(NonFinite))}")
        self.compressor, self.nonfinite, self.debug = compressor, nonfinite, debug
        self.link_model = link_model or AlphaBetaModel()
        self.transport: Transport = TorchTransport(process_group, patience)
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
                "DDPCompression averages the buckets of DistributedDataParallel; FSDP2's all-reduce hook hands over a "
                "shard that has already been averaged within its mesh, module by module: nothing is left to compress"
            )
        future = self._buckets.add(bucket)
        if bucket.is_last():
            self._step(bucket.buffer().device)
        elif self._buckets.last_unknown:
            self._one_by_one()
        return future

    def observe(self, loss: Tensor | float) -> None:
        """Tell the loss of this rank's batch, before backward(): policies such as MQGrad choose bits by it."""
        self._loss = float(loss)

    def state_dict(self) -> dict[str, Any]:
        """What this rank's next step depends on: tensors, numbers and text. DataError where there was no step yet."""
        if self._steps is not None:
            state: dict[str, Any] = self._steps.state_dict()
            return state
        if self._saved is None:
            raise DataError("nothing to save before the first step")
        return dict(self._saved)

    def load_state_dict(self, state: SavedState) -> None:
        """Go on from what this rank's `state_dict` gave, before the first step or later.

        Raises DataError where it is of another compressor, rank or number of ranks; where it is of another model, the
        first step does.
        """
        check_identity(state, identity(self.compressor, self.transport.rank, self.transport.size))
        self._saved = state
        if self._steps is not None:
            self._steps.load_state_dict(state)

    def _step(self, device: torch.device) -> None:
        if self._steps is None:
            self._steps = self._begun(self.compressor, self._buckets.layout, device)
            if self._saved is not None:
                self._steps.load_state_dict(self._saved)
        loss, self._loss = self._loss, None
        self._buckets.finish(self._steps.average(self._buckets.vector, loss))

    def _one_by_one(self) -> None:
        """Average the buckets that wait, each by itself, uncompressed."""
        for waiting in self._buckets.take():
            layout = [ParameterSpan(0, (waiting.buffer.numel(),))]
            steps = self._begun(Uncompressed(), layout, waiting.buffer.device)
            waiting.buffer.copy_(steps.average(waiting.gradient))
            waiting.finish()

    def _begun(self, compressor: Compressor, layout: Layout, device: torch.device) -> StepRunner:
        settings = (self.transport, self.link_model, layout, device, self.stats, self.nonfinite, self.debug)
        return StepRunner(compressor, *settings)
