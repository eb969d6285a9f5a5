"""The buckets of DDP as one gradient vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from bitlane.errors import DataError

from ..compressor import Layout, ParameterSpan, layout_of_shapes, vector_length

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
TYPE_NAMES = "float64, float32, bfloat16 or float16"


@dataclass
class PendingBucket:
    """A bucket that waits for its average."""

    buffer: Tensor
    parameters: list[Tensor]
    future: torch.futures.Future[Tensor] = field(default_factory=torch.futures.Future)

    def checked_buffer(self) -> Tensor:
        """Return the buffer [n]; raise DataError if it is sparse or has an unsupported type."""
        if self.buffer.layout != torch.strided:
            raise DataError(
                "sparse gradients are not supported: create the embedding with sparse=False, or exclude its "
                "parameters from DDP"
            )
        for dtype in (self.buffer.dtype, *(each.dtype for each in self.parameters)):  # DDP sees complex as two floats
            if dtype not in TYPES:
                raise DataError(f"gradients of {dtype} are not supported: use {TYPE_NAMES}")
        return self.buffer

    def gradient(self) -> Tensor:
        """Return a copy of the bucket as float32 [n]; errors as in `checked_buffer`."""
        return self.checked_buffer().to(torch.float32, copy=True)

    def finish(self) -> None:
        """Return the buffer to DDP."""
        self.future.set_result(self.buffer)


class Buckets:
    """The buckets of a step, and the spans of their parameters in the gradient vector.

    A span has the elements of a parameter in their order, whatever its memory format. Parameters of one type are
    adjacent, in reverse order of registration. This is the order of DDP's first buckets for any bucket size. Without
    `parameters` the spans of the first step remain for all steps. A parameter whose bucket DDP leaves out of a step has
    the gradient 0 there.

    Parameters
    ----------
    parameters : sequence of Tensor, default: ()
        The parameters of the model that have gradients, in the order of registration, if they are known.

    Attributes
    ----------
    complete : bool
        Whether the bucket that was added last completes the step, as far as DDP reports it.
    last_unknown : bool
        Whether the last bucket of the step is unknown: in the first step of a static graph all have the index 0.
    """

    def __init__(self, parameters: Sequence[Tensor] = ()) -> None:
        self.complete = self.last_unknown = False
        self._pending: list[PendingBucket] = []
        # Types of the parameters, in the order of the vector within each type.
        self._types = {parameter: str(parameter.dtype) for parameter in reversed(parameters)}
        self._known = len(self._types)  # 0 if the first step finds them
        self._spans: dict[Tensor, ParameterSpan] = {}
        self._vector: Tensor | None = None

    def add(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Add a `GradBucket`; the future receives its buffer when that holds the average."""
        pending = PendingBucket(bucket.buffer(), bucket.parameters())
        if self._known:
            self._add_known(pending)
            self.complete = self._waiting_parameters == self._known
            return pending.future
        self.complete = bucket.is_last()
        fresh = pending.parameters[0] not in self._types
        if bucket.index() == 0:
            self.last_unknown = fresh and bool(self._types)
            if not self.last_unknown:  # discard the buckets of a step that an error aborted
                self._pending = []
        self._pending.append(pending)
        if fresh:
            self._types.update((parameter, str(pending.buffer.dtype)) for parameter in reversed(pending.parameters))
        return pending.future

    def _add_known(self, pending: PendingBucket) -> None:
        for parameter in pending.parameters:
            if parameter not in self._types:
                raise DataError(
                    f"a parameter of shape {tuple(parameter.shape)} does not belong to the attached model: after "
                    "wrapping a model again, attach again"
                )
        if any(pending.parameters[0] is other for each in self._pending for other in each.parameters):
            self._pending = []  # of a step that an error aborted
        self._pending.append(pending)

    @property
    def all_known(self) -> bool:
        """Whether all parameters of the model are known before the first step."""
        return bool(self._known)

    @property
    def waiting(self) -> int:
        """Number of buckets that wait for the end of the step."""
        return len(self._pending)

    @property
    def _waiting_parameters(self) -> int:
        return sum(len(each.parameters) for each in self._pending)

    @property
    def device(self) -> torch.device:
        """The device of the gradients; for a step whose buckets wait."""
        return self._pending[0].buffer.device

    def take(self) -> list[PendingBucket]:
        """Remove and return the pending buckets."""
        taken, self._pending = self._pending, []
        return taken

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters that are known so far, in the order of the vector."""
        return sorted(self._types, key=self._types.__getitem__)

    @property
    def layout(self) -> Layout:
        """Spans of all parameters, ascending. First used when all parameters are known."""
        if not self._spans:
            layout = layout_of_shapes(parameter.shape for parameter in self.parameters)
            self._spans.update(zip(self.parameters, layout, strict=True))
        return list(self._spans.values())

    def vector(self, scale: float = 1.0) -> Tensor:
        """Return the gradient divided by `scale`, float32 [n], in memory that the next step overwrites.

        It is the buffer of a single bucket itself, if that has all values in the order of the vector. Errors as in
        `checked_buffer`.
        """
        if self._is_vector():
            vector, self._vector = self._pending[0].buffer, None  # the first step needs a copy, before DDP sorts
        else:
            vector = self._copied()
        return vector if scale == 1 else vector.div_(scale)

    def _is_vector(self) -> bool:
        """Return whether the only bucket of the step is the vector."""
        if len(self._pending) > 1 or self._waiting_parameters < len(self.layout):
            return False
        [pending] = self._pending
        found = self._gradients(pending, pending.checked_buffer())
        begins = [span.begin for span, _ in found]
        in_order = begins == sorted(begins) and all(gradient.is_contiguous() for _, gradient in found)
        return in_order and pending.buffer.dtype == torch.float32

    def _copied(self) -> Tensor:
        vector = self.memory()
        if self._waiting_parameters < len(self._spans):
            vector.zero_()
        for pending in self._pending:
            for span, gradient in self._gradients(pending, pending.checked_buffer()):
                span.view(vector).copy_(gradient)
        return vector

    def memory(self) -> Tensor:
        """Return memory for a gradient vector, float32 [n], with any values; the same in all steps."""
        if self._vector is None:
            self._vector = torch.empty(vector_length(self.layout), device=self.device)
        return self._vector

    def last_gradients(self) -> list[tuple[ParameterSpan, Tensor]]:
        """Return parameters and gradients of the bucket that was added last, in their shapes; errors as above."""
        pending = self._pending[-1]
        return self._gradients(pending, pending.checked_buffer())

    def finish(self, vector: Tensor, scale: float = 1.0) -> None:
        """Copy `vector` times `scale` to the buckets, in the type of each bucket, and return them to DDP."""
        if scale != 1:
            vector.mul_(scale)
        taken = self.take()
        for pending in taken:
            if pending.buffer.data_ptr() != vector.data_ptr():
                for span, gradient in self._gradients(pending, pending.buffer):
                    gradient.copy_(span.view(vector))
        if vector.is_cuda:
            torch.cuda.current_stream(vector.device).synchronize()  # DDP may wait on another stream
        for pending in taken:
            pending.finish()

    def give_back(self) -> None:
        """Return the pending buckets to DDP as they are, with the gradients of this rank."""
        for pending in self.take():
            pending.finish()

    def _gradients(self, pending: PendingBucket, buffer: Tensor) -> list[tuple[ParameterSpan, Tensor]]:
        """Return the parameters of a bucket, and views of their gradients, each in the shape of its parameter."""
        parts = buffer.split([parameter.numel() for parameter in pending.parameters])
        found = []
        for parameter, flat in zip(pending.parameters, parts, strict=True):
            if parameter not in self._spans:
                raise DataError(
                    f"a parameter of shape {tuple(parameter.shape)} had no gradient in the first step: use "
                    "bitlane.compress.attach, which registers all parameters, instead of register_comm_hook"
                )
            found.append((self._spans[parameter], in_logical_order(flat, parameter)))
        return found


def in_logical_order(flat: Tensor, parameter: Tensor) -> Tensor:
    """Return a view of the gradient of a parameter in a bucket, `flat` [n], in the shape of the parameter.

    DDP stores gradients in the order of the parameter's memory, if that has no gaps and no overlaps (channels_last,
    transposed), otherwise in the order of its elements.
    """
    if parameter.is_contiguous() or torch.empty_like(parameter, device="meta").stride() != parameter.stride():
        return flat.view(parameter.shape)
    return flat.as_strided(parameter.shape, parameter.stride())
