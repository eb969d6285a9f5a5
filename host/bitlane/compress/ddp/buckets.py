"""DDP's buckets as one vector: where each parameter's gradient lies, and the way there and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bitlane.errors import DataError

from ..compressor import Layout, ParameterSpan, vector_length

TYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass
class PendingBucket:
    """A bucket whose average is not there yet."""

    buffer: Tensor
    parameters: list[Tensor]
    future: torch.futures.Future[Tensor] = field(default_factory=torch.futures.Future)

    def checked(self) -> Tensor:
        """The buffer [n]; DataError where it has a type that is not supported, or is sparse."""
        if self.buffer.layout != torch.strided:
            raise DataError(
                "sparse gradients are not compressed: make the embedding with sparse=False, or keep its parameters "
                "out of DDP"
            )
        if self.buffer.dtype not in TYPES:
            raise DataError(f"gradients of {self.buffer.dtype} are not compressed: float32, bfloat16, float16 are")
        return self.buffer

    def gradient(self) -> Tensor:
        """The bucket by itself, float32 [n]; DataError as `checked`."""
        return self.checked().to(torch.float32, copy=True)

    def finish(self) -> None:
        """Give the buffer back to DDP."""
        self.future.set_result(self.buffer)


class Buckets:
    """The buckets of a step, and the places of their parameters in the vector.

    Parameters of a type lie together; among them, the one that the model registered last comes first. That is the order
    in which DDP cuts its first buckets, whatever their size; places stay what they were in the first step.

    Attributes
    ----------
    untold: whether DDP does not tell which bucket is the last: in the first step of a static graph all are number 0.
    """

    def __init__(self) -> None:
        self.last_unknown = False
        self._waiting: list[PendingBucket] = []
        self._types: dict[Tensor, str] = {}  # of parameters, in the order of the first step
        self._places: dict[Tensor, ParameterSpan] = {}
        self._vector: Tensor | None = None

    def add(self, bucket: Any) -> torch.futures.Future[Tensor]:
        """Take in a `GradBucket`; the future gets its buffer when that has been filled."""
        waiting = PendingBucket(bucket.buffer(), bucket.parameters())
        fresh = waiting.parameters[0] not in self._types
        if bucket.index() == 0:
            self.last_unknown = fresh and bool(self._types)
            if not self.last_unknown:  # those of a step that an error cut short are forgotten
                self._waiting = []
        self._waiting.append(waiting)
        if fresh:
            self._types.update((parameter, str(waiting.buffer.dtype)) for parameter in reversed(waiting.parameters))
        return waiting.future

    def take(self) -> list[PendingBucket]:
        """The buckets that wait; none do from then on."""
        taken, self._waiting = self._waiting, []
        return taken

    @property
    def layout(self) -> Layout:
        """Places of all parameters, ascending. Asked for first when all buckets of a step have been there."""
        if not self._places:
            end = 0
            for parameter in sorted(self._types, key=self._types.__getitem__):
                self._places[parameter] = ParameterSpan(end, tuple(parameter.shape))
                end += parameter.numel()
        return list(self._places.values())

    def vector(self) -> Tensor:
        """The gradient, float32 [n], in memory that is used again in the next step. DataError as `Waiting.checked`."""
        if self._vector is None:
            self._vector = torch.empty(vector_length(self.layout), device=self._waiting[0].buffer.device)
        for waiting in self._waiting:
            for place, part in self._parts(waiting, waiting.checked()):
                self._vector[place.begin : place.end] = part
        return self._vector

    def finish(self, vector: Tensor) -> None:
        """Give every bucket its values of `vector`, in the bucket's own type."""
        for waiting in self.take():
            for place, part in self._parts(waiting, waiting.buffer):
                part.copy_(vector[place.begin : place.end])
            waiting.finish()

    def _parts(self, waiting: PendingBucket, buffer: Tensor) -> list[tuple[ParameterSpan, Tensor]]:
        places = [self._places[parameter] for parameter in waiting.parameters]
        return list(zip(places, buffer.split([place.end - place.begin for place in places]), strict=True))
