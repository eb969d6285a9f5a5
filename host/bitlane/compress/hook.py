"""A DDP communication hook: the gradient of a step as one vector, averaged by a compressor, in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import DataError
from .compressor import Compressor, Layout, Parameter, Reducer
from .link import Link
from .plan import LinkModel
from .transport import TorchTransport
from .wire import Header


@dataclass
class Stats:
    """What a step moved, and all steps so far. `bytes_sent`: by this rank, every byte that goes to another."""

    steps: int = 0
    bytes_sent: int = 0
    total_bytes_sent: int = 0


@dataclass
class _Waiting:
    """A bucket whose average is not there yet."""

    buffer: Tensor
    places: list[Parameter]
    future: torch.futures.Future[Tensor] = field(default_factory=torch.futures.Future)


class DDPCompression:
    """The state of a communication hook: `model.register_comm_hook(compression, DDPCompression.hook)`.

    Buckets wait for the last of their step, and go as one vector: in the order in which the model registered its
    parameters, last first, however DDP cuts and orders its buckets. So a step is all or nothing, a bucket's size
    changes no bit, and compressors see the whole gradient, as their papers have it.

    Parameters
    ----------
    compressor: settings, the same on every rank.
    process_group: that of the model; None for the default group.
    model: what sending costs, by which a way of averaging is chosen.
    """

    def __init__(
        self,
        compressor: Compressor,
        process_group: dist.ProcessGroup | None = None,
        link_model: LinkModel | None = None,
    ):
        self.compressor = compressor
        self.link_model = link_model or LinkModel()
        self.transport = TorchTransport(process_group)
        self.stats = Stats()
        self._places: dict[Tensor, Parameter] = {}
        self._waiting: list[_Waiting] = []
        self._reducer: Reducer | None = None
        self._link: Link | None = None

    def hook(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """What DDP calls for each bucket; the future holds the bucket's average."""
        parameters = bucket.parameters()
        if self._reducer is None:
            end = sum(parameter.numel() for parameter in self._places)
            for parameter in reversed(parameters):
                self._places[parameter] = Parameter(end, tuple(parameter.shape))
                end += parameter.numel()
        waiting = _Waiting(bucket.buffer(), [self._places[parameter] for parameter in parameters])
        self._waiting.append(waiting)
        if bucket.is_last():
            step, self._waiting = self._waiting, []
            self._average(step)
        return waiting.future

    def _average(self, buckets: list[_Waiting]) -> None:
        if self._reducer is None:
            self._begin(buckets[0].buffer.device)
        assert self._reducer is not None and self._link is not None
        vector = torch.empty(sum(place.end - place.begin for place in self._places.values()))
        for bucket in buckets:
            at = 0
            for place in bucket.places:
                size = place.end - place.begin
                vector[place.begin : place.end] = bucket.buffer[at : at + size]
                at += size
        before = self.transport.sent
        header = Header(self.compressor.codec, self._reducer.bits, len(vector), 0, step=self.stats.steps)
        self._link.agree(header)
        self._reducer.average(vector, self.stats.steps)
        self.stats.steps += 1
        self.stats.bytes_sent = self.transport.sent - before
        self.stats.total_bytes_sent += self.stats.bytes_sent
        for bucket in buckets:
            at = 0
            for place in bucket.places:
                size = place.end - place.begin
                bucket.buffer[at : at + size] = vector[place.begin : place.end]
                at += size
            bucket.future.set_result(bucket.buffer)

    def _begin(self, device: torch.device) -> None:
        layout: Layout = list(self._places.values())
        settings = f"{self.compressor!r}, {self.link_model!r}, {len(layout)} parameters {[p.shape for p in layout]}"
        self._link = Link(self.transport, settings)
        self._reducer = self.compressor.reducer(layout, self._link, self.link_model, device)

    def state_dict(self) -> dict[str, Any]:
        if self._reducer is None:
            raise DataError("nothing to save before the first step")
        return {"steps": self.stats.steps, "reducer": self._reducer.state_dict()}
